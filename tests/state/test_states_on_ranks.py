"""Runs tests/state/ranks on 1, 2, 3, 4, 7 and 8 MPI processes: every number is the same as in one process alone."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).parent / "ranks"


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7, 8])
def test_all_ranks_pass(run_ranks, ranks: int) -> None:
    arguments = ["-m", "pytest", "-x", "-p", "no:cacheprovider", "-o", "addopts=--strict-markers -q"]
    scripts = [FOLDER / f"mpi_{topic}.py" for topic in ("exchange", "states", "observables", "programs", "adjoint")]
    done = run_ranks(ranks, [*arguments, *scripts])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert done.stdout.count(" passed") == ranks
