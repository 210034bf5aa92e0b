"""Qiskit's primitives under mpirun: any number of ranks, and every rank gets every result."""

from pathlib import Path

import pytest

pytest.importorskip("qiskit")


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.thorough), 3])
def test_on_ranks(pass_on_ranks, ranks: int) -> None:
    pass_on_ranks(ranks, [Path(__file__).parent / "ranks" / "mpi_qiskit.py"])
