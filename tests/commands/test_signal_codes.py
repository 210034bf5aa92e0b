"""Exit codes of `qdist run` and `qdist trace` where a signal ends a rank."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from qdist.comm.launch.exit_codes import exit_code_of, job_code

pytestmark = pytest.mark.ranks

# Without qdist in it, whose hooks would tell of a failure; the others wait until they are ended.
PROGRAM = (
    "import os, sys, time\n"
    "end, who = sys.argv[1:]\n"
    "if who in (os.environ['RANK'], 'all'):\n"
    "    os.kill(os.getpid(), int(end[1:])) if end[0] == 's' else os._exit(int(end[1:]))\n"
    "time.sleep(60)\n"
)
KEPT = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2]) >= (6, 15)
known = pytest.mark.skipif(not KEPT, reason="Linux before 6.15 does not tell how a process ended")

WAYS = {
    "run": ["run", "-n", "2"],
    "bundled": ["run", "--mpi", "bundled", "-n", "2"],
    "torch": ["run", "--nproc-per-node", "2", "--nnodes", "1"],
}


def code_of(way: list[str], tmp_path: Path, end: str, who: str) -> int:
    script = tmp_path / "end.py"
    script.write_text(PROGRAM)
    command = [sys.executable, "-m", "qdist", *way, str(script), end, who]
    return subprocess.run(command, capture_output=True, cwd=tmp_path, timeout=100).returncode


SIGNALS = [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGABRT, signal.SIGUSR1, signal.SIGINT]


@known
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
@pytest.mark.parametrize("who", ["1", "all"])
def test_a_signal_is_128_and_its_number(tmp_path, number, who) -> None:
    assert code_of(WAYS["run"], tmp_path, f"s{int(number)}", who) == 128 + number


@known
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGABRT], ids=lambda number: number.name)
def test_however_the_ranks_are_started(tmp_path, way, number) -> None:
    assert code_of(way, tmp_path, f"s{int(number)}", "0") == 128 + number


@known
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV], ids=lambda number: number.name)
def test_under_trace(tmp_path, number) -> None:
    assert code_of(["trace", "-n", "2"], tmp_path, f"s{int(number)}", "1") == 128 + number


@pytest.mark.parametrize("code", [1, 3, 9, 15, 75])
def test_codes_of_programs_stay(tmp_path, code) -> None:
    assert code_of(WAYS["run"], tmp_path, f"c{code}", "all") == code


@known
def test_a_rank_ended_by_a_signal_is_a_failure_that_is_tried_again(tmp_path) -> None:
    script = tmp_path / "again.py"
    script.write_text(
        "import os, signal, time\n"
        "if 'QDIST_RESTART' not in os.environ and os.environ['RANK'] == '1':\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
        "time.sleep(0.2)\n"
    )
    command = [sys.executable, "-m", "qdist", "run", "-n", "2", "--restarts", "1", "--backoff", "0", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "restart 1 of 1" in done.stderr
    assert "exit code 143" in done.stderr


@known
@pytest.mark.parametrize("end", [-signal.SIGKILL, -signal.SIGSEGV, 0, 3, 255])
def test_a_process_that_was_waited_for_has_its_code(end) -> None:
    what = f"os.kill(os.getpid(), {-end})" if end < 0 else f"os._exit({end})"
    process = subprocess.Popen([sys.executable, "-c", f"import os, sys; sys.stdin.read(); {what}"], stdin=-1)
    descriptor = os.pidfd_open(process.pid)
    try:
        assert exit_code_of(descriptor) is None
        process.communicate(b"")
        assert process.returncode == end
        assert exit_code_of(descriptor) == (end if end >= 0 else 128 - end)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize(
    ("launcher", "failed", "code"),
    [
        (9, [137], 137),
        (15, [134], 134),
        (15, [137, 134], 134),  # Rank 0 was killed on behalf of rank 1.
        (9, [9], 9),  # exit(9)
        (3, [137], 3),  # MPI_Abort(3), after which the launcher was quicker.
        (7, [7], 7),
        (137, [137], 137),
        (15, [137, 143], 143),  # MPICH's launcher ends others by SIGKILL.
        (137, [137, 143], 137),  # Open MPI's says itself which was first.
        (11, [], 11),
        (1, [0], 1),
    ],
)
def test_whose_code_counts(launcher, failed, code) -> None:
    assert job_code(launcher, failed) == code
