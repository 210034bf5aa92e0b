"""Runs a launcher and leaves no process of its job behind: ``keeper.py PARENT FOLDER LAUNCHER ARGUMENTS``.

Run by path, not imported (job.py), as the leader of its own session. Processes of the job that lose their parent become
its children (PR_SET_CHILD_SUBREAPER), so ranks, ssh and what ranks have started cannot get away. All of them are ended

- when the launcher fails,
- when SIGTERM, SIGINT or SIGHUP asks for it; a second one kills at once,
- when process PARENT is gone, even by SIGKILL; then FOLDER, unless empty, is removed too.

Each gets SIGTERM first and SIGKILL a few seconds later. The exit code is the launcher's, 128 + n after signal n. Uses
the standard library alone so that it starts at once.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time

from mpich_segments import Segment, segments, topologies, unlink

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL, and again until a process that does not even die from that is given up."""

_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36


class Keeper:
    """One job: its launcher, and all that came from it."""

    def __init__(self, parent: int, command: list[str]) -> None:
        self._parent = parent
        self._asked = 0
        self._segments: set[Segment] = set()
        self._poller = select.poll()
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._wake_on_signals()
        self._parent_watched = self._watch_parent()
        # Should the keeper itself be killed, the launcher gets SIGTERM. (There is one thread here, so code between fork
        # and exec is safe.)
        self._launcher = subprocess.Popen(
            command, preexec_fn=lambda: self._libc.prctl(_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        )
        self._code: int | None = None

    @property
    def orphaned(self) -> bool:
        return os.getppid() != self._parent

    def run(self) -> int:
        """Waits for the launcher, ends what must end, and gives the exit code."""
        while self._reap() and self._code is None and not self._asked and not self.orphaned:
            self._wait(None if self._parent_watched else 1.0)
        if self._code != 0:
            self._end_all()
        assert self._code is not None
        return self._code if self._code >= 0 else 128 - self._code

    def _end_all(self) -> None:
        self._remember_segments()
        end, told_all = time.monotonic() + GRACE, False
        if self._code is None:
            self._launcher.send_signal(signal.SIGTERM)  # It ends its ranks, here and on other hosts.
        while self._reap():
            now = time.monotonic()
            if self._code is not None and not told_all:
                self._signal_all(signal.SIGTERM)
                told_all = True
            if now > end or self._asked > 1:
                self._signal_all(signal.SIGKILL)
            if now > end + GRACE:
                break
            self._wait(0.05)
        unlink(self._segments)
        if self._code is None:
            self._code = -signal.SIGKILL

    def _reap(self) -> bool:
        """Takes note of the children that have ended; whether there are more."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self._launcher.pid:
                self._code = self._launcher.returncode = os.waitstatus_to_exitcode(status)

    def _signal_all(self, number: int) -> None:
        for pid in descendants(os.getpid()):
            try:
                os.kill(pid, number)
            except (ProcessLookupError, PermissionError):
                continue

    def _remember_segments(self) -> None:
        """Files of ranks that are still inside MPI_Init, before which they cannot take their names away."""
        for pid in descendants(os.getpid()):
            self._segments |= segments(pid) | topologies(pid)

    def _wake_on_signals(self) -> None:
        self._wake, theirs = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(theirs, warn_on_full_buffer=False)
        self._poller.register(self._wake, select.POLLIN)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup
                signal.signal(number, self._note)

    def _note(self, number: int, frame: object) -> None:
        self._asked += 1

    def _watch_parent(self) -> bool:
        """Whether the parent's end wakes the poller; otherwise somebody has to look from time to time."""
        try:
            self._poller.register(os.pidfd_open(self._parent), select.POLLIN)
            return True
        except OSError:
            return False

    def _wait(self, seconds: float | None) -> None:
        ready = self._poller.poll(None if seconds is None else 1000 * seconds)
        for descriptor, _ in ready:
            if descriptor == self._wake:
                os.read(self._wake, 4096)
            else:
                self._poller.unregister(descriptor)  # The parent has ended, and stays readable.
                self._parent_watched = False


def descendants(root: int) -> list[int]:
    """All processes that come from ``root``, parents first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as f:
                    # The command's name, in parentheses, may itself hold spaces and parentheses.
                    state, parent = f.read().rpartition(")")[2].split()[:2]
            except (OSError, ValueError):
                continue
            if state != "Z":
                children.setdefault(int(parent), []).append(int(name))
    found = list(children.get(root, []))
    for pid in found:
        found += children.get(pid, [])
    return found


def main() -> int:
    parent, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    keeper = Keeper(parent, command)
    code = keeper.run()
    if folder and keeper.orphaned:
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
