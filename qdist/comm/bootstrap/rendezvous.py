"""env://, tcp:// and file://: bringing ranks together that no MPI launcher started.

All three find a store served by rank 0, and prove to each other that they know its token. Through it the ranks get a
connection to a process manager (pmi.py) that rank 0 starts; MPI_Init does the rest: the same MPI, with its shared
memory, whoever started the processes.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO
from urllib.parse import urlsplit

from qdist.comm import standalone
from qdist.comm.bootstrap.rendezvous_address import rendezvous_address
from qdist.comm.bootstrap.rendezvous_file import RendezvousFile
from qdist.comm.errors import CommError
from qdist.comm.guard.watch import Guard
from qdist.comm.store.client import Address, StoreClient
from qdist.comm.store.private_sockets import keep_descriptor_from_forks, keep_from_forks
from qdist.comm.store.server import StoreServer

__all__ = ["Rendezvous"]

_BOARD_PATIENCE = 5.0


class Rendezvous:
    """One rank's part in a rendezvous of ``size`` ranks at ``url``."""

    def __init__(self, url: str, rank: int, size: int, timeout: float) -> None:
        """Finds rank 0's store. Raises ValueError for a URL that is none, CommError when the store is not found."""
        self._rank, self._size, self._timeout = rank, size, timeout
        self._server: StoreServer | None = None
        self._manager: subprocess.Popen[str] | None = None
        self._file: RendezvousFile | None = None
        self._added: list[str] = []
        self._guard: Guard | None = None
        self._to_manager: list[int] = []
        try:
            self.board = self._find_store(url)
        except BaseException:
            self._give_up()
            raise

    def prepare_mpi(self) -> None:
        """Sets what MPI_Init reads. Afterwards importing mpi4py.MPI joins this process with the others.

        Raises CommError when a rank does not come in time; the others then find nobody and end too.
        """
        try:
            self._meet()
        except BaseException:
            self._give_up()
            raise

    def _find_store(self, url: str) -> StoreClient:
        parts = urlsplit(url)
        if parts.scheme in ("env", "tcp"):
            return self._by_address(rendezvous_address(parts, os.environ))
        if parts.scheme == "file":
            if not parts.path or parts.netloc:
                raise ValueError(f"init_method={url!r}: expected file:///absolute/path")
            return self._by_file(Path(parts.path))
        raise ValueError(f"init_method={url!r}: use env://, tcp://host:port or file:///path")

    def _meet(self) -> None:
        if "mpi4py.MPI" in sys.modules:
            raise CommError(
                "mpi4py.MPI was imported before init(), and MPI has started alone: call qdist.comm.init() first"
            )
        store = self.board
        store.set(f"node/{self._rank}", _node())
        if self._rank == 0:
            found = store.wait_count("node/", self._size, self._timeout)
            self._start_manager([found[f"node/{r}"] for r in range(self._size)])
            store.set("manager", "started")
        store.wait("manager", self._timeout)
        nodes = store.list("node/")
        connection = store.connect_through()
        descriptor = connection.detach()  # MPICH's from here on: it closes it in MPI_Finalize.
        keep_descriptor_from_forks(descriptor)
        self._set("PMI_FD", str(descriptor))
        self._set("PMI_RANK", str(self._rank))
        self._set("PMI_SIZE", str(self._size))
        if len(set(nodes.values())) == 1 and "UCX_TLS" not in os.environ:
            # Ranks of one machine talk through its memory: MPICH's UCX need not listen on the network.
            self._set("UCX_TLS", "^tcp")
        store.set(f"ready/{self._rank}", "yes")
        if self._rank == 0:
            # From here on MPI_Init holds the interpreter, and the store with it: everyone must have read it before.
            store.wait_count("ready/", self._size, self._timeout)

    def _give_up(self) -> None:
        """Nothing came of it: no port, process, file or variable stays."""
        if self._server is not None:
            self._server.hand_over = None
            self._server.close()
        for descriptor in self._to_manager:
            os.close(descriptor)
        self._to_manager.clear()
        self._take_back()

    def mpi_has_started(self) -> None:
        """Takes back what prepare_mpi() set: processes that this one starts are no ranks."""
        self._take_back()
        # While it waits for the others a rank asks for as long as its time-out; a guard has other things to do.
        self.board.patience = _BOARD_PATIENCE

    def _take_back(self) -> None:
        for name in self._added:
            os.environ.pop(name, None)
        self._added.clear()
        if self._file is not None:
            self._file.remove()

    def tell(self, guard: Guard) -> None:
        """From now on ``guard`` learns, on rank 0, of processes that the manager saw dying."""
        first, self._guard = self._guard is None, guard
        if first and self._manager is not None and self._manager.stdout is not None:
            lines = self._manager.stdout
            threading.Thread(target=self._follow_deaths, args=(lines,), name="qdist-deaths", daemon=True).start()

    def _follow_deaths(self, lines: IO[str]) -> None:
        for line in lines:
            word, _, rank = line.strip().partition(" ")
            if word == "died" and self._guard is not None:
                self._guard.report_death(int(rank))

    def _set(self, name: str, value: str) -> None:
        os.environ[name] = value
        self._added.append(name)

    def _by_address(self, address: Address) -> StoreClient:
        if self._rank == 0:
            self._server = StoreServer(address.hosts[0], address.port, address.token)
        client = StoreClient(address, self._rank, self._timeout)
        client.wait_served(self._timeout)
        return client

    def _by_file(self, path: Path) -> StoreClient:
        self._file = RendezvousFile(path)
        if self._rank == 0:
            # Ranks of other machines may read the file too: its token, and not where the store listens, keeps
            # strangers out.
            self._server = StoreServer(host="")
            self._file.write(self._server.address)
            return StoreClient(self._server.address, 0, self._timeout)
        end = time.monotonic() + self._timeout
        why: CommError | None = None
        while time.monotonic() < end:
            # A file left behind by an earlier job names a store that does not answer: wait for rank 0's new one.
            address = self._file.read()
            if address is not None:
                client = StoreClient(address, self._rank)
                try:
                    client.get("node/0")
                    client.patience = self._timeout
                    return client
                except CommError as error:
                    client.close()
                    why = error
            time.sleep(0.05)
        found = "" if why is None else f"; what is there names a store that does not answer ({why})"
        raise CommError(f"rank 0 wrote no rendezvous file {path} within {self._timeout:g} s{found}") from why

    def _start_manager(self, nodes: list[str]) -> None:
        """Starts pmi.py, and has the store hand it the ranks' connections."""
        assert self._server is not None
        theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._manager = subprocess.Popen(
            [sys.executable, "-IS", str(standalone.FOLDER / "pmi.py"), str(self._size), _process_mapping(nodes)],
            stdin=theirs.fileno(),
            stdout=subprocess.PIPE,
            text=True,
        )
        theirs.close()
        # The manager ends when this connection closes, that is with this process: its end here is a bare descriptor,
        # which outlives the interpreter's clean-up and so MPI_Finalize.
        self._to_manager = [os.dup(ours.fileno())]
        keep_descriptor_from_forks(self._to_manager[0])
        keep_from_forks(ours)
        self._server.hand_over = lambda rank, connection: _hand_over(ours, rank, connection)


def _hand_over(manager: socket.socket, rank: int, connection: socket.socket) -> None:
    socket.send_fds(manager, [str(rank).encode()], [connection.fileno()])


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
