"""Trainings over ssh whose hosts disappear go on on the hosts that are left, with the curve of an undisturbed one."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import two_hosts
from test_two_hosts import REASON, Job, until

SURVIVOR = Path(__file__).parents[3] / "benchmarks" / "survivor.py"
OPTIONS = ["--steps", "10", "--every", "1", "--rows", "24", "--pause", "0.1", "--timeout", "15"]

pytestmark = [pytest.mark.ranks, pytest.mark.skipif(REASON is not None, reason=str(REASON))]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[two_hosts.TwoHosts]:
    with two_hosts.two_hosts(tmp_path_factory.mktemp("hosts"), 4) as all_four:
        yield all_four


@pytest.fixture(scope="module")
def curve(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses of one process that nobody disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    subprocess.run([sys.executable, *training(folder)], check=True, timeout=200)
    return losses(folder)


def training(folder: Path) -> list[str]:
    return [str(SURVIVOR), "mesh", str(folder), str(folder.with_suffix(".json")), *OPTIONS]


def losses(folder: Path) -> list[float]:
    return [float.fromhex(x) for x in json.loads(folder.with_suffix(".json").read_text())["losses"]]


def entries(folder: Path) -> list[dict]:
    log = folder / "log.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def begun(hosts: two_hosts.TwoHosts, folder: Path, *options: str) -> Job:
    """A training after its second step."""
    again = ["--restarts", "3", "--backoff", "0.1", "--start-timeout", "60"]
    job = Job(hosts, *again, *options, *training(folder))
    until(lambda: len(entries(folder)) > 3 or job.process.poll() is not None, "there are no steps", 90)
    assert job.process.poll() is None, job.end(10)[1]
    return job


@pytest.mark.thorough
def test_a_cut_link_ends_a_job_that_needs_all_ranks_and_the_next_goes_on_without_that_host(
    hosts, curve, tmp_path
) -> None:
    folder, both = tmp_path / "run", "qdhost0:2,qdhost1:2"
    job = begun(hosts, folder, "-H", both)
    hosts.cut()
    try:
        code, text = job.end(120)
        assert code not in (0, 75), text
        assert "no restart: qdhost1 cannot be reached, and the others have slots for 2 ranks; 4 are needed" in text
        assert not folder.with_suffix(".json").exists()
        # The same command that is content with half of the ranks finds out by itself that the host is not there.
        less = ["-H", both, "--restarts", "3", "--min-ranks", "2", "--backoff", "0.1", "--start-timeout", "5"]
        code, text = Job(hosts, *less, *training(folder)).end(120)
        assert code == 0, text
        assert "restart 1 of 3 after 0.1 s, 2 ranks on qdhost0: " in text, text
    finally:
        hosts.mend()
    resumed = [entry for entry in entries(folder) if entry.get("event") == "resumed"][-1]
    assert resumed["ranks"] == 2
    assert resumed["at"] >= 2
    np.testing.assert_allclose(losses(folder), curve, rtol=1e-5)


def test_eight_ranks_go_on_as_six_when_two_hosts_are_gone(hosts, curve, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    job = begun(hosts, folder, "-H", "qdhost0:4,qdhost1:2,qdhost2:1,qdhost3:1", "--min-ranks", "6")
    hosts[2].stop()
    hosts[3].stop()
    code, text = job.end(180)
    assert code == 0, text
    # A busy machine may take several starts.
    assert re.search(r"restart \d of 3 after [\d.]+ s, 6 ranks on qdhost0, qdhost1: ", text), text
    resumed = [entry for entry in entries(folder) if entry.get("event") == "resumed"][-1]
    assert resumed["ranks"] == 6
    assert 2 <= resumed["at"] < 10
    np.testing.assert_allclose(losses(folder), curve, rtol=1e-5)
