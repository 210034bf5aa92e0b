"""Runs tests/interop/ranks/mpi_torch_layer.py on 2 and 4 MPI processes."""

from pathlib import Path

import pytest


@pytest.mark.parametrize("ranks", [2, 4])
def test_all_ranks_pass(pass_on_ranks, ranks: int) -> None:
    pass_on_ranks(ranks, [Path(__file__).parents[1] / "ranks" / "mpi_torch_layer.py"])
