"""The serving side of the store: one thread, any number of clients, of whom only those who prove themselves count.

What somebody who has not proven anything can take up is bounded: one line of 1 KiB, ten seconds, one of 64 places (the
one who has been there longest without a proof makes room), and no thread. Whoever sends anything but what the protocol
allows is dropped; nobody else notices.
"""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import json
import os
import re
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from qdist.comm.errors import CommError
from qdist.comm.standalone.handshake import MAX_HELLO, Challenge, Identity, Refused, parse
from qdist.comm.store.client import MAX_LINE, Address, peer_user, reachable_hosts
from qdist.comm.store.private_sockets import keep_from_forks

__all__ = ["Session", "StoreServer", "Values"]

_SECONDS_TO_PROVE = 10.0
_MAX_UNPROVEN = 64
_MAX_PROVEN = 512
_MAX_TEXT = 1 << 26
_BACKLOG = 1024

HandOver = Callable[[int, socket.socket], None]


class Values:
    """What a store holds: text by key, and which process stands for which rank."""

    def __init__(self) -> None:
        self._values: dict[str, str] = {}
        self._instances: dict[int, str] = {}
        self._handed_over: set[int] = set()
        self._held = 0
        self._lock = threading.Lock()
        self.when_set: Callable[[str, str], None] | None = None
        """Called with every key and value that is set, before whoever set it has its answer and goes on."""

    def claim(self, who: Identity) -> None:
        """Raises Refused when another process has said before that it is this rank."""
        if who.rank >= 0 and self._instances.setdefault(who.rank, who.instance) != who.instance:
            raise Refused(f"another process is rank {who.rank} already: is a rank started twice?")

    def claim_hand_over(self, rank: int) -> bool:
        """Whether this rank's one connection is still to be handed on; it is not any more afterwards."""
        first = rank >= 0 and rank not in self._handed_over
        self._handed_over.add(rank)
        return first

    def snapshot(self, prefix: str) -> dict[str, str]:
        """Keys that begin with ``prefix``."""
        with self._lock:
            return {k: v for k, v in self._values.items() if k.startswith(prefix)}

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """What a proven client's request gets. Raises Refused for one that is none."""
        do, key = request.get("do"), request.get("key")
        if not isinstance(key, str):
            raise Refused("a request without a key")
        match do:
            case "set":
                return self._set(key, request.get("value"))
            case "get":
                with self._lock:
                    return {"value": self._values.get(key)}
            case "list":
                return {"values": self.snapshot(key)}
            case "add":
                return self._add(key, request.get("amount"), request.get("once"))
            case _:
                raise Refused("an unknown request")

    def _add(self, key: str, amount: Any, once: Any) -> dict[str, Any]:
        """once: names the request, which is sent again where a connection breaks and must count once."""
        if type(amount) is not int or not -(1 << 63) <= amount < 1 << 63 or not isinstance(once, str):
            raise Refused("an addition of something else than a number")
        done = f"{key}/added/{once}"
        with self._lock:
            before, again = self._values.get(key, "0"), self._values.get(done)
        if again is not None:
            return {"value": again}
        if not re.fullmatch(r"-?[0-9]{1,20}", before):
            return {"error": f"{key!r} holds no number to add to"}
        # One thread serves, so nobody comes between reading and writing.
        total = str(int(before) + amount)
        return self._set(key, total) or self._set(done, total) or {"value": total}

    def _set(self, key: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, str):
            raise Refused("a value that is not text")
        with self._lock:
            old = self._values.get(key)
            held = self._held + len(value) + (len(key) if old is None else -len(old))
            if held > _MAX_TEXT:
                return {"error": f"the store is full ({_MAX_TEXT} characters)"}
            self._values[key], self._held = value, held
        if self.when_set is not None:
            self.when_set(key, value)
        return {}


