"""env://, tcp:// and file://: who may take part, what an attacker can do, and what stays of it afterwards."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

import qdist.comm as qc
from qdist.comm.bootstrap import rendezvous_file, secret
from qdist.comm.bootstrap.rendezvous_address import rendezvous_address
from qdist.comm.bootstrap.rendezvous_file import RendezvousFile
from qdist.comm.bootstrap.secret import job_secret
from qdist.comm.standalone import pmi
from qdist.comm.store.client import Address
from qdist.comm.transports.libmpi import find_mpirun

pytestmark = pytest.mark.ranks

without_launcher = pytest.mark.skipif(
    find_mpirun().family != "mpich", reason="only MPICH can start without its own mpirun"
)
SECRET = "a secret of this test"
HOST = socket.gethostname()


class Ranks:
    """Processes that find each other through MASTER_ADDR, each running the same Python program."""

    def __init__(self, program: str, port: int, ranks: int, **environ: str) -> None:
        self._command = [sys.executable, "-c", program]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("QDIST_SECRET")}
        self._environ = clean | {
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            **environ,
        }
        self.processes: dict[int, subprocess.Popen[str]] = {}

    def __enter__(self) -> "Ranks":
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self.processes.values():
            process.kill()
            process.communicate()

    def start(self, *ranks: int) -> None:
        for rank in ranks:
            self.processes[rank] = subprocess.Popen(
                self._command,
                env=self._environ | {"RANK": str(rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )

    def outcome(self, timeout: float = 60) -> list[tuple[int, str]]:
        """Exit code and output of each rank."""
        end = time.monotonic() + timeout
        outputs = [p.communicate(timeout=max(1, end - time.monotonic()))[0] for _, p in sorted(self.processes.items())]
        return [(p.returncode, text) for (_, p), text in zip(sorted(self.processes.items()), outputs)]


# The secret -----------------------------------------------------------------------------------------------------------


def test_the_secret_comes_from_a_variable_or_from_a_file_of_its_owners_alone(tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET + "\n")
    file.chmod(0o600)
    assert job_secret({}) is None
    assert job_secret({"QDIST_SECRET": SECRET}) == SECRET
    assert job_secret({"QDIST_SECRET_FILE": str(file)}) == SECRET
    for mode in (0o640, 0o604, 0o620, 0o602):
        file.chmod(mode)
        with pytest.raises(qc.CommError, match=r"can be read or written by others.*chmod 600"):
            job_secret({"QDIST_SECRET_FILE": str(file)})


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({"QDIST_SECRET": "hunter2"}, "a secret of 7 characters; it must have 16"),
        ({"QDIST_SECRET": ""}, "a secret of 0 characters"),
        ({"QDIST_SECRET": SECRET, "QDIST_SECRET_FILE": "/x"}, "both set"),
        ({"QDIST_SECRET_FILE": "/no/such/file"}, "cannot be read: No such file"),
        ({"QDIST_SECRET_FILE": "/"}, "cannot be read: Is a directory"),
        ({"QDIST_SECRET_FILE": "/dev/null"}, "is not a file"),
    ],
)
def test_what_is_no_secret_is_refused_and_not_shown(environ: dict[str, str], message: str) -> None:
    with pytest.raises(qc.CommError, match=message) as caught:
        job_secret(environ)
    assert "hunter2" not in str(caught.value)


def test_a_secret_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "secret"
    file.write_text(SECRET)
    file.chmod(0o600)
    other = os.geteuid() + 1
    monkeypatch.setattr(secret.os, "geteuid", lambda: other)
    with pytest.raises(qc.CommError, match=f"belongs to user {other - 1}, not to user {other}"):
        job_secret({"QDIST_SECRET_FILE": str(file)})


# Where to meet --------------------------------------------------------------------------------------------------------

ENV = {"MASTER_PORT": "29500", "WORLD_SIZE": "4"}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.0.1", "[::1]", "localhost", HOST])
def test_ranks_of_one_machine_need_no_secret_and_no_port(host: str) -> None:
    address = rendezvous_address(urlsplit(f"tcp://{host}:29500"), {})
    assert address.token == ""
    assert address.port == 29500
    with_secret = rendezvous_address(urlsplit(f"tcp://{host}:29500"), {"QDIST_SECRET": SECRET})
    assert with_secret.token == SECRET
    assert with_secret.hosts == (host.strip("[]").lower(),)


@pytest.mark.parametrize("host", ["192.0.2.7", "10.0.0.1", "[2001:db8::1]", "0.0.0.0", "no-such-host.invalid"])
def test_an_address_of_several_machines_needs_a_secret(host: str) -> None:
    for parts, environ in (
        (urlsplit(f"tcp://{host}:29500"), {}),
        (urlsplit("env://"), ENV | {"MASTER_ADDR": host.strip("[]")}),
    ):
        with pytest.raises(qc.CommError, match=r"share no secret.*set QDIST_SECRET .*QDIST_SECRET_FILE"):
            rendezvous_address(parts, environ)
        assert rendezvous_address(parts, environ | {"QDIST_SECRET": SECRET}).token == SECRET


def test_what_torchrun_says_of_the_machines_counts() -> None:
    parts = urlsplit("env://")
    agent = {"TORCHELASTIC_USE_AGENT_STORE": "True"}
    one = rendezvous_address(parts, ENV | agent | {"MASTER_ADDR": "192.0.2.7", "LOCAL_WORLD_SIZE": "4"})
    assert (one.token, one.port) == ("", 29501)
    with pytest.raises(qc.CommError, match="share no secret"):
        rendezvous_address(parts, ENV | {"MASTER_ADDR": HOST, "LOCAL_WORLD_SIZE": "2"})


def test_ports_that_are_none_are_refused() -> None:
    for url in ("tcp://localhost", "tcp://localhost:0", "tcp://localhost:99999", "tcp://localhost:x", "tcp://:5"):
        with pytest.raises(ValueError, match="expected tcp://host:port"):
            rendezvous_address(urlsplit(url), {})
    for port in ("65536", "0", "-1", "x"):
        with pytest.raises(qc.CommError, match="is not a port number"):
            rendezvous_address(urlsplit("env://"), {"MASTER_ADDR": "localhost", "MASTER_PORT": port})


# The file -------------------------------------------------------------------------------------------------------------


def test_the_rendezvous_file_is_its_owners_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, address = tmp_path / "meeting", Address(("127.0.0.1",), 5, "t")
    file = RendezvousFile(path)
    assert file.read() is None
    file.write(address)
    assert path.stat().st_mode & 0o777 == 0o600
    assert RendezvousFile(path).read() == address
    path.chmod(0o620)
    assert RendezvousFile(path).read() is None  # Somebody else may have written it: wait for rank 0's.
    path.chmod(0o600)
    with monkeypatch.context() as patched:
        patched.setattr(rendezvous_file.os, "geteuid", lambda: path.stat().st_uid + 1)
        for use in (RendezvousFile(path).read, lambda: RendezvousFile(path).write(address)):
            with pytest.raises(qc.CommError, match="belongs to user"):
                use()
    RendezvousFile(path).remove()  # Not this object's file.
    assert path.exists()
    file.remove()
    assert not path.exists()
    assert list(tmp_path.iterdir()) == []


def test_links_in_the_place_of_the_rendezvous_file_are_not_followed(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "meeting", tmp_path / "elsewhere"
    RendezvousFile(elsewhere).write(Address(("127.0.0.1",), 5, "t"))
    before = elsewhere.read_text()
    path.symlink_to(elsewhere)
    for use in (RendezvousFile(path).read, lambda: RendezvousFile(path).write(Address(("h",), 6, "u"))):
        with pytest.raises(qc.CommError, match="is a symbolic link"):
            use()
    with pytest.raises(qc.CommError, match="is a symbolic link"):
        qc.init(init_method=f"file://{path}", rank=1, world_size=2, timeout=30)
    assert elsewhere.read_text() == before
    path.unlink()
    path.mkdir()
    with pytest.raises(qc.CommError, match="no plain file"):
        RendezvousFile(path).read()


# The process manager --------------------------------------------------------------------------------------------------


def test_the_manager_drops_who_does_not_speak_its_language_and_answers_the_rest() -> None:
    job = pmi.ProcessGroup(2, "(vector,(0,1,2))")
    assert job.receive(0, b"cmd=put kvsname=x key=a val") == []
    assert job.receive(0, b"ue=b c\ncmd=get key=a\n") == [
        (0, b"cmd=put_result rc=0 msg=success\n"),
        (0, b"cmd=get_result rc=0 msg=success value=b c\n"),
    ]
    refused = b"cmd=put_result rc=-1 msg=invalid_key_or_value\n"
    for line in (b"cmd=put\n", b"cmd=put key=\n", b"cmd=put key=k value=" + b"v" * 5000 + b"\n"):
        assert job.receive(0, line) == [(0, refused)]
    assert job.receive(1, b"cmd=initack pmiid=x\n") == [(1, b"cmd=initack rc=-1 msg=unknown_command\n")]
    for line in (b"\n", b"hello\n", b"cmd=\n", b"\xff\n", b"x" * 9000, b"x" * 9000 + b"\n", b"cmd=a\xffb\n"):
        with pytest.raises(pmi.BadClientError):
            pmi.ProcessGroup(2, "").receive(1, line)
    assert job.receive(1, b"cmd=barrier_in\n") == []
    with pytest.raises(pmi.BadClientError):
        job.receive(1, b"cmd=barrier_in\n")
    assert job.receive(0, b"cmd=barrier_in\n") == [(r, b"cmd=barrier_out rc=0\n") for r in (0, 1)]
    for _ in range(pmi._MAX_KEYS_OF_A_RANK):
        job.receive(1, b"cmd=put key=a value=1\n")
    assert b"too_many_keys" in job.receive(1, b"cmd=put key=a value=1\n")[0][1]
    assert b"rc=0" in job.receive(0, b"cmd=put key=b value=1\n")[0][1]
    job.receive(1, b"cmd=finalize\ncmd=finalize\n")
    assert job.finalised == {1}


def test_a_rank_that_is_lost_frees_those_who_wait_for_it() -> None:
    job = pmi.ProcessGroup(3, "")
    job.receive(0, b"cmd=barrier_in\n")
    assert job.lose(2) == {0}
    with pytest.raises(pmi.BadClientError):
        job.receive(1, b"cmd=barrier_in\n")


# The launcher's store -------------------------------------------------------------------------------------------------


def test_the_launchers_token_is_on_no_command_line_and_its_port_only_where_ranks_are(tmp_path: Path) -> None:
    mpirun = tmp_path / "mpirun"
    mpirun.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && echo HYDRA build 1.0 && exit\n'
        f'echo "$@" > {tmp_path}/arguments\nprintf %s "$QDIST_LAUNCHER" > {tmp_path}/address\n'
    )
    mpirun.chmod(0o755)
    for where, hosts in (
        (["-n", "2"], ("127.0.0.1",)),
        (["-H", "localhost:2"], ("127.0.0.1",)),
        (["-H", "elsewhere:2"], None),
    ):
        command = [sys.executable, "-m", "qdist", "run", *where, "--mpi", str(mpirun), "true"]
        subprocess.run(command, timeout=60, check=True)
        address = Address.from_json((tmp_path / "address").read_text())
        assert len(address.token) == 64
        assert address.token not in (tmp_path / "arguments").read_text()
        if hosts is None:
            assert len(address.hosts) > 1
        else:
            assert address.hosts == hosts


# Whole jobs -----------------------------------------------------------------------------------------------------------

# Prints what listens in the rank's processes, what its children inherit, and the sum over the ranks, twice.
MEET = """
import glob, json, os, subprocess, sys
import numpy as np, qdist, qdist.comm as qc

