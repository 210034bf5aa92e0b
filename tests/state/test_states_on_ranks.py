"""Runs tests/state/ranks on 1, 2, 3, 4, 7 and 8 MPI processes: every number is the same as in one process alone."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "ranks"


TOPICS = ("exchange", "states", "observables", "programs", "adjoint")


@pytest.mark.parametrize(
    ("ranks", "topics"),
    [(1, TOPICS), (2, TOPICS), (3, TOPICS), (4, TOPICS), (7, ("exchange", "programs")), (8, TOPICS)],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
def test_all_ranks_pass(run_ranks, device: str, ranks: int, topics: tuple[str, ...]) -> None:
    arguments = ["-m", "pytest", "-x", "-p", "no:cacheprovider", "-o", "addopts=--strict-markers -q"]
    if device != "cpu":
        topics = tuple(topic for topic in topics if topic != "adjoint")  # Gradients run on the CPU.
    done = run_ranks(ranks, [*arguments, f"--device={device}", *(FOLDER / f"mpi_{topic}.py" for topic in topics)])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert done.stdout.count(" passed") == ranks