class Session:
    """One client's conversation with the store: bytes in, bytes out, no socket."""

    def __init__(self, values: Values, token: str) -> None:
        self._values = values
        self._challenge = Challenge(token.encode())
        self._pending = b""
        self.who: Identity | None = None
        """The client, once it has proven that it knows the token."""
        self.hand_over = False
        """Whether the client asked, rightly, that its connection be handed on."""
        self.over = False
        """Whether the client is to be dropped once it has its answer."""

    def greeting(self) -> bytes:
        return self._challenge.greeting()

    def receive(self, data: bytes) -> bytes:
        """What to answer. Raises Refused for a client that is to be dropped without a word."""
        *lines, self._pending = (self._pending + data).split(b"\n")
        answers = []
        for line in lines:
            if self.hand_over or self.over:
                raise Refused("more than was asked for")
            self._bound(line)
            answers.append(self._first(line) if self.who is None else self._request(line))
        self._bound(self._pending)
        return b"".join(answers)

    def _bound(self, line: bytes) -> None:
        if len(line) > (MAX_HELLO if self.who is None else MAX_LINE):
            raise Refused("a line that is too long")

    def _first(self, line: bytes) -> bytes:
        try:
            who, answer = self._challenge.check(line)
            self._values.claim(who)
        except Refused as why:
            self.over = True
            return json.dumps({"refused": str(why)}).encode() + b"\n"
        self.who = who
        return answer

    def _request(self, line: bytes) -> bytes:
        assert self.who is not None
        request = parse(line)
        number = request.get("id")
        if type(number) is not int:
            raise Refused("a request without a number")
        if request.get("do") == "hand over":
            self.hand_over = self._values.claim_hand_over(self.who.rank)
            answer = {} if self.hand_over else {"error": f"rank {self.who.rank} has its connection already"}
        else:
            answer = self._values.answer(request)
        return json.dumps({**answer, "id": number}).encode() + b"\n"


class _Client:
    """A connection, and what is still to be sent on it."""

    def __init__(self, connection: socket.socket, session: Session) -> None:
        self.connection, self.session = connection, session
        self.unsent = session.greeting()
        self.since = time.monotonic()


