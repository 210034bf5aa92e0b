"""Runs tests/parallel/ranks/mpi_auto.py on eight real ranks."""

from pathlib import Path

RANK_TESTS = Path(__file__).parents[1] / "ranks" / "mpi_auto.py"


def test_eight_ranks_give_what_one_process_gives(pass_on_ranks) -> None:
    pass_on_ranks(8, [RANK_TESTS])
