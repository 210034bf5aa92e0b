"""CuPy arrays between ranks: over MPI with 1 to 4 ranks on one GPU, over NCCL with one rank a GPU."""

import os
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
def test_over_nccl(run_ranks, ranks: int, tmp_path: Path) -> None:
    # NCCL refuses two ranks of one host on one GPU; told that each rank is a host of its own, it talks over sockets.
    wrapper = tmp_path / "as_own_host.py"
    wrapper.write_text(
        "import os, sys\n"
        "rank = os.environ.get('PMI_RANK') or os.environ['OMPI_COMM_WORLD_RANK']\n"
        "os.environ['NCCL_HOSTID'] = 'host' + rank\n"
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])\n"
    )
    own_hosts = [wrapper] if ranks > qc.cuda_devices() else []
    environ = {"QDIST_TEST_BACKEND": "nccl", "NCCL_SOCKET_IFNAME": os.environ.get("NCCL_SOCKET_IFNAME", "lo")}
    done = run_ranks(ranks, [*own_hosts, *PYTEST, FILE], **environ)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert done.stdout.count(" passed") == ranks
