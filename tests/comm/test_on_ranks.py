"""Runs the tests in tests/comm/ranks on 1, 2, 3, 4 and 8 real MPI processes, and in one process without MPI."""

import subprocess
import sys
from pathlib import Path

import pytest

FILES = [Path(__file__).parent / "ranks" / name for name in ("mpi_collectives.py", "mpi_groups.py", "agreements.py")]
OUT = Path(__file__).parent / "ranks" / "out_arrays.py"


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 8])
def test_all_ranks_pass(pass_on_ranks, ranks: int) -> None:
    pass_on_ranks(ranks, FILES)


@pytest.mark.parametrize("ranks", [2, 3])
def test_results_go_wherever_out_is(pass_on_ranks, ranks: int) -> None:
    pass_on_ranks(ranks, [OUT])


def test_one_process_without_mpi_passes_the_same() -> None:
    command = [sys.executable, "-m", "pytest", "-x", "-p", "no:cacheprovider", *map(str, [*FILES, OUT])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout
