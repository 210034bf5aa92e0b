"""Qiskit's primitives under mpirun: any number of ranks, and every rank gets every result."""

from pathlib import Path

import pytest

pytest.importorskip("qiskit")


def test_on_three_ranks(pass_on_ranks) -> None:
    pass_on_ranks(3, [Path(__file__).parent / "ranks" / "mpi_qiskit.py"])
