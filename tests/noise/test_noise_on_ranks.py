"""Starts the tests of noise on ranks; on one they run beside the others."""

from pathlib import Path

import pytest

FILE = Path(__file__).parent / "ranks" / "mpi_noise.py"


@pytest.mark.parametrize("ranks", [1, 3, pytest.param(8, marks=pytest.mark.thorough)])
def test_noise_on_ranks(ranks: int, pass_on_ranks) -> None:
    pass_on_ranks(ranks, [FILE])
