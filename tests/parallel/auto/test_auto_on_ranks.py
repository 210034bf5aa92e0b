"""Runs tests/parallel/ranks/mpi_auto.py on eight real ranks."""

from pathlib import Path

RANK_TESTS = Path(__file__).parents[1] / "ranks" / "mpi_auto.py"


def test_eight_ranks_give_what_one_process_gives(run_ranks) -> None:
    options = ["-m", "pytest", "-x", "-p", "no:cacheprovider", "-o", "addopts=--strict-markers -q"]
    done = run_ranks(8, [*options, RANK_TESTS])
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
    assert done.stdout.count(" passed") == 8
