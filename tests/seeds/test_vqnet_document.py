"""VQNet's document (seed 000): its programs on 1, 2, 4 and 8 ranks, on the device that --device names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ON_RANKS = HERE / "ranks" / "mpi_vqnet_programs.py"


@pytest.mark.parametrize("ranks", [4, *(pytest.param(n, marks=pytest.mark.thorough) for n in (1, 2, 8))])
def test_the_programs(request, device: str, ranks: int) -> None:
    start = request.getfixturevalue("pass_on_ranks" if device == "cpu" else "pass_on_nccl_ranks")
    start(ranks, [ON_RANKS])


def test_vqnetrun_as_the_document_writes_it(bundled_mpich, tmp_path: Path) -> None:
    """Four ranks on two hosts of one slot each, from a host file, with a file for each one's output."""
    (tmp_path / "hosts").write_text("localhost slots=1\n\n127.0.0.1 slots=1\n")
    options = ["-np", "4", "--hostfile", "hosts", "--output-filename", "output", "--start-timeout", "60"]
    done = subprocess.run(
        [sys.executable, "-c", "from qdist.run_command import vqnetrun; raise SystemExit(vqnetrun())"]
        + [*options, "--mpi", "bundled", "python", str(HERE / "vqnet" / "hosts.py")],
        capture_output=True, text=True, timeout=120, cwd=tmp_path, env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "note: 4 ranks on hosts with 2 slots: localhost takes 2, 127.0.0.1 takes 2" in done.stderr
    for rank in range(4):
        said = (tmp_path / f"output.{rank}").read_text()
        assert f"rank: {rank}, size 4" in said
        assert f"hosts name {os.uname().nodename}" in said
