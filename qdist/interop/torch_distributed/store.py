"""Stores: keys and values that all processes of a job can read and write, by which they find each other.

As everywhere in qdist, a TCPStore of one machine is for its user's processes alone, and one that other machines reach
needs a secret (QDIST_SECRET, see qdist.comm.init); a file is its owner's alone.
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import socket
import stat
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from numbers import Integral
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from ...comm.bootstrap.rendezvous_address import rendezvous_address
from ...comm.errors import CommError
from ...comm.store.client import MAX_LINE, StoreClient
from ...comm.store.server import StoreServer

__all__ = ["FileStore", "HashStore", "Store", "TCPStore", "seconds"]

_PATIENCE = timedelta(seconds=300)
_MAX_TEXT = MAX_LINE - 256
"""Bytes of a key and its value; a request has some more."""


def seconds(timeout: Any) -> float:
    """Of a timedelta, or of a number of seconds. Raises TypeError for anything else, ValueError for none above 0."""
    if isinstance(timeout, timedelta):
        timeout = timeout.total_seconds()
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        raise TypeError(f"timeout={timeout!r}: give a datetime.timedelta")
    if not timeout > 0:
        raise ValueError(f"timeout={timeout!r}: longer than 0 s")
    return float(timeout)


class Store:
    """What every store can do. Values go in as text or bytes and come out as bytes."""

    _world_size: int | None = None

    def __init__(self, timeout: timedelta = _PATIENCE) -> None:
        self._timeout = seconds(timeout)
        self._meetings = 0

    def set(self, key: str, value: str | bytes) -> None:
        """Puts a value there."""
        if not isinstance(value, str | bytes | bytearray | memoryview):
            raise TypeError(f"value={value!r}: give text or bytes")
        self._put(_key(key), value.encode() if isinstance(value, str) else bytes(value))

    def add(self, key: str, amount: int) -> int:
        """Adds to a number, which is 0 at first; returns the sum. Raises CommError where something else is there."""
        if isinstance(amount, bool) or not isinstance(amount, Integral):
            raise TypeError(f"amount={amount!r}: give a whole number")
        return self._sum(_key(key), int(amount))

    def num_keys(self) -> int:
        """How many keys there are."""
        raise NotImplementedError

    def _put(self, key: str, value: bytes) -> None:
        raise NotImplementedError

    def _sum(self, key: str, amount: int) -> int:
        raise NotImplementedError

    def _look(self, key: str) -> bytes | None:
        raise NotImplementedError

    def get(self, key: str) -> bytes:
        """The value, as soon as somebody has put it there. Raises CommError after the store's time-out."""
        self.wait([key])
        value = self._look(key)
        assert value is not None
        return value

    def check(self, keys: Sequence[str]) -> bool:
        """Whether all of these are there."""
        return all(self._look(_key(key)) is not None for key in _several(keys))

    def wait(self, keys: Sequence[str], timeout: timedelta | None = None) -> None:
        """Returns once all of these are there. Raises CommError after ``timeout``, or the store's own."""
        keys = _several(keys)
        limit = self._timeout if timeout is None else seconds(timeout)
        end, pause = time.monotonic() + limit, 0.005
        while not self.check(keys):
            if time.monotonic() > end:
                missing = [key for key in keys if self._look(key) is None]
                raise CommError(f"nobody set {', '.join(map(repr, missing))} within {limit:g} s")
            time.sleep(pause)
            pause = min(0.1, 1.5 * pause)

    def set_timeout(self, timeout: timedelta) -> None:
        """How long get() and wait() wait from now on."""
        self._timeout = seconds(timeout)

    def init_method(self, rank: int, world_size: int) -> str:
        """Where the ranks of a job that share this store meet: what `qdist.comm.init` takes. Rank 0 decides.

        Raises ValueError if the store was made for another number of processes.
        """
        if self._world_size not in (None, -1, world_size):
            raise ValueError(f"world_size={world_size}, but the store was made for {self._world_size} processes")
        self._meetings += 1
        key = f"qdist/meeting/{self._meetings}"
        if rank == 0:
            self.set(key, self._new_place())
        return self.get(key).decode()

    def _new_place(self) -> str:
        raise NotImplementedError


