"""A process manager of the PMI-1 wire protocol: what MPICH's MPI_Init asks when no mpirun is there.

Run as a program by rank 0, not imported: ``pmi.py SIZE PROCESS_MAPPING``. It opens no port. Its standard input is a
socket over which rank 0 hands it one connection a rank, each from a process that has proven itself to the store. It
prints ``died RANK`` for each whose connection breaks before it finalised, and ends when all have finalised or, its
standard input closed, all have gone. It is a process of its own because MPI_Init and MPI_Finalize hold the interpreter
of rank 0, and uses the standard library alone so that it starts at once.

The protocol is lines of ``key=value`` words (Balaji et al., "PMI: a scalable parallel process-management interface for
extreme-scale systems", EuroMPI 2010).
"""

import contextlib
import os
import resource
import secrets
import selectors
import signal
import socket
import sys

_MAX_NAME, _MAX_VALUE = 256, 4096
_MAX_LINE = 2 * _MAX_VALUE
_MAX_KEYS_OF_A_RANK = 4096
_LIMITS = f"kvsname_max={_MAX_NAME} keylen_max={_MAX_NAME} vallen_max={_MAX_VALUE}"


class BadClientError(Exception):
    """A rank that does not speak the protocol."""


class ProcessGroup:
    """What the ranks of one job say to the manager and are answered: bytes in, bytes out, no socket."""

    def __init__(self, size: int, process_mapping: str) -> None:
        self._size = size
        # MPICH names its shared memory after this, so no two jobs on a machine may have the same.
        self._space = f"qdist_{os.getpid()}_{secrets.token_hex(8)}"
        self._values = {"PMI_process_mapping": process_mapping}
        self._puts = [0] * size
        self._pending = [b""] * size
        self._in_barrier: set[int] = set()
        self.finalised: set[int] = set()
        self.broken = False
        """Whether a rank is lost: then no barrier can complete any more."""

    def receive(self, rank: int, data: bytes) -> list[tuple[int, bytes]]:
        """What to tell which ranks when ``rank`` sends this. Raises BadClientError for what is not the protocol."""
        *lines, self._pending[rank] = (self._pending[rank] + data).split(b"\n")
        answers = []
        for line in lines:
            _bound(line)
            answers += [(to, answer.encode() + b"\n") for to, answer in self._answer(rank, line).items()]
        _bound(self._pending[rank])
        return answers

    def _answer(self, rank: int, line: bytes) -> dict[int, str]:
        text = line.decode("ascii", errors="replace")
        words = dict(word.partition("=")[::2] for word in text.split())
        match words.get("cmd"):
            case "init":
                return {rank: "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"}
            case "get_maxes":
                return {rank: f"cmd=maxes rc=0 {_LIMITS}"}
            case "get_appnum":
                return {rank: "cmd=appnum rc=0 appnum=0"}
            case "get_my_kvsname":
                return {rank: f"cmd=my_kvsname rc=0 kvsname={self._space}"}
            case "get_universe_size":
                return {rank: f"cmd=universe_size rc=0 size={self._size}"}
            case "put":
                # A value may hold spaces, so it is the rest of the line.
                return {rank: self._put(rank, words.get("key", ""), text.partition(" value=")[2])}
            case "get":
                value = self._values.get(words.get("key", ""))
                if value is None:
                    return {rank: "cmd=get_result rc=-1 msg=key_not_found value=unknown"}
                return {rank: f"cmd=get_result rc=0 msg=success value={value}"}
            case "barrier_in":
                return self._barrier(rank)
            case "finalize":
                self.finalised.add(rank)
                return {rank: "cmd=finalize_ack rc=0"}
            case "abort":
                return {}  # The rank dies next, and its broken connection says so.
            case str(other) if other.isidentifier() and len(other) <= _MAX_NAME:
                return {rank: f"cmd={other} rc=-1 msg=unknown_command"}
            case _:
                raise BadClientError(f"rank {rank} sent a line without a command")

    def lose(self, rank: int) -> set[int]:
        """``rank`` is gone before it finalised. Returns who waits in a barrier that will never complete."""
        self.broken = True
        stranded, self._in_barrier = self._in_barrier - {rank}, set()
        return stranded

    def _put(self, rank: int, key: str, value: str) -> str:
        if not key or len(key) > _MAX_NAME or len(value) > _MAX_VALUE:
            return "cmd=put_result rc=-1 msg=invalid_key_or_value"
        self._puts[rank] += 1
        if self._puts[rank] > _MAX_KEYS_OF_A_RANK:
            return "cmd=put_result rc=-1 msg=too_many_keys"
        self._values[key] = value
        return "cmd=put_result rc=0 msg=success"

    def _barrier(self, rank: int) -> dict[int, str]:
        if self.broken or rank in self._in_barrier:
            raise BadClientError(f"rank {rank} entered a barrier that cannot complete")
        self._in_barrier.add(rank)
        if len(self._in_barrier) < self._size:
            return {}
        out, self._in_barrier = self._in_barrier, set()
        return dict.fromkeys(out, "cmd=barrier_out rc=0")


