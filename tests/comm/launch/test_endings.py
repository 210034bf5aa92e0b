"""However a job ends, nothing of it is left: no process, no shared memory, no temporary folder."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from qdist.comm.standalone import mpich_segments
from qdist.comm.transports.libmpi import find_mpirun

pytestmark = pytest.mark.ranks

WAITING = Path(__file__).with_name("waiting.py")
KEEPER = Path(mpich_segments.__file__).with_name("keeper.py")

without_mpich = pytest.mark.skipif(find_mpirun("auto").family != "mpich", reason="looks at MPICH's shared memory")


def is_alive(pid: int) -> bool:
    """Whether a process still does something; one that has ended and that nobody has asked about does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def child_of(pid: int) -> int:
    """The first process that this one has started."""
    stats = (Path(f"/proc/{p}/stat") for p in os.listdir("/proc") if p.isdigit() and int(p) > pid)
    for stat in stats:
        with contextlib.suppress(OSError):
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                return int(stat.parent.name)
    raise AssertionError(f"process {pid} has started none")


def pending(pid: int, number: int) -> bool:
    """Whether a signal was sent to a process and has not reached it yet."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return False
    masks = [int(line.split()[1], 16) for line in lines if line.startswith(("SigPnd", "ShdPnd"))]
    return any(mask >> (number - 1) & 1 for mask in masks)


def until(condition: Callable[[], Any], seconds: float = 30) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this takes too long"
        time.sleep(0.02)


def _heed_signals() -> None:
    """As from a terminal: a shell has what it runs in the background ignore Ctrl-C, nohup SIGHUP."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Started:
    """A process that has started ranks of waiting.py, and what they told."""

    def __init__(self, folder: Path, command: list[str], ranks: int = 2) -> None:
        environ = os.environ | {"TMPDIR": str(folder), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self.folder = folder
        self.process = subprocess.Popen(
            command,
            env=environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=_heed_signals,
        )
        self._ranks = ranks
        self.processes: list[int] = []
        self.files: list[str] = []

    def await_ranks(self) -> None:
        reports = [self.folder / f"rank.{rank}" for rank in range(self._ranks)]
        until(lambda: all(r.exists() for r in reports) or self.process.poll() is not None)
        self.read()

    def read(self) -> None:
        for path in self.folder.glob("rank.*"):
            told = json.loads(path.read_text())
            self.processes += told["processes"]
            self.files += told["files"]
        assert len(self.processes) == 3 * self._ranks

    def nothing_is_left(self, *, at_once: bool = True) -> None:
        if not at_once:
            # The keeper removes the folder last.
            until(lambda: not any(map(is_alive, self.processes)) and not list(self.folder.glob("qdist-*")), 20)
        left = [pid for pid in self.processes if is_alive(pid)]
        assert left == []
        assert [path for path in self.files if os.path.exists(path)] == []
        assert list(self.folder.glob("qdist-*")) == []


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Started]]:
    jobs: list[Started] = []

    def start(*command: str | Path) -> Started:
        jobs.append(Started(tmp_path, [sys.executable, *map(str, command)]))
        return jobs[-1]

    yield start
    for job in jobs:
        job.process.kill()
        job.process.wait()
        for pid in job.processes:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)


def run_waiting(start: Callable[..., Started], folder: Path, how: str) -> Started:
    job = start("-m", "qdist", "run", "--mpi", "bundled", "-n", "2", WAITING, folder, how)
    job.await_ranks()
    return job


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda s: s.name)
def test_a_signal_to_qdist_run_ends_every_process_of_the_job(start, tmp_path: Path, number: signal.Signals) -> None:
    # SIGTERM: also shared memory that no rank has taken the name from, as between MPI_Init and init(). SIGHUP: also
    # ranks that ignore signals.
    how = {signal.SIGTERM: "mpi4py", signal.SIGHUP: "stubborn"}.get(number, "wait")
    job = run_waiting(start, tmp_path, how)
    job.process.send_signal(number)
    assert job.process.wait(20) == 128 + number
    job.nothing_is_left()


def test_what_is_left_when_qdist_run_is_killed_ends_by_itself(start, tmp_path: Path) -> None:
    job = run_waiting(start, tmp_path, "wait")
    job.process.kill()
    job.process.wait(20)
    job.nothing_is_left(at_once=False)


