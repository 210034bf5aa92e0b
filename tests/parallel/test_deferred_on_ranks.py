"""Runs tests/parallel/ranks/mpi_deferred.py on four real ranks."""

from pathlib import Path


def test_models_larger_than_a_rank_are_built_and_trained(pass_on_ranks) -> None:
    pass_on_ranks(4, [Path(__file__).parent / "ranks" / "mpi_deferred.py"])
