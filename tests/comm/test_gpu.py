"""CuPy arrays between ranks: over MPI with 1 to 4 ranks on one GPU, over NCCL with one rank a GPU."""

from pathlib import Path

import pytest

import qdist.comm as qc

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(qc.cuda_devices() == 0, reason="no CUDA device")]
FILE = Path(__file__).parent / "ranks" / "gpu_collectives.py"
OUT = Path(__file__).parent / "ranks" / "out_arrays.py"


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_over_mpi(pass_on_ranks, ranks: int) -> None:
    pass_on_ranks(ranks, [FILE], QDIST_TEST_BACKEND="mpi")


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_over_nccl(pass_on_nccl_ranks, ranks: int) -> None:
    pass_on_nccl_ranks(ranks, [FILE])


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_results_go_wherever_out_is_over_mpi(pass_on_ranks, ranks: int) -> None:
    pass_on_ranks(ranks, [OUT], QDIST_TEST_BACKEND="mpi", QDIST_TEST_ARRAYS="cupy")


@pytest.mark.parametrize("ranks", [1, 2])
def test_results_go_wherever_out_is_over_nccl(pass_on_nccl_ranks, ranks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QDIST_TEST_ARRAYS", "cupy")
    pass_on_nccl_ranks(ranks, [OUT])
