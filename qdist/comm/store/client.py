"""A small key-value store: how ranks find each other, and how they ask about each other when one is missing.

One process serves (server.py); everyone, the server included, talks to it through StoreClient. Keys and values
are text, a request is one line of JSON and so is its answer: nothing that arrives is ever executed or unpickled. A
client and its server first prove to each other that they know the store's token (handshake.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from qdist.comm.errors import CommError
from qdist.comm.standalone.handshake import Identity, LineReader, Refused, introduce, parse
from qdist.comm.store.private_sockets import keep_from_forks

__all__ = ["MAX_LINE", "Address", "StoreClient", "StoreGone", "StoreRefused", "peer_user", "reachable_hosts"]

MAX_LINE = 1 << 20
"""Longest line, in bytes, of a request by a proven client."""
_MAX_ANSWER = 1 << 26
_CONNECT_SECONDS = 5.0

Found = TypeVar("Found")


class StoreGone(CommError):
    """The store answered before, and now nobody listens there: the process that served it has ended."""


class StoreRefused(CommError):
    """The store, or whoever listens there, is not this job's, or will not have this process."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a store is: hosts to try in order, a port, and the token that opens it.

    Without a token the store is for processes of the same user on the same machine: a Unix socket, on which the kernel
    says whose process is at the other end. The hosts then count for nothing, and no other machine can reach it.
    """

    hosts: tuple[str, ...]
    port: int
    token: str = field(default="", repr=False)

    def __str__(self) -> str:
        return f"{'/'.join(self.hosts)}:{self.port}"

    @property
    def local_name(self) -> str:
        """The name of the Unix socket of a store without a token, in the abstract namespace: it leaves no file."""
        return f"\0qdist.{os.geteuid()}.{self.port}"

    def to_json(self) -> str:
        return json.dumps({"hosts": self.hosts, "port": self.port, "token": self.token})

    @staticmethod
    def from_json(text: str) -> Address:
        """Raises CommError for text that is none; the message does not hold it, for it may hold a token."""
        try:
            fields = json.loads(text)
            hosts, port, token = fields["hosts"], fields["port"], fields["token"]
            whole = isinstance(hosts, list) and all(isinstance(h, str) for h in hosts) and isinstance(token, str)
            if not whole or type(port) is not int or not 0 <= port < 1 << 16:
                raise ValueError("fields of other types")
            return Address(tuple(hosts), port, token)
        except (ValueError, KeyError, TypeError, RecursionError):
            raise CommError(f"not the address of a store: {len(text)} characters of something else") from None


def reachable_hosts() -> tuple[str, ...]:
    """Names and numbers under which other machines, and this one, may reach this machine."""
    name = socket.gethostname()
    numbers: list[str] = []
    with contextlib.suppress(OSError):
        numbers = [n for n in socket.gethostbyname_ex(name)[2] if not n.startswith("127.")]
    return tuple(dict.fromkeys([*numbers, name, "127.0.0.1"]))


def peer_user(connection: socket.socket) -> int:
    """Whose process is at the other end of a Unix socket."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", credentials)[1]


