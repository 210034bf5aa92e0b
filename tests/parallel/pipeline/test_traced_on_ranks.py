"""Runs tests/parallel/ranks/mpi_traced_pipeline.py on real MPI processes."""

from pathlib import Path

import pytest

FILE = Path(__file__).parents[1] / "ranks" / "mpi_traced_pipeline.py"


@pytest.mark.parametrize("ranks", [2, 4])
def test_all_ranks_pass(pass_on_ranks, ranks: int) -> None:
    pass_on_ranks(ranks, [FILE])