def keep(grace: float, script: str, folder: str = "", parent: int | None = None) -> subprocess.Popen[str]:
    """The keeper with a launcher that runs this script of a shell, and other patience."""
    code = f"import sys; sys.path.insert(0, {str(KEEPER.parent)!r}); import keeper; keeper.GRACE = {grace}; "
    command = [sys.executable, "-S", "-c", code + "sys.exit(keeper.main())", str(parent or os.getpid()), folder]
    return subprocess.Popen([*command, "sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)


STUBBORN = "trap '' TERM; sh -c 'setsid sleep 300 >/dev/null & echo $!'; while :; do sleep 300 >/dev/null; done"


@pytest.mark.parametrize(("grace", "signals"), [(0.1, 1), (1000, 2)])
def test_who_ignores_sigterm_is_killed_soon_and_at_once_when_asked_again(grace: float, signals: int) -> None:
    with keep(grace, STUBBORN) as keeper:
        assert keeper.stdout is not None
        adopted = int(keeper.stdout.readline())
        launcher = child_of(keeper.pid)
        for _ in range(signals):
            keeper.terminate()
            # The same signal twice before the first was taken counts as one.
            until(lambda: not is_alive(keeper.pid) or not pending(keeper.pid, signal.SIGTERM))
        assert keeper.wait(20) == 128 + signal.SIGKILL
    until(lambda: not is_alive(adopted), 5)
    assert not is_alive(launcher)


def test_a_killed_keeper_takes_the_launcher_with_it() -> None:
    with keep(5, "echo; exec sleep 300 >/dev/null") as keeper:
        assert keeper.stdout is not None
        keeper.stdout.readline()
        launcher = child_of(keeper.pid)
        keeper.kill()
    until(lambda: not is_alive(launcher))


def test_a_keeper_whose_parent_is_gone_already_ends_and_removes_the_folder(tmp_path: Path) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "call").write_bytes(b"x")
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    with keep(0.1, "sleep 300 >/dev/null", str(tmp_path / "job"), parent=gone.pid) as keeper:
        assert keeper.wait(20) != 0
    assert not (tmp_path / "job").exists()


def test_a_launcher_that_succeeds_leaves_running_what_its_ranks_left(tmp_path: Path) -> None:
    with keep(5, "setsid sleep 300 >/dev/null & echo $!") as keeper:
        assert keeper.stdout is not None
        daemon = int(keeper.stdout.readline())
        assert keeper.wait(20) == 0
    assert is_alive(daemon)
    os.kill(daemon, signal.SIGKILL)


@without_mpich
@pytest.mark.parametrize("how", ["raise", "kill", "abort", "late"])
def test_no_file_is_left_by_plain_mpirun(run_ranks, tmp_path: Path, how: str) -> None:
    done = run_ranks(2, [WAITING, tmp_path, how], timeout=60)
    assert done.returncode != 0
    files = [f for path in tmp_path.glob("rank.*") for f in json.loads(path.read_text())["files"]]
    assert len(files) == 4, "both ranks share one segment and one topology"
    assert [path for path in files if os.path.exists(path)] == []
    for path in tmp_path.glob("rank.*"):
        for pid in json.loads(path.read_text())["processes"]:
            if is_alive(pid):  # Plain mpirun leaves what a rank has started in a session of its own.
                os.kill(pid, signal.SIGKILL)


def test_a_failing_rank_takes_what_all_ranks_have_started_with_it(start, tmp_path: Path) -> None:
    job = start("-m", "qdist", "run", "--mpi", "bundled", "-n", "2", WAITING, tmp_path, "raise")
    assert job.process.wait(60) == 1
    job.read()
    job.nothing_is_left()


def test_another_jobs_shared_memory_is_left_alone(tmp_path: Path) -> None:
    path = f"/dev/shm/mpich_shm_{os.getpid():x}_77"
    try:
        Path(path).write_bytes(b"another job's")
        inode = os.stat(path).st_ino
        assert mpich_segments.segments() == set()
        mpich_segments.unlink({(path, inode + 1)})
        assert os.path.exists(path)
        mpich_segments.unlink({(path, inode)})
        assert not os.path.exists(path)
    finally:
        Path(path).unlink(missing_ok=True)


SPAWN = """
import importlib.util, pathlib, sys, threading
import qdist
spec = importlib.util.spec_from_file_location("waiting", sys.argv[1])
waiting = importlib.util.module_from_spec(spec)
spec.loader.exec_module(waiting)
def job():
    spec = importlib.util.spec_from_file_location("waiting", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(pathlib.Path(folder), "wait")
file, folder, how = sys.argv[1:]
class Enough(Exception):
    pass
if how == "thread":
    thread = threading.Thread(target=qdist.spawn, args=(job, 2))
    thread.start()
    thread.join()
elif how == "own handler":
    import signal
    def handler(number, frame):
        raise Enough
    signal.signal(signal.SIGTERM, handler)
    try:
        qdist.spawn(job, 2)
    except Enough:
        sys.exit(9)
else:
    qdist.spawn(job, 2)
"""


@pytest.mark.parametrize(
    ("how", "number", "code"),
    [
        ("main", signal.SIGTERM, -signal.SIGTERM),
        ("main", signal.SIGHUP, -signal.SIGHUP),
        ("main", signal.SIGINT, -signal.SIGINT),
        ("main", signal.SIGKILL, -signal.SIGKILL),
        ("thread", signal.SIGTERM, -signal.SIGTERM),
        ("own handler", signal.SIGTERM, 9),
    ],
)
def test_a_process_inside_spawn_takes_its_ranks_with_it(
    start, tmp_path: Path, how: str, number: signal.Signals, code: int
) -> None:
    script = tmp_path / "spawn.py"
    script.write_text(SPAWN)
    job = start(script, WAITING, tmp_path, how)
    job.await_ranks()
    assert list(tmp_path.glob("qdist-spawn-*"))
    job.process.send_signal(number)
    assert job.process.wait(20) == code
    # Nobody in a thread sees signals, and nobody at all SIGKILL: then the ranks end a moment after the process.
    at_once = how != "thread" and number != signal.SIGKILL
    if not at_once:
        until(lambda: not list(tmp_path.glob("qdist-spawn-*")), 20)
    job.nothing_is_left(at_once=at_once)
