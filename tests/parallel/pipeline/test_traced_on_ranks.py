"""Runs tests/parallel/ranks/mpi_traced_pipeline.py and mpi_stage_refusals.py on real MPI processes."""

from pathlib import Path

import pytest

RANKS = Path(__file__).parents[1] / "ranks"
FILES = [RANKS / "mpi_traced_pipeline.py", RANKS / "mpi_stage_refusals.py"]


@pytest.mark.parametrize("ranks", [2, 4])
def test_all_ranks_pass(pass_on_ranks, ranks: int) -> None:
    pass_on_ranks(ranks, FILES if ranks == 4 else FILES[:1])
