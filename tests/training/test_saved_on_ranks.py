"""Pipelines and ZeRO models by themselves are parts of a training that goes on on any number of ranks."""

from pathlib import Path

FOLDER = Path(__file__).parent / "ranks"


def test_pipelines_and_zero_go_on(pass_on_ranks, tmp_path: Path) -> None:
    pass_on_ranks(2, [FOLDER / "mpi_saved.py"], QDIST_TEST_FOLDER=str(tmp_path))
