"""A small key-value store over TCP: how ranks find each other, and how they ask about each other when one is missing.

One process serves; everyone, the server included, talks to it through StoreClient. Keys and values are text, a request
is one line of JSON and so is its answer: nothing that arrives is ever executed or unpickled.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import socket
import socketserver
import threading
import time
from dataclasses import dataclass

from qdist.comm.errors import CommError

__all__ = ["Address", "StoreClient", "StoreServer", "reachable_hosts"]

_MAX_LINE = 1 << 20


@dataclass(frozen=True, slots=True)
class Address:
    """Where a store is: hosts to try in order, a port, and the word that opens it."""

    hosts: tuple[str, ...]
    port: int
    token: str = ""

    def to_json(self) -> str:
        return json.dumps({"hosts": self.hosts, "port": self.port, "token": self.token})

    @staticmethod
    def from_json(text: str) -> Address:
        try:
            fields = json.loads(text)
            return Address(tuple(map(str, fields["hosts"])), int(fields["port"]), str(fields["token"]))
        except (ValueError, KeyError, TypeError) as error:
            raise CommError(f"not the address of a store: {text[:80]!r}") from error


def reachable_hosts() -> tuple[str, ...]:
    """Names and numbers under which other machines, and this one, may reach this machine."""
    name = socket.gethostname()
    numbers: list[str] = []
    with contextlib.suppress(OSError):
        numbers = [n for n in socket.gethostbyname_ex(name)[2] if not n.startswith("127.")]
    return tuple(dict.fromkeys([*numbers, name, "127.0.0.1"]))


class StoreServer:
    """Serves a store from a thread of this process until ``close()``."""

    def __init__(self, host: str = "", port: int = 0, token: str | None = None) -> None:
        self._values: dict[str, str] = {}
        self._lock = threading.Lock()
        secret = secrets.token_hex(16) if token is None else token
        store = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = 10

            def handle(self) -> None:
                try:
                    request = json.loads(self.rfile.readline(_MAX_LINE))
                    if not hmac.compare_digest(str(request["token"]), secret):
                        return
                    answer = store._answer(request)
                except (ValueError, KeyError, TypeError, OSError):
                    return
                self.wfile.write(json.dumps(answer).encode() + b"\n")

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True
            request_queue_size = 1024

            def handle_error(self, request: object, client_address: object) -> None:
                """A client that went away is its own business."""

        try:
            self._server = Server((host, port), Handler)
        except OSError as error:
            raise CommError(f"cannot serve the rendezvous on {host or '*'}:{port}: {error}") from error
        self.address = Address((host,) if host else reachable_hosts(), self._server.server_address[1], secret)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.2,), name="qdist-store", daemon=True)
        self._thread.start()

    def _answer(self, request: dict[str, str]) -> dict[str, object]:
        with self._lock:
            match request["do"]:
                case "set":
                    self._values[request["key"]] = str(request["value"])
                    return {}
                case "get":
                    return {"value": self._values.get(request["key"])}
                case "list":
                    start = request["key"]
                    return {"values": {k: v for k, v in self._values.items() if k.startswith(start)}}
                case other:
                    return {"error": f"unknown request {other!r}"}

    def snapshot(self, prefix: str) -> dict[str, str]:
        """Keys that begin with ``prefix``, read in this process without a connection."""
        with self._lock:
            return {k: v for k, v in self._values.items() if k.startswith(prefix)}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class StoreClient:
    """Reads and writes a store. A connection lasts one request, so an idle job holds none."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self._host: str | None = None

    def wait_served(self, timeout: float) -> None:
        """Returns as soon as the store answers. Raises CommError after ``timeout`` seconds."""
        self._until(lambda: self.list("served?"), timeout, "no store answered (rank 0 serves it)")

    def set(self, key: str, value: str) -> None:
        self._ask({"do": "set", "key": key, "value": value})

    def get(self, key: str) -> str | None:
        """The value, or None when the key is not there yet."""
        return self._ask({"do": "get", "key": key})["value"]

    def list(self, prefix: str) -> dict[str, str]:
        """All keys that begin with ``prefix``, and their values."""
        return self._ask({"do": "list", "key": prefix})["values"]

    def wait(self, key: str, timeout: float) -> str:
        """The value, as soon as it is there. Raises CommError after ``timeout`` seconds."""
        return self._until(lambda: self.get(key), timeout, f"nobody set {key!r}")

    def wait_count(self, prefix: str, count: int, timeout: float) -> dict[str, str]:
        """All keys that begin with ``prefix``, as soon as there are ``count``. Raises CommError after ``timeout``."""

        def complete() -> dict[str, str] | None:
            found = self.list(prefix)
            return found if len(found) >= count else None

        return self._until(complete, timeout, f"fewer than {count} ranks came ({prefix!r})")

    def _until(self, probe, timeout: float, what: str):  # type: ignore[no-untyped-def]
        end = time.monotonic() + timeout
        pause = 0.005
        last: Exception | None = None
        while True:
            try:
                found = probe()
                if found is not None:
                    return found
            except CommError as error:
                last = error
            if time.monotonic() > end:
                where = f"{'/'.join(self.address.hosts)}:{self.address.port}"
                raise CommError(f"rendezvous at {where}: {what} within {timeout:g} s") from last
            time.sleep(pause)
            pause = min(0.2, pause * 1.5)

    def _ask(self, request: dict[str, str]) -> dict:
        line = json.dumps({"token": self.address.token, **request}).encode() + b"\n"
        errors = []
        for host in [self._host] if self._host else self.address.hosts:
            try:
                with socket.create_connection((host, self.address.port), timeout=5) as connection:
                    connection.sendall(line)
                    answer = connection.makefile("rb").readline()
                if not answer:
                    raise OSError("connection refused by the store (another job's?)")
                self._host = host
                return json.loads(answer)
            except (OSError, ValueError) as error:
                errors.append(f"{host}: {error}")
        raise CommError(f"cannot reach the store on port {self.address.port}: {'; '.join(errors)}")
