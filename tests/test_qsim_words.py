"""qsim_bench.py ends with a line in words, and marks ranks that share cores."""

import subprocess
import sys
from pathlib import Path

import pytest

import qdist as qd

BENCH = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCH))
    import qsim_bench

    return qsim_bench


def result(circuit: str, schedule: str, seconds: float, sent: float, ranks: int = 4, shared: bool = True) -> dict:
    times = {"seconds": seconds, "pack": 0.1 * seconds, "network": 0.2 * seconds, "compute": 0.7 * seconds}
    more = {"ranks": ranks, "share_cores": shared, "qubits": 20, "exchanges": 3, "bytes_sent": sent}
    return {"circuit": circuit, "schedule": schedule, **times, **more}


def test_words_of_several_ranks(bench) -> None:
    rows = [result("hea", "lazy", 0.5, 1e6), result("qv", "lazy", 2.0, 3e6)]
    rows += [result("hea", "paper", 1.0, 4e6), result("qv", "paper", 6.0, 8e6)]
    assert bench.words(rows, cores=2) == (
        "In words: 4 ranks, each with its part of the state, run 20 qubits in 0.5 s (hea) to 2 s (qv) by the lazy "
        "schedule, 30 % of it for exchanges between ranks; the schedule paper sends 3.0 times as much and takes 2.5 "
        "times as long. * These ranks share 2 cores and take turns: their times show that the work is divided, not how "
        "fast 4 machines would be."
    )
    alone = [{**row, "share_cores": False} for row in rows]
    assert "share" not in bench.words(alone, cores=8)
    assert bench.row(rows[0], rows)[3] == "4*"
    assert bench.row(alone[0], alone)[3] == 4


@pytest.mark.parametrize(("threads", "shared"), [("1", False), ("1000", True)])
def test_ranks_share_cores_where_they_have_more_threads(bench, monkeypatch, threads, shared) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    assert bench.shares_cores(qd.comm.counting_communicator(2)) is shared
    assert not bench.shares_cores(qd.comm.counting_communicator(1))


def test_the_last_line_of_a_run() -> None:
    options = ["--qubits", "8", "--circuits", "hea", "--repeats", "1", "--device", "cpu"]
    done = subprocess.run(
        [sys.executable, BENCH / "qsim_bench.py", *options], capture_output=True, text=True, check=True
    )
    last = done.stdout.rstrip().splitlines()[-1]
    assert last.startswith("In words: one rank runs 8 qubits in ")
    assert last.endswith("`mpirun -n 4 python qsim_bench.py` spreads a state over ranks.")