class StoreClient:
    """Reads and writes a store, over one connection that is made again when it breaks.

    rank: which rank's process this is; a second process that says the same is refused. -1: none in particular.
    patience: seconds that a request waits for an answer. A store that is slow is asked again; its answers come in
        order. One that is gone raises StoreGone at once.
    """

    def __init__(self, address: Address, rank: int = -1, patience: float = 5.0) -> None:
        self.address = address
        self.patience = patience
        self._who = Identity.of_this_process(rank)
        self._lock = threading.Lock()
        self._connection: tuple[socket.socket, LineReader] | None = None
        self._host: str | None = None
        self._asked = 0

    def wait_served(self, timeout: float) -> None:
        """Returns as soon as the store answers. Raises CommError after ``timeout`` seconds, StoreRefused at once."""
        self._until(lambda: self.list("served?"), timeout, "no store answered (rank 0 serves it)")

    def set(self, key: str, value: str) -> None:
        self._ask({"do": "set", "key": key, "value": value})

    def get(self, key: str) -> str | None:
        """The value, or None when the key is not there yet."""
        return self._ask({"do": "get", "key": key}).get("value")

    def add(self, key: str, amount: int) -> int:
        """Adds to a number, which is 0 at first; the sum. Keys of additions begin with the key and ``/added/``."""
        return int(self._ask({"do": "add", "key": key, "amount": amount, "once": secrets.token_hex(8)})["value"])

    def list(self, prefix: str) -> dict[str, str]:
        """All keys that begin with ``prefix``, and their values."""
        return self._ask({"do": "list", "key": prefix}).get("values", {})

    def wait(self, key: str, timeout: float) -> str:
        """The value, as soon as it is there. Raises CommError after ``timeout`` seconds."""
        return self._until(lambda: self.get(key), timeout, f"nobody set {key!r}")

    def wait_count(self, prefix: str, count: int, timeout: float) -> dict[str, str]:
        """All keys that begin with ``prefix``, as soon as there are ``count``. Raises CommError after ``timeout``."""

        def complete() -> dict[str, str] | None:
            found = self.list(prefix)
            return found if len(found) >= count else None

        return self._until(complete, timeout, f"fewer than {count} ranks came ({prefix!r})")

    def connect_through(self) -> socket.socket:
        """A connection of its own that the server, having seen who it is, hands on to whom it was told to.

        Raises CommError, also when this rank was given one before.
        """
        with self._lock:
            connection, lines = self._connect(time.monotonic() + self.patience)
            try:
                connection.settimeout(self.patience)
                connection.sendall(json.dumps({"do": "hand over", "id": 1}).encode() + b"\n")
                answer = parse(lines.read(MAX_LINE))
                if "error" in answer:
                    raise CommError(f"rendezvous at {self.address}: {answer['error']}")
                connection.settimeout(None)
                return connection
            except (OSError, EOFError, Refused) as error:
                connection.close()
                raise CommError(f"rendezvous at {self.address}: {error}") from error

    def close(self) -> None:
        with self._lock:
            self._disconnect()

    def _until(self, probe: Callable[[], Found | None], timeout: float, what: str) -> Found:
        end = time.monotonic() + timeout
        pause = 0.005
        last: CommError | None = None
        while True:
            try:
                found = probe()
                if found is not None:
                    return found
            except (StoreGone, StoreRefused):
                raise
            except CommError as error:
                last = error
            if time.monotonic() > end:
                raise CommError(f"rendezvous at {self.address}: {what} within {timeout:g} s") from last
            time.sleep(pause)
            pause = min(0.2, pause * 1.5)

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer. Raises StoreGone, StoreRefused, or CommError when none came in time."""
        with self._lock:
            end = time.monotonic() + self.patience
            self._asked += 1
            line = json.dumps({**request, "id": self._asked}).encode() + b"\n"
            sent, pause = False, 0.005
            while True:
                try:
                    connection, lines = self._connection = self._connection or self._connect(end)
                    connection.settimeout(max(0.001, end - time.monotonic()))
                    if not sent:
                        connection.sendall(line)
                        sent = True
                    # Answers to what was asked earlier, and given up, come first.
                    while (answer := parse(lines.read(_MAX_ANSWER))).get("id") != self._asked:
                        pass
                    break
                except Refused as error:
                    self._disconnect()
                    raise StoreRefused(f"the store at {self.address}: {error}") from None
                except (StoreGone, StoreRefused):
                    raise
                except (OSError, EOFError, CommError) as error:
                    if not sent or not isinstance(error, TimeoutError):
                        self._disconnect()  # Where half a line may be on its way, a new connection is needed.
                        sent = False
                    never_there = isinstance(error, CommError) and self._host is None
                    if never_there:
                        raise
                    if isinstance(error, TimeoutError) or time.monotonic() + pause > end:
                        raise CommError(
                            f"the store at {self.address} did not answer within {self.patience:g} s"
                        ) from error
                time.sleep(pause)
                pause = min(0.2, pause * 1.5)
            if "error" in answer:
                raise StoreRefused(f"the store at {self.address}: {answer['error']}")
            return answer

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection[0].close()
            self._connection = None

    def _connect(self, end: float) -> tuple[socket.socket, LineReader]:
        """A connection to a server that has proven itself. Raises what _ask does, and OSError while it is slow."""
        errors: list[str] = []
        refused = 0
        hosts = (self._host,) if self._host is not None else self.address.hosts
        for host in hosts:
            try:
                connection = self._open(host, min(_CONNECT_SECONDS, max(0.001, end - time.monotonic())))
            except OSError as error:
                refused += isinstance(error, ConnectionRefusedError)
                errors.append(f"{host}: {error}")
                continue
            try:
                keep_from_forks(connection)
                connection.settimeout(max(0.001, end - time.monotonic()))
                lines = LineReader(connection)
                introduce(connection, lines, self.address.token.encode(), self._who)
                self._host = host
                return connection, lines
            except Refused as error:
                connection.close()
                raise StoreRefused(f"the store at {host}:{self.address.port}: {error}") from None
            except BaseException:
                connection.close()
                raise
        if refused == len(hosts) and self._host is not None:
            raise StoreGone(f"nobody serves the store at {self.address} any more: its process has ended")
        raise CommError(f"cannot reach the store on port {self.address.port}: {'; '.join(errors)}")

    def _open(self, host: str, timeout: float) -> socket.socket:
        if self.address.token:
            return socket.create_connection((host, self.address.port), timeout=timeout)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout)
            connection.connect(self.address.local_name)
            if peer_user(connection) != os.geteuid():
                raise StoreRefused(
                    f"the store at {self.address} is served by user {peer_user(connection)}, not {os.geteuid()}"
                )
            return connection
        except BaseException:
            connection.close()
            raise
