"""Models on meshes, on 2, 4 and 8 ranks (tests/parallel/ranks/mpi_mesh.py)."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "ranks"


@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_all_ranks_pass(run_ranks, tmp_path, ranks: int) -> None:
    arguments = ["-m", "pytest", "-x", "-p", "no:cacheprovider", "-o", "addopts=--strict-markers -q"]
    done = run_ranks(ranks, [*arguments, FOLDER / "mpi_mesh.py"], QDIST_TEST_FOLDER=str(tmp_path))
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert done.stdout.count(" passed") == ranks
