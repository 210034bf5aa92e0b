"""Runs the tests in tests/parallel/ranks/mpi_replicas.py on 2, 3, 4 and 8 real MPI processes."""

from pathlib import Path

import pytest

FILE = Path(__file__).parent / "ranks" / "mpi_replicas.py"
PYTEST = ["-m", "pytest", "-x", "-p", "no:cacheprovider", "-o", "addopts=--strict-markers -q"]


@pytest.mark.parametrize("ranks", [2, 3, 4, 8])
def test_all_ranks_pass(run_ranks, ranks: int) -> None:
    done = run_ranks(ranks, [*PYTEST, FILE])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert done.stdout.count(" passed") == ranks
