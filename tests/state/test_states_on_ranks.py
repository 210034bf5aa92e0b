"""Runs tests/state/ranks on 1, 2, 3, 4, 7 and 8 MPI processes: every number is the same as in one process alone."""

from collections.abc import Sequence
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "ranks"


TOPICS = ("exchange", "states", "observables", "programs", "adjoint")
PYTEST = ["-m", "pytest", "-x", "-p", "no:cacheprovider", "-o", "addopts=--strict-markers -q"]


def files(topics: Sequence[str], device: str) -> list[str | Path]:
    """Arguments of pytest."""
    return [*PYTEST, f"--device={device}", *(FOLDER / f"mpi_{topic}.py" for topic in topics)]


@pytest.mark.parametrize(
    ("ranks", "topics"),
    [(1, TOPICS), (2, TOPICS), (3, TOPICS), (4, TOPICS), (7, ("exchange",)), (8, TOPICS)],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_all_ranks_pass(run_ranks, device: str, ranks: int, topics: tuple[str, ...]) -> None:
    done = run_ranks(ranks, files(topics, device))
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert done.stdout.count(" passed") == ranks


@pytest.mark.gpu
@pytest.mark.parametrize("ranks", [2, 3])
def test_all_ranks_pass_over_nccl(run_nccl_ranks, device: str, ranks: int) -> None:
    if device != "cuda":
        pytest.skip("NCCL joins GPUs: needs --device cuda")
    done = run_nccl_ranks(ranks, files(TOPICS, device))
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert done.stdout.count(" passed") == ranks
