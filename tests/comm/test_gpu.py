"""CuPy arrays between ranks: over MPI with 1 to 4 ranks on one GPU, over NCCL with one rank a GPU."""

from pathlib import Path

import pytest
from test_on_ranks import PYTEST

import qdist.comm as qc

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(qc.cuda_devices() == 0, reason="no CUDA device")]
FILE = Path(__file__).parent / "ranks" / "gpu_collectives.py"


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_over_mpi(run_ranks, ranks: int) -> None:
    done = run_ranks(ranks, [*PYTEST, FILE], QDIST_TEST_BACKEND="mpi")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert done.stdout.count(" passed") == ranks


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_over_nccl(run_nccl_ranks, ranks: int) -> None:
    done = run_nccl_ranks(ranks, [*PYTEST, FILE])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert done.stdout.count(" passed") == ranks