class Manager:
    """Serves the ranks of one job from a single loop."""

    def __init__(self, job: ProcessGroup, size: int, source: socket.socket) -> None:
        self._job, self._size, self._source = job, size, source
        self._connections: dict[int, socket.socket] = {}
        self._taken: set[int] = set()
        self._rank_0_is_there = True
        self._selector = selectors.DefaultSelector()
        self._selector.register(source, selectors.EVENT_READ, None)

    def serve(self) -> None:
        while len(self._job.finalised) < self._size and (self._rank_0_is_there or self._connections):
            for key, _ in self._selector.select():
                if key.data is None:
                    self._take()
                elif key.data in self._connections:
                    self._read(key.data)

    def _take(self) -> None:
        """A rank's connection, from rank 0."""
        message, descriptors, _, _ = socket.recv_fds(self._source, 64, 1)
        if not message:
            # Rank 0 is gone, perhaps in good order: the others may still have to finalise.
            self._selector.unregister(self._source)
            self._rank_0_is_there = False
            return
        connection = socket.socket(fileno=descriptors[0])
        rank = int(message)
        if not 0 <= rank < self._size or rank in self._taken:
            connection.close()
            return
        connection.setblocking(False)
        self._taken.add(rank)
        self._connections[rank] = connection
        self._selector.register(connection, selectors.EVENT_READ, rank)

    def _read(self, rank: int) -> None:
        try:
            data = self._connections[rank].recv(65536)
        except OSError:
            data = b""
        if not data:
            self._drop(rank)
            return
        try:
            answers = self._job.receive(rank, data)
        except BadClientError:
            self._drop(rank)
            return
        for to, answer in answers:
            self._say(to, answer)

    def _say(self, rank: int, message: bytes) -> None:
        if rank not in self._connections:
            return
        # A rank waits for each answer before it asks again, so there is room for one unless it does not keep to that.
        try:
            complete = self._connections[rank].send(message) == len(message)
        except OSError:
            complete = False
        if not complete:
            self._drop(rank)

    def _drop(self, rank: int) -> None:
        """Ends a rank's connection; if it had not finalised, whoever can only wait for it is not left waiting."""
        if rank not in self._connections:
            return
        connection = self._connections.pop(rank)
        self._selector.unregister(connection)
        connection.close()
        if rank in self._job.finalised:
            return
        with contextlib.suppress(OSError):
            os.write(1, f"died {rank}\n".encode())
        for stranded in self._job.lose(rank):
            self._drop(stranded)


def _bound(line: bytes) -> None:
    if len(line) > _MAX_LINE:
        raise BadClientError("a line that is too long")


def main() -> None:
    # Ctrl-C is for the ranks; the manager ends when they have.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    size = int(sys.argv[1])
    Manager(ProcessGroup(size, sys.argv[2]), size, socket.socket(fileno=0)).serve()


if __name__ == "__main__":
    main()
