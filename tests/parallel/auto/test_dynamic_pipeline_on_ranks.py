"""Runs tests/parallel/ranks/mpi_dynamic_pipeline.py on four real ranks."""

from pathlib import Path

RANK_TESTS = Path(__file__).parents[1] / "ranks" / "mpi_dynamic_pipeline.py"


def test_operators_on_stages_give_what_one_process_gives(pass_on_ranks) -> None:
    pass_on_ranks(4, [RANK_TESTS])
