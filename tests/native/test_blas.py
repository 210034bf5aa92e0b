"""The threads of NumPy's products: a rank's share of the cores, unless the user has decided."""

import sys
from pathlib import Path

import pytest

from qdist.native.blas import blas_threads

PROGRAM = """
import os, sys
import qdist as qd
from qdist.native.blas import blas_threads

before = blas_threads()
if len(sys.argv) > 1:
    qd.set_num_threads(int(sys.argv[1]))
comm = qd.comm.init()
during = blas_threads()
qd.comm.shutdown()
sys.stdout.write(f"{before} {during} {blas_threads()} {comm.cores}\\n")
"""


def found(run_ranks, tmp_path: Path, ranks: int, *arguments: str, **environ: str) -> list[list[int]]:
    """Of each rank: the threads before, during and after it is one, and its share of the cores."""
    if not blas_threads():
        pytest.skip("NumPy was built with a library whose threads are not known here")
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    unset = {"OMP_NUM_THREADS": "", "OPENBLAS_NUM_THREADS": "", "MKL_NUM_THREADS": ""}
    done = run_ranks(ranks, [script, *arguments], **(unset | environ))
    assert done.returncode == 0, done.stderr
    return [[int(n.strip("[]")) for n in line.split()] for line in done.stdout.splitlines()]


def test_ranks_of_a_node_share_its_cores(run_ranks, tmp_path: Path) -> None:
    for before, during, after, share in found(run_ranks, tmp_path, 2):
        assert during == min(before, share)
        assert after == before


def test_one_process_has_all(run_ranks, tmp_path: Path) -> None:
    ((before, during, after, _),) = found(run_ranks, tmp_path, 1)
    assert before == during == after


@pytest.mark.parametrize("name", ["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"])
def test_what_the_user_has_set_stays(run_ranks, tmp_path: Path, name: str) -> None:
    # More than a rank's share, whatever the machine; the library itself takes no more than there are cores.
    (first, *_), (second, *_) = counts = found(run_ranks, tmp_path, 2, **{name: "64"})
    assert first == second
    assert all(row[:3] == [first] * 3 for row in counts)


def test_a_number_that_was_asked_for_is_that_of_products_too(run_ranks, tmp_path: Path) -> None:
    for _, during, after, _ in found(run_ranks, tmp_path, 2, "1"):
        assert (during, after) == (1, 1)


def test_libraries_that_are_not_there_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from qdist.native import blas

    monkeypatch.setattr(blas, "_loaded", lambda: ["/no/such/libopenblas.so", sys.executable])
    blas._libraries.cache_clear()
    try:
        assert blas_threads() == []
        blas.share_blas_threads(1)
    finally:
        monkeypatch.undo()
        blas._libraries.cache_clear()
