"""Runs the tests in tests/comm/ranks on 1, 2, 3, 4 and 8 real MPI processes, and in one process without MPI."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ON_RANKS = "QDIST_TEST_ON_RANKS"
FILES = [Path(__file__).parent / "ranks" / name for name in ("mpi_collectives.py", "mpi_groups.py", "agreements.py")]
OUT = Path(__file__).parent / "ranks" / "out_arrays.py"


# How arrays of each kind and dtype are made ready does not depend on the number of ranks, so 3 of them, as many as no
# algorithm for powers of two serves, go through all; with --thorough all numbers do.
OTHERS = ("strided", "fortran", "float32", "complex64", "complex128", "int32", "bool")
FEWER = ["-k", f"not ({' or '.join(OTHERS)})"]
FEW_KINDS = {"QDIST_TEST_FEW_KINDS": "1"}


@pytest.mark.parametrize("ranks", [1, 2, 3, pytest.param(4, marks=pytest.mark.thorough), 8])
def test_all_ranks_pass(pass_on_ranks, ranks: int, thorough: bool) -> None:
    if ranks == 3 or thorough:
        pass_on_ranks(ranks, [*FILES, OUT])
    else:
        pass_on_ranks(ranks, [*FILES, *FEWER], **FEW_KINDS)


def test_one_process_without_mpi_passes_the_same() -> None:
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *map(str, [*FILES, OUT])]
    plain = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", ON_RANKS: "1"}
    done = subprocess.run(command, env=os.environ | plain, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout
