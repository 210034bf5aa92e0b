"""Jobs over two hosts: they start and exchange; whatever fails between the hosts ends the job on both."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import on_hosts
import pytest
import two_hosts

import qdist as qd
from qdist.comm.transports.libmpi import find_mpirun

PROGRAM = Path(on_hosts.__file__)
ON_BOTH = "qdhost0:2,qdhost1:2"

REASON = two_hosts.why_not() or (find_mpirun("bundled").family != "mpich" and "starts the bundled MPICH") or None
pytestmark = [pytest.mark.ranks, pytest.mark.skipif(REASON is not None, reason=str(REASON))]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[two_hosts.TwoHosts]:
    with two_hosts.two_hosts(tmp_path_factory.mktemp("hosts")) as both:
        yield both


class Job:
    """`qdist run` on the first host."""

    def __init__(self, hosts: two_hosts.TwoHosts, *arguments: str | Path) -> None:
        command = [sys.executable, "-m", "qdist", "run", "--mpi", "bundled", *map(str, arguments)]
        environ = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        self._hosts = hosts
        self.process = subprocess.Popen(
            hosts.first.command(*command), env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def end(self, within: float) -> tuple[int, str]:
        """Exit code and output."""
        try:
            text, _ = self.process.communicate(timeout=within)
        except subprocess.TimeoutExpired:
            for host in (self._hosts.first, self._hosts.second):
                for pid in host.processes():
                    os.kill(pid, signal.SIGKILL)
            text, _ = self.process.communicate(timeout=10)
            raise AssertionError(f"the job has not ended within {within:g} s:\n{text}") from None
        return self.process.returncode, text


def until(condition: Callable[[], object], what: str, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def nothing_is_left(hosts: two_hosts.TwoHosts, *, on_second: float = 10) -> None:
    """On the first host, nothing as soon as `qdist run` has returned; the second is told, which may take seconds."""
    assert hosts.first.processes() == {}
    until(lambda: not hosts.second.processes(), "the second host still runs something", on_second)
    assert hosts.first.shared_memory() == hosts.second.shared_memory() == []


def running(hosts: two_hosts.TwoHosts, folder: Path) -> Job:
    """A job that communicates for ever, as soon as it does."""
    job = Job(hosts, "-H", ON_BOTH, PROGRAM, "for-ever", folder)
    until(lambda: len(list(folder.glob("up.*"))) == 4 or job.process.poll() is not None, "the ranks do not start")
    assert job.process.poll() is None, job.end(10)[1]
    return job


def ranks_on(host: two_hosts.Host) -> list[int]:
    return [pid for pid, command in host.processes().items() if f"{PROGRAM} for-ever" in command]


def test_a_state_split_over_two_hosts_has_the_right_amplitudes(hosts: two_hosts.TwoHosts, tmp_path: Path) -> None:
    code, text = Job(hosts, "-H", ON_BOTH, PROGRAM, "split-state", tmp_path).end(60)
    assert code == 0, text
    assert text.count("done") == 4
    alone = qd.simulate(on_hosts.random_circuit(), dtype="complex128").amplitudes()
    np.testing.assert_allclose(np.load(tmp_path / "amplitudes.npy"), alone, atol=1e-12)
    nothing_is_left(hosts)


def test_a_cut_link_ends_all_ranks_and_leaves_no_ssh(hosts: two_hosts.TwoHosts, tmp_path: Path) -> None:
    job = running(hosts, tmp_path)
    assert any(command.startswith("ssh") or "/ssh " in command for command in hosts.first.processes().values())
    hosts.cut()
    try:
        code, text = job.end(30)
        assert code != 0
        assert "Not there: ranks 2-3." in text, text
        assert hosts.first.processes() == {}
        until(lambda: not ranks_on(hosts.second), "ranks beyond the cut link do not end", 30)
    finally:
        hosts.mend()
    nothing_is_left(hosts)


def test_a_killed_rank_on_the_other_host_ends_the_job(hosts: two_hosts.TwoHosts, tmp_path: Path) -> None:
    job = running(hosts, tmp_path)
    os.kill(ranks_on(hosts.second)[-1], signal.SIGKILL)
    code, text = job.end(30)
    assert code != 0
    assert "RUNNING AT qdhost1" in text, text
    # Of the ranks that are ended with it, none is blamed.
    assert "was the first to fail;" not in text, text
    nothing_is_left(hosts)


def test_sigterm_to_qdist_run_ends_the_ranks_on_the_other_host(hosts: two_hosts.TwoHosts, tmp_path: Path) -> None:
    job = running(hosts, tmp_path)
    [runner] = [pid for pid, command in hosts.first.processes().items() if "-m qdist run" in command]
    os.kill(runner, signal.SIGTERM)
    assert job.end(30)[0] == 128 + signal.SIGTERM
    nothing_is_left(hosts)


def test_a_host_whose_sshd_is_gone_is_named(hosts: two_hosts.TwoHosts, tmp_path: Path) -> None:
    job = running(hosts, tmp_path)
    hosts.second.stop_sshd()
    try:
        # The job may go on, for ranks need no ssh once they run. It ends on both hosts all the same.
        [runner] = [pid for pid, command in hosts.first.processes().items() if "-m qdist run" in command]
        os.kill(runner, signal.SIGTERM)
        job.end(30)
        nothing_is_left(hosts)
        code, text = Job(hosts, "-H", ON_BOTH, "--start-timeout", "5", PROGRAM, "split-state", tmp_path).end(30)
        assert code != 0
        assert re.search(r"before all ranks had started; missing are ranks \[.*\] on .*qdhost1\.", text), text
    finally:
        hosts.second.start_sshd()
    nothing_is_left(hosts)


def test_a_host_that_never_answers_is_named(hosts: two_hosts.TwoHosts, tmp_path: Path) -> None:
    begun = ["-H", "qdhost0:1,qdsilent:2", "--start-timeout", "3"]
    code, text = Job(hosts, *begun, PROGRAM, "split-state", tmp_path).end(30)
    assert code == 2, text
    assert "missing are ranks [1, 2] on qdsilent." in text
    nothing_is_left(hosts)
    code, text = Job(hosts, *begun, "--verbose", PROGRAM, "split-state", tmp_path).end(30)
    assert code == 2, text
    assert "no ssh without a password to qdsilent" in text
    nothing_is_left(hosts)


def test_unequal_versions_are_named_before_anything_is_computed(hosts: two_hosts.TwoHosts, tmp_path: Path) -> None:
    package = Path(qd.__file__)
    newer = package.read_text().replace(f'__version__ = "{qd.__version__}"', '__version__ = "99.1"')
    assert "99.1" in newer
    with hosts.second.replaced(package, newer):
        code, text = Job(hosts, "-H", ON_BOTH, PROGRAM, "split-state", tmp_path).end(60)
    assert code != 0
    assert "the ranks do not run the same qdist" in text, text
    assert "99.1" in text
    assert "qdhost1" in text
    assert not (tmp_path / "amplitudes.npy").exists()
    nothing_is_left(hosts)
