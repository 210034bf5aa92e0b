"""Runs tests/parallel/ranks/mpi_engine_stages.py on eight real ranks."""

from pathlib import Path

RANK_TESTS = Path(__file__).parents[1] / "ranks" / "mpi_engine_stages.py"


def test_pipelines_of_an_engine_give_what_one_process_gives(pass_on_ranks) -> None:
    pass_on_ranks(8, [RANK_TESTS])