class TCPStore(Store):
    """A store that one process, the master, serves for the others.

    Args:
        host_name, port: where. Between processes of one machine that share no secret, only the port's number counts.
        world_size: unless None, the master waits until so many processes, itself included, have come.
        is_master: whether this process serves.
        timeout: how long get() and wait() wait.

    Raises CommError where the port is taken, nobody serves, or other machines are named without a secret.
    """

    def __init__(
        self,
        host_name: str,
        port: int,
        world_size: int | None = None,
        is_master: bool = False,
        timeout: timedelta = _PATIENCE,
        wait_for_workers: bool = True,
    ) -> None:
        super().__init__(timeout)
        self.host, self.port, self._world_size = host_name, port, world_size
        address = rendezvous_address(urlsplit(f"tcp://{host_name}:{port}"), os.environ)
        self._server = StoreServer(address.hosts[0], address.port, address.token) if is_master else None
        self._client = StoreClient(address, patience=self._timeout)
        self._client.wait_served(self._timeout)
        if world_size is not None and wait_for_workers:
            come = self.add("qdist/come", 1)
            if is_master:
                end = time.monotonic() + self._timeout
                while come < world_size:
                    if time.monotonic() > end:
                        raise CommError(
                            f"{come} of {world_size} processes came to the store within {self._timeout:g} s"
                        )
                    time.sleep(0.01)
                    come = self.add("qdist/come", 0)

    def _put(self, key: str, value: bytes) -> None:
        text = value.decode("latin1")
        if len(json.dumps([key, text])) > _MAX_TEXT:
            raise ValueError(
                f"{len(value)} bytes for {key!r}: a TCPStore takes 1 MB of plain text at a time, and less of other "
                "bytes; let ranks broadcast what is larger"
            )
        self._client.set(key, text)

    def _sum(self, key: str, amount: int) -> int:
        return self._client.add(key, amount)

    def num_keys(self) -> int:
        return sum("/added/" not in key and not key.startswith("qdist/") for key in self._client.list(""))

    def _look(self, key: str) -> bytes | None:
        found = self._client.get(key)
        return None if found is None else found.encode("latin1")

    def _new_place(self) -> str:
        with socket.socket() as probe:
            probe.bind(("", 0))
            return f"tcp://{self.host}:{probe.getsockname()[1]}"


class FileStore(Store):
    """A store in a file that all processes can reach; each change is a line behind the others.

    Args:
        file_name: its path; the file is made if it is not there. Take a new one for every job.
        world_size: how many processes share it; checked when they meet, unless -1.

    Raises CommError for a link, and for a file that others than its owner may read or write.
    """

    def __init__(self, file_name: str, world_size: int = -1, timeout: timedelta = _PATIENCE) -> None:
        super().__init__(timeout)
        self.path, self._world_size = os.path.abspath(file_name), world_size
        self._locked(lambda file: None)

    def _put(self, key: str, value: bytes) -> None:
        self._locked(lambda file: _append(file, key, value))

    def _sum(self, key: str, amount: int) -> int:
        def change(file: Any) -> int:
            total = _number(key, _content(file).get(key, b"0")) + amount
            _append(file, key, str(total).encode())
            return total

        return self._locked(change)

    def num_keys(self) -> int:
        return sum(not key.startswith("qdist/") for key in self._locked(_content))

    def _look(self, key: str) -> bytes | None:
        return self._locked(_content).get(key)

    def _locked(self, work: Callable[[Any], Any]) -> Any:
        """work(file) while no other process changes it."""
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise CommError(f"FileStore {self.path}: {error.strerror}") from error
        with open(descriptor, "r+b") as file:
            status = os.fstat(descriptor)
            if status.st_uid != os.geteuid() or status.st_mode & 0o077 or not stat.S_ISREG(status.st_mode):
                raise CommError(f"FileStore {self.path}: it must be a file that only its owner reads and writes")
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            return work(file)

    def _new_place(self) -> str:
        return f"file://{self.path}.ranks{self._meetings}"


class HashStore(Store):
    """A store in the memory of this process, for its threads."""

    def __init__(self, timeout: timedelta = _PATIENCE) -> None:
        super().__init__(timeout)
        self._values: dict[str, bytes] = {}
        self._lock = Lock()

    def _put(self, key: str, value: bytes) -> None:
        with self._lock:
            self._values[key] = value

    def _sum(self, key: str, amount: int) -> int:
        with self._lock:
            total = _number(key, self._values.get(key, b"0")) + amount
            self._values[key] = str(total).encode()
            return total

    def num_keys(self) -> int:
        return len(self._values)

    def _look(self, key: str) -> bytes | None:
        return self._values.get(key)

    def init_method(self, rank: int, world_size: int) -> str:
        raise ValueError("a HashStore is one process's memory, in which ranks cannot meet: use TCPStore or FileStore")


def _key(key: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"key={key!r}: give text")
    return key


def _several(keys: Sequence[str]) -> Sequence[str]:
    if isinstance(keys, str):
        raise TypeError(f"keys={keys!r}: give a list of keys")
    return keys


def _number(key: str, value: bytes) -> int:
    try:
        return int(value)
    except ValueError:
        raise CommError(f"the store: {key!r} holds no number to add to") from None


def _append(file: Any, key: str, value: bytes) -> None:
    file.seek(0, os.SEEK_END)
    file.write(json.dumps([key, base64.b64encode(value).decode()]).encode() + b"\n")
    file.flush()


def _content(file: Any) -> dict[str, bytes]:
    file.seek(0)
    try:
        return {key: base64.b64decode(value) for key, value in map(json.loads, file)}
    except (TypeError, ValueError) as error:
        raise CommError("FileStore: its file holds something else; take a new one for every job") from error