class StoreServer:
    """Serves a store from a thread of this process until ``close()``.

    host: the address to listen on, "" for all of this machine's. token: what clients must know; None makes one up.
        Without one ("") only processes of this user on this machine get in (see Address), and host counts for nothing.
    hand_over: who gets the connections that clients ask to have handed on; called with the rank and the socket.

    Raises CommError when it cannot listen there.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, token: str | None = None) -> None:
        self._values = Values()
        self._token = secrets.token_hex(32) if token is None else token
        self.hand_over: HandOver | None = None
        self._selector = selectors.DefaultSelector()
        # Both in the order in which they were last heard of.
        self._unproven: dict[socket.socket, _Client] = {}
        self._proven: dict[socket.socket, _Client] = {}
        try:
            self._listener = _listen(host, port) if self._token else _listen_locally(Address((host,), port))
        except OSError as error:
            raise CommError(f"cannot serve the rendezvous on {host or '*'}:{port}: {error}") from error
        if self._token:
            port = self._listener.getsockname()[1]
        self.address = Address((host,) if host else reachable_hosts(), port, self._token)
        self._listener.setblocking(False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._stop, self._stopped = socket.socketpair()
        self._selector.register(self._stopped, selectors.EVENT_READ)
        keep_from_forks(self._listener, self._stop, self._stopped)
        self._thread = threading.Thread(target=self._serve, name="qdist-store", daemon=True)
        self._thread.start()

    def call_when_set(self, call: Callable[[str, str], None]) -> None:
        """Has every key and value that clients set told, in the store's thread, before they have their answer."""
        self._values.when_set = call

    def snapshot(self, prefix: str) -> dict[str, str]:
        """Keys that begin with ``prefix``, read in this process without a connection."""
        return self._values.snapshot(prefix)

    def close(self) -> None:
        """Ends serving; clients find nobody there any more. A second time does nothing."""
        if self._stop.fileno() < 0:
            return
        self._stop.close()
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        try:
            while True:
                for key, events in self._selector.select(self._until_next_deadline()):
                    if key.fileobj is self._stopped:
                        return
                    if key.fileobj is self._listener:
                        self._accept()
                    elif isinstance(key.fileobj, socket.socket):
                        self._attend(key.fileobj, events)
                self._drop_late()
        finally:
            for client in [*self._unproven.values(), *self._proven.values()]:
                self._drop(client)
            self._selector.close()
            self._listener.close()
            self._stopped.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS):
                # No descriptor for another: whoever has been silent longest makes room.
                crowd = self._unproven or self._proven
                self._make_room(crowd, max(0, len(crowd) - 1))
                time.sleep(0.01)
            return
        connection.setblocking(False)
        if connection.family == socket.AF_UNIX and peer_user(connection) != os.geteuid():
            connection.close()
            return
        keep_from_forks(connection)
        self._make_room(self._unproven, _MAX_UNPROVEN - 1)
        client = self._unproven[connection] = _Client(connection, Session(self._values, self._token))
        self._selector.register(connection, selectors.EVENT_READ)
        self._send(client)

    def _attend(self, connection: socket.socket, events: int) -> None:
        client = self._unproven.get(connection) or self._proven.get(connection)
        if client is None:
            return
        if events & selectors.EVENT_WRITE:
            self._send(client)
            return
        try:
            data = client.connection.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._drop(client)
            return
        try:
            client.unsent += client.session.receive(data)
        except Refused:
            self._drop(client)
            return
        if client.session.who is not None:
            if self._unproven.pop(connection, None) is not None:
                self._make_room(self._proven, _MAX_PROVEN - 1)
            self._proven.pop(connection, None)
            self._proven[connection] = client
        self._send(client)

    def _send(self, client: _Client) -> None:
        """Sends what can be sent now. A client is not read from before it has taken its answer."""
        try:
            client.unsent = client.unsent[client.connection.send(client.unsent) :] if client.unsent else b""
        except BlockingIOError:
            pass
        except OSError:
            self._drop(client)
            return
        if client.unsent:
            self._selector.modify(client.connection, selectors.EVENT_WRITE)
        elif client.session.over:
            self._drop(client)
        elif client.session.hand_over:
            self._hand_over(client)
        else:
            self._selector.modify(client.connection, selectors.EVENT_READ)

    def _hand_over(self, client: _Client) -> None:
        if self.hand_over is not None and client.session.who is not None:
            with contextlib.suppress(OSError):
                self.hand_over(client.session.who.rank, client.connection)
        self._drop(client)

    def _until_next_deadline(self) -> float | None:
        first = next(iter(self._unproven.values()), None)
        return None if first is None else max(0.0, first.since + _SECONDS_TO_PROVE - time.monotonic())

    def _drop_late(self) -> None:
        late = time.monotonic() - _SECONDS_TO_PROVE
        for client in [c for c in self._unproven.values() if c.since <= late]:
            self._drop(client)

    def _make_room(self, clients: dict[socket.socket, _Client], most: int) -> None:
        """Keeps at most so many of these clients. Who is dropped here and is a rank comes back when it has to ask."""
        while len(clients) > most:
            self._drop(next(iter(clients.values())))

    def _drop(self, client: _Client) -> None:
        self._unproven.pop(client.connection, None)
        self._proven.pop(client.connection, None)
        if client.connection.fileno() >= 0:
            self._selector.unregister(client.connection)
            client.connection.close()


def _listen_locally(address: Address) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(address.local_name)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _listen(host: str, port: int) -> socket.socket:
    """A socket that listens on the named address, and only there where that can be known.

    A name that this machine takes for its own loopback address (/etc/hosts often does) means another one elsewhere, and
    an address behind which this machine is (of a cluster's service, say) cannot be listened on: then all addresses are.
    """
    if not host:
        return _listen_everywhere(port)
    family, *_, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    if host not in (where[0], "localhost") and ipaddress.ip_address(where[0]).is_loopback:
        return _listen_everywhere(port)
    try:
        return socket.create_server(where, family=family, backlog=_BACKLOG)  # type: ignore[arg-type]
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise
        return _listen_everywhere(port)


def _listen_everywhere(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)
    return socket.create_server(("", port), backlog=_BACKLOG)
