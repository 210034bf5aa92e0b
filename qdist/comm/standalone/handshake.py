"""Challenge and response: how two processes show each other that they know the job's secret without ever sending it.

    server: {"qdist": 1, "nonce": S}
    client: {"nonce": C, "rank": r, "instance": i, "proof": HMAC-SHA256(secret, "client", S, C, r, i)}
    server: {"proof": HMAC-SHA256(secret, "server", S, C, r, i)}    or    {"refused": why}

Both nonces are fresh, so an answer that was overheard opens nothing later; the two roles are told apart, so an answer
cannot be sent back to whoever gave it. Every message is one line of JSON. Uses the standard library alone: start.py,
which must be quick, imports it by its path.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import socket
from typing import Any, NamedTuple

__all__ = ["MAX_HELLO", "Challenge", "Identity", "LineReader", "Refused", "introduce", "parse"]

MAX_HELLO = 1024
"""Longest line, in bytes, that is read from somebody who has not proven anything yet."""
_VERSION = 1
_NONCE_DIGITS = 64
_MAX_RANK = 1 << 31


class Refused(Exception):
    """The other side does not know the secret, does not speak this protocol, or will not have this client."""


class Identity(NamedTuple):
    """Who a client says it is: a rank (-1: none), and a random identifier of this process."""

    rank: int
    instance: str

    @staticmethod
    def of_this_process(rank: int) -> Identity:
        return Identity(rank, os.urandom(16).hex())


class Challenge:
    """The server's part, for one client."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret
        self._nonce = _nonce()

    def greeting(self) -> bytes:
        return _line({"qdist": _VERSION, "nonce": self._nonce})

    def check(self, line: bytes) -> tuple[Identity, bytes]:
        """Who the client is, and what to answer it. Raises Refused."""
        message = parse(line)
        nonce, proof = _hex(message, "nonce"), _hex(message, "proof")
        rank, instance = message.get("rank"), message.get("instance")
        if type(rank) is not int or not -1 <= rank < _MAX_RANK:
            raise Refused("the client's rank is none")
        if not isinstance(instance, str) or not (0 < len(instance) <= 64 and instance.isalnum() and instance.isascii()):
            raise Refused("the client's instance is none")
        who = Identity(rank, instance)
        if not hmac.compare_digest(proof, _proof(self._secret, "client", self._nonce, nonce, who)):
            raise Refused("the secret is another")
        return who, _line({"proof": _proof(self._secret, "server", self._nonce, nonce, who)})


class LineReader:
    """Lines from a socket, none longer than allowed."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._pending = b""

    def read(self, longest: int) -> bytes:
        """The next line, without its end. Raises Refused for a longer one, EOFError at the end, OSError.

        After TimeoutError (an OSError) it can be called again: what has come of the line is kept.
        """
        while True:
            line, end, rest = self._pending.partition(b"\n")
            if len(line) > longest:
                raise Refused("its answer is too long")
            if end:
                self._pending = rest
                return line
            data = self._connection.recv(65536)
            if not data:
                raise EOFError("the connection was closed")
            self._pending += data


def introduce(connection: socket.socket, lines: LineReader, secret: bytes, who: Identity) -> None:
    """The client's part: returns when both sides know that the other one knows the secret. Raises Refused, EOFError,
    OSError."""
    greeting = parse(lines.read(MAX_HELLO))
    if greeting.get("qdist") != _VERSION:
        raise Refused(f"whoever listens there speaks another protocol than this qdist's (version {_VERSION})")
    theirs, ours = _hex(greeting, "nonce"), _nonce()
    proof = _proof(secret, "client", theirs, ours, who)
    connection.sendall(_line({"nonce": ours, "rank": who.rank, "instance": who.instance, "proof": proof}))
    answer = parse(lines.read(MAX_HELLO))
    if "refused" in answer:
        raise Refused(str(answer["refused"])[:200])
    if not hmac.compare_digest(_hex(answer, "proof"), _proof(secret, "server", theirs, ours, who)):
        raise Refused("whoever listens there does not know the secret")


def parse(line: bytes) -> dict[str, Any]:
    """A line of JSON as a table. Raises Refused for anything else."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        raise Refused("the message is not JSON") from None
    if not isinstance(message, dict):
        raise Refused("the message is not a table")
    return message


def _nonce() -> str:
    return os.urandom(_NONCE_DIGITS // 2).hex()


def _proof(secret: bytes, role: str, server_nonce: str, client_nonce: str, who: Identity) -> str:
    text = " ".join((f"qdist-{_VERSION}", role, server_nonce, client_nonce, str(who.rank), who.instance))
    return hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()


def _hex(message: dict[str, Any], field: str) -> str:
    value = message.get(field)
    if not isinstance(value, str) or len(value) != _NONCE_DIGITS or set(value) - set("0123456789abcdef"):
        raise Refused(f"the message's {field} is none")
    return value


def _line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\n"
