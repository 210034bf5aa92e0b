"""CuPy arrays between ranks: over MPI with 1 to 4 ranks on one GPU, over NCCL with one rank a GPU."""

from pathlib import Path

import pytest

import qdist.comm as qc

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(qc.cuda_devices() == 0, reason="no CUDA device")]
FILE = Path(__file__).parent / "ranks" / "gpu_collectives.py"


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_over_mpi(pass_on_ranks, ranks: int) -> None:
    pass_on_ranks(ranks, [FILE], QDIST_TEST_BACKEND="mpi")


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_over_nccl(pass_on_nccl_ranks, ranks: int) -> None:
    pass_on_nccl_ranks(ranks, [FILE])
