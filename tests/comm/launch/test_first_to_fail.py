"""Which rank `qdist run` says broke off a job: the one that failed, not one that ended before it or because of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from qdist.comm.guard.endings import FAILED, FOLDER, JOINED, LEFT, note_ending
from qdist.comm.launch.exit_codes import exit_code_of
from qdist.comm.launch.supervisor import _first_to_fail, _order_of_ends

pytestmark = pytest.mark.ranks

WAIT = "import sys; sys.stdin.read()"


def _tells_codes() -> bool:
    """Whether this system's Linux tells how a process ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    descriptor = os.pidfd_open(process.pid)
    process.wait()
    try:
        return exit_code_of(descriptor) == 0
    finally:
        os.close(descriptor)


CODES = _tells_codes()


@pytest.fixture
def processes():
    started = [subprocess.Popen([sys.executable, "-c", WAIT], stdin=subprocess.PIPE) for _ in range(4)]
    yield started
    for process in started:
        process.kill()
        process.communicate()


def end(process: subprocess.Popen) -> None:
    process.communicate(b"")


def test_ranks_are_listed_in_the_order_in_which_they_end(processes, monkeypatch) -> None:
    from qdist.comm.launch import supervisor

    polled = supervisor.select.poll
    turn = iter([2, 0, 3])  # The last is the job itself.

    class Poller:
        """Lets one process end before each look."""

        def __init__(self) -> None:
            self._inner = polled()
            self.register, self.unregister = self._inner.register, self._inner.unregister

        def poll(self) -> list[tuple[int, int]]:
            end(processes[next(turn)])
            return self._inner.poll()

    monkeypatch.setattr(supervisor.select, "poll", Poller)
    pids = {rank: processes[rank].pid for rank in range(3)}
    assert _order_of_ends(pids, processes[3].pid)[0] == [{2}, {0}, set()]


@pytest.mark.parametrize(
    ("order", "notes", "first"),
    [
        ([{0}, {1}, {2}], [(FAILED, 1)], {1}),  # Rank 0 was ended on behalf of rank 1, and was gone before it.
        ([{0}, {1}, {2}], [(FAILED, 2), (FAILED, 1)], {2}),
        ([{0}, {1, 2}], [(LEFT, 0), (FAILED, 2)], {2}),
        ([{2}, {1}, {0}], [(LEFT, 2)], {1}),  # Killed, without a word; rank 2 had come to its end.
        ([{0}, {1}], [], {0}),
        ([{0, 1}], [], {0, 1}),
        ([], [], set()),
    ],
)
def test_the_rank_that_tells_of_its_failure_is_named(tmp_path: Path, monkeypatch, order, notes, first) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    for how, rank in notes:
        note_ending(how, rank)
    assert _first_to_fail(order, {}, tmp_path) == first


@pytest.mark.parametrize(
    ("codes", "notes", "first"),
    [
        ({0: 0, 1: 137, 2: 137}, [(JOINED, 0), (JOINED, 1), (JOINED, 2)], {0}),  # Gone from the others' midst.
        ({0: 0, 1: 137, 2: 137}, [(JOINED, 1), (JOINED, 2)], {1}),  # Rank 0 was a program of its own.
        ({0: 0, 1: 137, 2: 137}, [(JOINED, 0), (LEFT, 0), (JOINED, 1), (JOINED, 2)], {1}),
        ({0: 0, 1: 137, 2: 1}, [(JOINED, 0), (JOINED, 1), (JOINED, 2), (FAILED, 2)], {2}),
    ],
)
def test_exit_code_0_is_no_good_end_within_a_job(tmp_path: Path, monkeypatch, codes, notes, first) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    for how, rank in notes:
        note_ending(how, rank)
    assert _first_to_fail([{0}, {1}, {2}], codes, tmp_path) == first


@pytest.mark.parametrize(
    ("codes", "first"), [({0: 0, 1: 137}, {0}), ({0: 0, 1: 3}, {0, 1}), ({0: 137, 1: 137}, {0, 1})]
)
def test_of_ranks_that_end_together_those_that_are_killed_are_not_the_first(
    tmp_path, monkeypatch, codes, first
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    for rank in (0, 1):
        note_ending(JOINED, rank)
    for order in ([{0, 1}], [{1}, {0}]) if first == {0} else ([{0, 1}],):
        assert _first_to_fail(order, codes, tmp_path) == first


@pytest.mark.skipif(not CODES, reason="Linux before 6.15 does not tell how processes ended")
@pytest.mark.parametrize(("ranks", "gone"), [(2, 0), (2, 1), (3, 1)])
def test_a_rank_that_goes_with_exit_code_0_fails_the_job(tmp_path: Path, ranks: int, gone: int) -> None:
    script = tmp_path / "gone.py"
    script.write_text(
        "import os\nimport qdist as qd\ncomm = qd.comm.init(timeout=60)\ncomm.barrier()\n"
        f"if comm.rank == {gone}:\n    os._exit(0)\ncomm.barrier()\n"
    )
    command = [sys.executable, "-m", "qdist", "run", "--mpi", "bundled", "-n", str(ranks), str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 1, done.stderr
    assert f"qdist run: rank {gone} (pid" in done.stderr, done.stderr
    assert "was the first to fail: it ended with exit code 0 without leaving the job" in done.stderr, done.stderr


def test_run_names_the_rank_that_raised(tmp_path: Path) -> None:
    script = tmp_path / "fail.py"
    script.write_text(
        "import qdist as qd\ncomm = qd.comm.init(timeout=60)\ncomm.barrier()\n"
        "if comm.rank == 1:\n    raise ValueError('the second')\ncomm.barrier()\n"
    )
    command = [sys.executable, "-m", "qdist", "run", "--mpi", "bundled", "-n", "3", str(script)]
    for _ in range(3):
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert done.returncode != 0
        assert "qdist run: rank 1 (pid" in done.stderr, done.stderr
        assert "was the first to fail;" in done.stderr, done.stderr


def test_run_names_the_rank_that_had_left_before(tmp_path: Path) -> None:
    script = tmp_path / "leave.py"
    script.write_text(
        "import sys\nimport qdist as qd\ncomm = qd.comm.init(timeout=60)\ncomm.barrier()\n"
        "if comm.rank == 2:\n    sys.exit(3)\ncomm.barrier()\n"
    )
    command = [sys.executable, "-m", "qdist", "run", "--mpi", "bundled", "-n", "3", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode != 0
    assert "was the first to fail, after rank 2 had ended its program; " in done.stderr, done.stderr


def test_without_a_launcher_no_note_is_left(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    note_ending(FAILED, 0)
    monkeypatch.setenv(FOLDER, str(tmp_path / "on another machine"))
    note_ending(FAILED, 0)
    assert list(tmp_path.iterdir()) == []
