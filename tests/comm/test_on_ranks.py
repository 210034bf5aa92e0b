"""Runs the tests in tests/comm/ranks on 1, 2, 3, 4 and 8 real MPI processes, and in one process without MPI."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ON_RANKS = "QDIST_TEST_ON_RANKS"
FILES = [Path(__file__).parent / "ranks" / name for name in ("mpi_collectives.py", "mpi_groups.py", "agreements.py")]
OUT = Path(__file__).parent / "ranks" / "out_arrays.py"


# How arrays of each kind are made ready does not depend on the number of ranks. Without -k, all pass on any number.
OTHER_KINDS = ("strided", "fortran", "read-only", "big-endian", "list-")
CHOICE = {1: "", 2: "", 3: "", 4: f"not ({' or '.join(OTHER_KINDS)})", 8: f"not ({' or '.join(OTHER_KINDS)})"}


@pytest.mark.parametrize("ranks", CHOICE)
def test_all_ranks_pass(pass_on_ranks, ranks: int) -> None:
    pass_on_ranks(ranks, [*FILES, "-k", CHOICE[ranks]])


@pytest.mark.parametrize("ranks", [2, 3])
def test_results_go_wherever_out_is(pass_on_ranks, ranks: int) -> None:
    pass_on_ranks(ranks, [OUT])


def test_one_process_without_mpi_passes_the_same() -> None:
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *map(str, [*FILES, OUT])]
    plain = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", ON_RANKS: "1"}
    done = subprocess.run(command, env=os.environ | plain, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout
