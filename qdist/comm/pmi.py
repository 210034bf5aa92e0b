"""A process manager of the PMI-1 wire protocol: what MPICH's MPI_Init asks when no mpirun is there.

Run as a program by rank 0, not imported: ``pmi.py SIZE PROCESS_MAPPING``. Prints its port, serves the ranks, prints
``died RANK`` for each whose connection breaks before it finalised, and ends when all have finalised or, its standard
input closed, all have gone. It uses the standard library alone so that it starts at once.

The protocol is lines of ``key=value`` words over TCP (Balaji et al., "PMI: a scalable parallel process-management
interface for extreme-scale systems", EuroMPI 2010).
"""

import contextlib
import os
import selectors
import socket
import sys
import time

_LIMITS = "kvsname_max=256 keylen_max=256 vallen_max=4096"


class Manager:
    """Serves the ranks of one job from a single loop."""

    def __init__(self, size: int, process_mapping: str) -> None:
        self._size = size
        # MPICH names its shared memory after this, so no two jobs on a machine may have the same.
        self._space = f"qdist_{os.getpid()}_{time.time_ns()}"
        self._values = {"PMI_process_mapping": process_mapping}
        self._in_barrier: list[socket.socket] = []
        self._rank_of: dict[socket.socket, int] = {}
        self._pending: dict[socket.socket, bytes] = {}
        self._finalised = 0
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("", 0), backlog=1024)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(sys.stdin, selectors.EVENT_READ)
        print(self._listener.getsockname()[1], flush=True)

    def serve(self) -> None:
        started_by_rank_0 = True
        while self._finalised < self._size and (started_by_rank_0 or self._pending):
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    client, _ = self._listener.accept()
                    self._pending[client] = b""
                    self._selector.register(client, selectors.EVENT_READ)
                elif key.fileobj is sys.stdin:
                    # Rank 0 is gone, perhaps in good order: the others may still have to finalise.
                    if not os.read(sys.stdin.fileno(), 1024):
                        self._selector.unregister(sys.stdin)
                        started_by_rank_0 = False
                elif isinstance(key.fileobj, socket.socket):
                    self._read(key.fileobj)

    def _read(self, client: socket.socket) -> None:
        try:
            data = client.recv(65536)
        except OSError:
            data = b""
        if not data:
            if client in self._rank_of:
                with contextlib.suppress(OSError):
                    print(f"died {self._rank_of.pop(client)}", flush=True)
            self._drop(client)
            return
        *lines, self._pending[client] = (self._pending[client] + data).split(b"\n")
        for line in lines:
            words = dict(word.partition("=")[::2] for word in line.decode(errors="replace").split())
            self._answer(client, words, line.decode(errors="replace"))

    def _answer(self, client: socket.socket, words: dict[str, str], line: str) -> None:
        match words.get("cmd"):
            case "initack":
                self._rank_of[client] = rank = int(words["pmiid"])
                self._say(
                    client,
                    "cmd=initack",
                    f"cmd=set size={self._size}",
                    f"cmd=set rank={rank}",
                    "cmd=set debug=0",
                )
            case "init":
                self._say(client, "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
            case "get_maxes":
                self._say(client, f"cmd=maxes rc=0 {_LIMITS}")
            case "get_appnum":
                self._say(client, "cmd=appnum rc=0 appnum=0")
            case "get_my_kvsname":
                self._say(client, f"cmd=my_kvsname rc=0 kvsname={self._space}")
            case "get_universe_size":
                self._say(client, f"cmd=universe_size rc=0 size={self._size}")
            case "put":
                # A value may hold spaces, so it is the rest of the line.
                self._values[words["key"]] = line.partition(" value=")[2]
                self._say(client, "cmd=put_result rc=0 msg=success")
            case "get":
                value = self._values.get(words["key"])
                if value is None:
                    self._say(client, "cmd=get_result rc=-1 msg=key_not_found value=unknown")
                else:
                    self._say(client, f"cmd=get_result rc=0 msg=success value={value}")
            case "barrier_in":
                self._in_barrier.append(client)
                if len(self._in_barrier) == self._size:
                    waiting, self._in_barrier = self._in_barrier, []
                    for each in waiting:
                        self._say(each, "cmd=barrier_out rc=0")
            case "finalize":
                self._rank_of.pop(client, None)
                self._finalised += 1
                self._say(client, "cmd=finalize_ack rc=0")
            case "abort":
                pass  # The rank dies next, and its broken connection says so.
            case other:
                self._say(client, f"cmd={other} rc=-1 msg=unknown_command")

    def _say(self, client: socket.socket, *lines: str) -> None:
        try:
            client.sendall("".join(line + "\n" for line in lines).encode())
        except OSError:
            self._drop(client)

    def _drop(self, client: socket.socket) -> None:
        if client in self._pending:
            del self._pending[client]
            self._selector.unregister(client)
            client.close()


if __name__ == "__main__":
    Manager(int(sys.argv[1]), sys.argv[2]).serve()
