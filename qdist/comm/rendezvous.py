"""env://, tcp:// and file://: bringing ranks together that no MPI launcher started.

All three find a store served by rank 0. Through it the ranks agree on a process manager (pmi.py) that rank 0 starts;
MPI_Init does the rest: the same MPI, with its shared memory, whoever started the processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

from qdist.comm.errors import CommError
from qdist.comm.guard import Guard
from qdist.comm.store import Address, StoreClient, StoreServer

__all__ = ["Rendezvous"]


class Rendezvous:
    """One rank's part in a meeting of ``size`` ranks at ``url``."""

    def __init__(self, url: str, rank: int, size: int, timeout: float) -> None:
        self._rank, self._size, self._timeout = rank, size, timeout
        self._server: StoreServer | None = None
        self._manager: subprocess.Popen[str] | None = None
        self._file: Path | None = None
        parts = urlsplit(url)
        if parts.scheme == "env":
            self._store = self._by_tcp(*_master_of(os.environ))
        elif parts.scheme == "tcp":
            if not parts.hostname or not parts.port:
                raise ValueError(f"init_method={url!r}: expected tcp://host:port")
            self._store = self._by_tcp(parts.hostname, parts.port)
        elif parts.scheme == "file":
            if not parts.path or parts.netloc:
                raise ValueError(f"init_method={url!r}: expected file:///absolute/path")
            self._store = self._by_file(Path(parts.path))
        else:
            raise ValueError(f"init_method={url!r}: use env://, tcp://host:port or file:///path")

    def prepare_mpi(self) -> None:
        """Sets what MPI_Init reads. Afterwards importing mpi4py.MPI joins this process with the others."""
        if "mpi4py.MPI" in sys.modules:
            raise CommError(
                "mpi4py.MPI was imported before init(), and MPI has started alone: call qdist.comm.init() first"
            )
        store = self._store
        store.set(f"node/{self._rank}", _node())
        if self._rank == 0:
            nodes = store.wait_count("node/", self._size, self._timeout)
            order = [nodes[f"node/{r}"] for r in range(self._size)]
            store.set("manager", self._start_manager(order))
        manager = store.wait("manager", self._timeout)
        port, _, hosts = manager.partition(" ")
        host = "127.0.0.1" if store.get("node/0") == _node() else hosts.split(",")[0]
        os.environ |= {
            "PMI_PORT": f"{host}:{port}",
            "PMI_ID": str(self._rank),
            "PMI_RANK": str(self._rank),
            "PMI_SIZE": str(self._size),
        }
        store.set(f"ready/{self._rank}", "yes")
        if self._rank == 0:
            # From here on MPI_Init holds the interpreter, and the store with it: everyone must have read it before.
            store.wait_count("ready/", self._size, self._timeout)

    def finish(self, guard: Guard) -> None:
        """After MPI_Init: rank 0 passes on to ``guard`` which processes the manager saw dying."""
        if self._file is not None and self._rank == 0:
            self._file.unlink(missing_ok=True)
        if self._server is not None:
            self._server.close()
        if self._manager is not None and self._manager.stdout is not None:
            guard.follow_deaths(self._manager.stdout)

    def _by_tcp(self, host: str, port: int) -> StoreClient:
        if self._rank == 0:
            # The port is known in advance and so is no secret; only text and numbers travel through this store.
            self._server = StoreServer(port=port, token="")
        client = StoreClient(Address((host,), port))
        client.wait_served(self._timeout)
        return client

    def _by_file(self, path: Path) -> StoreClient:
        self._file = path
        if self._rank == 0:
            self._server = StoreServer()
            beside = path.with_name(f".{path.name}.{os.getpid()}")
            try:
                with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as f:
                    f.write(self._server.address.to_json())
                os.replace(beside, path)
            except OSError as error:
                raise CommError(f"cannot write the rendezvous file {path}: {error}") from error
            return StoreClient(self._server.address)
        end = time.monotonic() + self._timeout
        while time.monotonic() < end:
            # A file left behind by an earlier job names a store that does not answer: wait for rank 0's new one.
            try:
                client = StoreClient(Address.from_json(path.read_text()))
                client.get("node/0")
                return client
            except (OSError, CommError):
                time.sleep(0.05)
        raise CommError(f"rank 0 wrote no rendezvous file {path} within {self._timeout:g} s")

    def _start_manager(self, nodes: list[str]) -> str:
        """Starts pmi.py; returns its port and hosts as text."""
        script = Path(__file__).with_name("pmi.py")
        mapping = _process_mapping(nodes)
        # The manager ends when this pipe closes, that is with this process: its end here is a bare descriptor, which
        # outlives the interpreter's clean-up and so MPI_Finalize.
        theirs, _ours = os.pipe()
        self._manager = subprocess.Popen(
            [sys.executable, "-S", str(script), str(self._size), mapping],
            stdin=theirs,
            stdout=subprocess.PIPE,
            text=True,
        )
        os.close(theirs)
        assert self._manager.stdout is not None
        assert self._server is not None
        port = self._manager.stdout.readline().strip()
        return f"{port} {','.join(self._server.address.hosts)}"


def _master_of(environ: os._Environ[str]) -> tuple[str, int]:
    # torchrun's own agent already listens on MASTER_PORT and says so.
    taken = environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    try:
        return environ["MASTER_ADDR"], int(environ["MASTER_PORT"]) + taken
    except KeyError as missing:
        raise CommError(
            f"RANK and WORLD_SIZE are set, but {missing.args[0]} is not: env:// needs MASTER_ADDR and MASTER_PORT. "
            "Start with `qdist run -n N` or mpirun, or pass init_method='tcp://host:port'."
        ) from None
    except ValueError:
        raise CommError(f"MASTER_PORT={environ['MASTER_PORT']!r} is not a port number") from None


def _node() -> str:
    """What tells this machine from others, and one boot of a container host from another's."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return f"{os.uname().nodename} {boot}"


def _process_mapping(nodes: list[str]) -> str:
    """Which ranks share a node, in the notation of PMI_process_mapping: runs of (first node, nodes, ranks a node)."""
    order = list(dict.fromkeys(nodes))
    runs: list[list[int]] = []
    for node in nodes:
        index = order.index(node)
        if runs and runs[-1][0] == index:
            runs[-1][1] += 1
        else:
            runs.append([index, 1])
    return "(vector," + ",".join(f"({index},1,{count})" for index, count in runs) + ")"
