"""Runs the tests of layers in torch and, where it is installed, in JAX, on 2 and 4 MPI processes."""

from pathlib import Path

import pytest


@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.thorough)])
def test_all_ranks_pass(pass_on_ranks, ranks: int) -> None:
    folder = Path(__file__).parents[1] / "ranks"
    pass_on_ranks(ranks, [folder / "mpi_torch_layer.py", folder / "mpi_jax_layer.py"])