def listening():
    pids = [str(os.getpid()), *open(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read().split()]
    sockets = {os.readlink(f) for p in pids for f in glob.glob(f"/proc/{p}/fd/*") if os.path.islink(f)}
    lines = [l.split() for t in ("tcp", "tcp6") for l in open(f"/proc/net/{t}").readlines()[1:]]
    return sorted(l[1] for l in lines if l[3] == "0A" and f"socket:[{l[9]}]" in sockets)

comm = qc.init(timeout=60)
print("sum", int(comm.all_reduce(np.array(comm.rank + 1))))
print("listening", len(listening()), *listening())
show = "import os; print(*(k for k in os.environ if k.startswith(('PMI', 'UCX'))))"
print("inherited", subprocess.run([sys.executable, "-c", show], capture_output=True, text=True).stdout.split())
try:
    qdist.spawn(print, 2)
except qc.CommError as error:
    print(error)
qc.shutdown()
again = qc.init(timeout=60)
assert (again.rank, again.size) == (comm.rank, comm.size)
print("again", int(again.all_reduce(np.array(1))))
"""


@without_launcher
def test_a_job_on_one_machine_opens_no_port_and_leaves_no_variables(free_port: int) -> None:
    with Ranks(MEET, free_port, 2, MASTER_ADDR=HOST) as ranks:
        ranks.start(0, 1)
        for rank, (code, text) in enumerate(ranks.outcome()):
            assert code == 0, text
            assert text.splitlines() == [
                "sum 3",
                "listening 0",
                "inherited []",
                f"spawn() inside rank {rank} of 2: the ranks are there already",
                "again 2",
            ]


@without_launcher
def test_strangers_at_the_port_get_nowhere_and_harm_nobody(free_port: int) -> None:
    with Ranks(MEET, free_port, 2, QDIST_SECRET=SECRET) as ranks:
        ranks.start(0)
        end = time.monotonic() + 60
        attacks = [
            b'{"token": "", "do": "set", "key": "node/1", "value": "x"}\n',
            b'{"token": "", "do": "set", "key": "manager", "value": "1 attacker"}\n',
            b"cmd=initack pmiid=1\ncmd=put\ncmd=initack pmiid=x\n",
            b"x" * 100_000,
        ]
        while attacks:
            try:
                with socket.create_connection(("127.0.0.1", free_port), timeout=20) as stranger:
                    stranger.sendall(attacks[-1])
                    with contextlib.suppress(ConnectionError):
                        assert b"value" not in stranger.makefile("rb").read()
                attacks.pop()
            except ConnectionRefusedError:
                assert time.monotonic() < end
                time.sleep(0.02)
        silent = [socket.create_connection(("127.0.0.1", free_port)) for _ in range(100)]
        impostor = subprocess.run(
            [sys.executable, "-c", MEET],
            env=ranks._environ | {"RANK": "1", "QDIST_SECRET": "another secret text"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert impostor.returncode != 0
        assert "the secret is another" in impostor.stderr
        ranks.start(1)
        outcome = ranks.outcome()
        for each in silent:
            each.close()
    assert [code for code, _ in outcome] == [0, 0], outcome
    assert "sum 3" in outcome[1][1]
    # Rank 0 listens for the ranks, on the address that was named, and nothing else does.
    assert f"listening 1 0100007F:{free_port:04X}" in outcome[0][1]
    assert "listening 0" in outcome[1][1]


@without_launcher
def test_a_rank_that_is_started_twice_is_told(free_port: int) -> None:
    with Ranks(MEET, free_port, 3) as ranks:
        ranks.start(0, 1)
        twin = Ranks(MEET, free_port, 3)
        twin.start(1)
        first = next(p for p in _ended([ranks.processes[1], twin.processes[1]]))
        assert "another process is rank 1 already: is a rank started twice?" in first.communicate()[0]
        ranks.processes[1] = (twin if first is ranks.processes[1] else ranks).processes[1]
        ranks.start(2)
        assert [code for code, _ in ranks.outcome()] == [0, 0, 0]


def _ended(processes: list[subprocess.Popen[str]]):
    """Processes in the order in which they end."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        yield from (p for p in processes if p.poll() is not None)
        time.sleep(0.02)
    raise AssertionError("none has ended")


PAUSE = """
import os, signal, sys, time
import numpy as np, qdist.comm as qc
comm = qc.init(timeout=600)
comm.barrier()
time.sleep(1.5)  # The guards have found the board.
if comm.rank == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
if comm.rank == 1:
    time.sleep(7)  # One rank works on its own, the other one waits.
print(int(comm.all_reduce(np.array(1))))
"""


@without_launcher
def test_a_rank_0_that_pauses_is_waited_for(free_port: int) -> None:
    with Ranks(PAUSE, free_port, 3) as ranks:
        ranks.start(0, 1, 2)
        assert os.WIFSTOPPED(os.waitpid(ranks.processes[0].pid, os.WUNTRACED)[1])
        # Longer than a guard waits for an answer of the board, which rank 0 serves.
        with pytest.raises(subprocess.TimeoutExpired):
            ranks.processes[1].wait(7)
        ranks.processes[0].send_signal(signal.SIGCONT)
        assert ranks.outcome() == [(0, "3\n")] * 3


FORK = """
import os, signal, sys, time
import qdist.comm as qc
comm = qc.init(timeout=600)
comm.barrier()
if comm.rank == int(sys.argv[1]):
    child = os.fork()
    if child == 0:
        os.close(1), os.close(2)
        time.sleep(60)
        os._exit(0)
    print("child", child, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
comm.barrier()
"""


@without_launcher
@pytest.mark.parametrize("dies", [0, 1])
def test_a_dead_ranks_forked_children_do_not_hide_its_end(free_port: int, dies: int) -> None:
    with Ranks(FORK, free_port, 2) as ranks:
        ranks._command.append(str(dies))
        ranks.start(0, 1)
        outcome = ranks.outcome(40)
        os.kill(int(outcome[dies][1].split()[-1]), signal.SIGKILL)
        code, text = outcome[1 - dies]
        assert code != 0
        assert ("rank 0 is gone" if dies == 0 else "rank 1 died: it was killed or crashed") in text
