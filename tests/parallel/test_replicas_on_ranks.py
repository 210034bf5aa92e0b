"""Runs the tests in tests/parallel/ranks/mpi_replicas.py on real MPI processes.

All of them on 3, which divides nothing; the comparison with one process also on 2, 4 and 8, of two models each: CI has
little time. Without -k, all pass on any number.
"""

from pathlib import Path

import pytest

FILE = Path(__file__).parent / "ranks" / "mpi_replicas.py"
PYTEST = ["-m", "pytest", "-x", "-p", "no:cacheprovider", "-o", "addopts=--strict-markers -q"]
CHOICE = {
    2: "one_process and (cnn or hybrid)",
    3: "",
    4: "one_process and (mlp or transformer)",
    8: "one_process and (mlp or hybrid)",
}


@pytest.mark.parametrize("ranks", CHOICE)
def test_all_ranks_pass(run_ranks, ranks: int) -> None:
    done = run_ranks(ranks, [*PYTEST, FILE, "-k", CHOICE[ranks]])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert done.stdout.count(" passed") == ranks
