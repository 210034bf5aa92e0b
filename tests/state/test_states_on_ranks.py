"""Runs tests/state/ranks on 1, 2, 3, 4, 7 and 8 MPI processes: every number is the same as in one process alone."""

from collections.abc import Sequence
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "ranks"


TOPICS = ("exchange", "states", "alike", "observables", "programs", "adjoint", "shots", "tangents")
MORE = (*TOPICS, "precision", "agreement")


def files(topics: Sequence[str], device: str) -> list[str | Path]:
    """Arguments of pytest."""
    return [f"--device={device}", *(FOLDER / f"mpi_{topic}.py" for topic in topics)]


@pytest.mark.parametrize(
    ("ranks", "topics"),
    [
        (2, MORE),
        (3, TOPICS),
        (8, ("exchange", "programs")),
        # What follows is as on 2, 3 and 8 ranks or as in one process, and slow where so many share a few cores.
        pytest.param(1, TOPICS, marks=pytest.mark.thorough),
        pytest.param(4, TOPICS, marks=pytest.mark.thorough),
        pytest.param(7, ("exchange",), marks=pytest.mark.thorough),
        pytest.param(8, ("states", "adjoint", "shots"), marks=pytest.mark.thorough),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else value[0],
)
def test_all_ranks_pass(pass_on_ranks, device: str, ranks: int, topics: tuple[str, ...]) -> None:
    pass_on_ranks(ranks, files(topics, device))


def test_ranks_that_differ_are_told_with_debug_as_well(pass_on_ranks, device: str) -> None:
    pass_on_ranks(2, files(["agreement"], device), QDIST_DEBUG="comm")


@pytest.mark.gpu
@pytest.mark.parametrize("ranks", [2, 3])
def test_all_ranks_pass_over_nccl(pass_on_nccl_ranks, device: str, ranks: int) -> None:
    if device != "cuda":
        pytest.skip("NCCL joins GPUs: needs --device cuda")
    pass_on_nccl_ranks(ranks, files(MORE, device))
