"""qdist.qubit under mpirun: any number of ranks, and every rank gets every result."""

from pathlib import Path

import pytest

pytest.importorskip("pennylane")


@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.thorough)])
def test_on_ranks(pass_on_ranks, ranks: int) -> None:
    pass_on_ranks(ranks, [Path(__file__).parent / "ranks" / "mpi_pennylane.py"])
