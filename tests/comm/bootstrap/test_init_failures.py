"""init() fails on one rank after MPI has started: all ranks learn of it or end, and none hangs."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qdist.comm.transports.libmpi import find_mpirun

FAILING = Path(__file__).parent / "failing_init.py"
_SOON = 30  # Less than any time-out of the programs, whatever the machine.


def fail(run_ranks, what: str) -> str:
    start = time.monotonic()
    done = run_ranks(3, [FAILING, what], timeout=60)
    assert time.monotonic() - start < _SOON
    assert done.returncode != 0
    assert [path for path in re.findall(r"segment (/dev/shm/mpich_\w+)", done.stdout) if os.path.exists(path)] == []
    return done.stdout + done.stderr


def test_an_exception_on_one_rank_ends_all_with_its_traceback(run_ranks) -> None:
    text = fail(run_ranks, "comm")
    assert "rank 1 of 3 failed in init() and ends all ranks" in text
    assert "TypeError: comm must be an mpi4py intra-communicator, not str" in text
    assert "failing_init.py" in text


def test_a_rank_that_ends_after_its_init_failed_ends_all(run_ranks) -> None:
    fail(run_ranks, "comm-caught")


def test_a_rank_that_never_comes_to_init_is_not_waited_for(run_ranks) -> None:
    assert "not all ranks came through init() within 1 s" in fail(run_ranks, "late")


def test_an_unexpected_exception_in_init_ends_all(run_ranks) -> None:
    assert "OSError: out of descriptors" in fail(run_ranks, "half-way")


def test_what_fails_on_one_rank_raises_on_all_and_they_can_go_on(run_ranks) -> None:
    done = run_ranks(3, [FAILING, "nccl"], timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("fine 3") == 3
    assert done.stdout.count("rank 1: this process sees no GPU") == 2
    for rank in (0, 2):
        told = f"rank {rank}: init() failed on rank 1 of 3: CommError: this process sees no GPU"
        assert done.stdout.count(told) == 2


def test_init_exchanges_no_pickles(run_ranks) -> None:
    done = run_ranks(2, [FAILING, "pickle"], timeout=60)
    assert done.stdout.count("fine 2") == 2, done.stderr


@pytest.mark.skipif(find_mpirun().family != "mpich", reason="only MPICH can start without its own mpirun")
@pytest.mark.parametrize(
    ("what", "code", "message"),
    [("half-way", 1, "rank 1 failed: OSError: out of descriptors"), ("nccl", 0, "init() failed on rank 1 of 2")],
)
def test_without_a_launcher_too(free_port: int, what: str, code: int, message: str) -> None:
    base = os.environ | {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port)}
    processes = [
        subprocess.Popen(
            [sys.executable, str(FAILING), what],
            env=base | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        texts = [p.communicate(timeout=_SOON)[0] for p in processes]
    finally:
        for p in processes:
            p.kill()
    assert [p.returncode for p in processes] == [code, code], texts
    assert message in texts[0]
