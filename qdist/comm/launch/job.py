"""A launcher's job as this process sees it: started, waited for, and always ended with all its processes.

keeper.py, which runs the launcher, does the ending; it also notices when this process dies. What is left to do here is
to ask for it: on an error, on Ctrl-C, and on SIGTERM and SIGHUP, which would end Python without any clean-up.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from types import FrameType, TracebackType
from typing import Any

from qdist.comm import standalone

__all__ = ["Job", "Signalled"]

_KEEPER = standalone.FOLDER / "keeper.py"
GRACE = 60.0
"""Seconds that ranks have to finish a step and save it, where nothing else is said."""

_LONGEST_END = 15.0
"""Seconds within which the keeper has ended all processes, or given up."""


class Signalled(BaseException):
    """SIGTERM or SIGHUP came while a job was waited for."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


class Job:
    """``with Job(command, environ) as job``: the processes run inside, and none is left outside.

    folder: removed when this process dies before it could.

    Within, SIGTERM and SIGHUP raise Signalled and Ctrl-C KeyboardInterrupt, where nobody else handles them and this is
    the main thread. Those that follow while the job is being ended make the end quicker.
    """

    def __init__(self, command: Sequence[str], environ: dict[str, str], folder: str = "") -> None:
        self._command = [sys.executable, "-S", str(_KEEPER), str(os.getpid()), folder, *command]
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None
        self._previous: dict[int, Any] = {}
        self._pending: int | None = None
        self._ending = False
        self._takers: Callable[[], list[int]] = list
        self._grace = GRACE
        self.handed_on = 0
        """The signal that was handed on to ranks, which then end the job themselves."""

    def __enter__(self) -> Job:
        self._take_signals()
        try:
            # Own session: Ctrl-C in a terminal reaches this process alone, which then ends the others in order.
            self._process = subprocess.Popen(self._command, env=self._environ, start_new_session=True)
            if self._pending is not None:
                self._raise(self._pending)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending = True
        try:
            if self._process is not None and self._process.poll() is None:
                self._process.terminate()
                try:
                    self._process.wait(_LONGEST_END)
                except subprocess.TimeoutExpired:
                    self._process.kill()
                    self._process.wait()
        finally:
            self._give_signals_back()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def poll(self) -> int | None:
        """The exit code, or None as long as the job runs."""
        assert self._process is not None
        return self._process.poll()

    def hand_on(self, takers: Callable[[], list[int]], grace: float = GRACE) -> None:
        """From now on SIGTERM and SIGUSR1 go to these processes, if there are any: they save their work and leave. What
        follows, or a job that is still there after `grace` seconds, ends it as before."""
        self._takers, self._grace = takers, grace

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, 128 + n where signal n ended the launcher. Raises subprocess.TimeoutExpired."""
        assert self._process is not None
        code = self._process.wait(timeout)
        return code if code >= 0 else 128 - code

    def _take_signals(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGALRM):
            # A handler of the program's own, and nohup, stay as they are.
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                self._previous[number] = signal.signal(number, self._on_signal)

    def _give_signals_back(self) -> None:
        if self.handed_on:
            signal.setitimer(signal.ITIMER_REAL, 0)
        while self._previous:
            signal.signal(*self._previous.popitem())

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        takers = self._takers() if number in (signal.SIGTERM, signal.SIGUSR1) and not self.handed_on else []
        if takers and not self._ending:
            self.handed_on = number
            for pid in takers:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            signal.setitimer(signal.ITIMER_REAL, self._grace)
        elif number == signal.SIGALRM:
            if self.handed_on and not self._ending:
                self._ending = True
                self._raise(self.handed_on)
        elif self._process is None:
            self._pending = number  # An exception now would lose the process that is being started.
        elif not self._ending:
            self._ending = True
            self._raise(number)
        else:
            self._process.send_signal(signal.SIGTERM)

    def _raise(self, number: int) -> None:
        raise KeyboardInterrupt if number == signal.SIGINT else Signalled(number)
