"""Runs the tests in tests/parallel/ranks/mpi_replicas.py on real MPI processes.

All of them on 3, which divides nothing; the comparison with one process also on 2, 4 and 8, of two models each: CI has
little time. Without -k, all pass on any number.
"""

from pathlib import Path

import pytest

FILE = Path(__file__).parent / "ranks" / "mpi_replicas.py"
CHOICE = {
    2: "one_process and (cnn or hybrid)",
    3: "",
    4: "one_process and (mlp or transformer)",
    8: "one_process and (mlp or hybrid)",
}


@pytest.mark.parametrize("ranks", CHOICE)
def test_all_ranks_pass(pass_on_ranks, ranks: int) -> None:
    pass_on_ranks(ranks, [FILE, "-k", CHOICE[ranks]])
