"""The store: only those who know its token get in, nobody else can harm it, and slow is not dead."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from qdist.comm import CommError
from qdist.comm.standalone.handshake import Identity, LineReader, Refused, introduce
from qdist.comm.store import client as store_client
from qdist.comm.store import server as store_server
from qdist.comm.store.client import Address, StoreClient, StoreGone, StoreRefused
from qdist.comm.store.server import StoreServer


@pytest.fixture
def server():
    serving = StoreServer()
    yield serving
    serving.close()


def connect(server: StoreServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.address.port), timeout=20)


def test_only_those_who_know_the_token_are_answered(server: StoreServer) -> None:
    client = StoreClient(server.address)
    client.set("a/1", "x")
    client.set("a/2", "y")
    assert client.get("a/1") == "x"
    assert client.get("b") is None
    assert client.list("a/") == {"a/1": "x", "a/2": "y"} == server.snapshot("a/")
    stranger = StoreClient(Address(server.address.hosts, server.address.port, "guess"))
    with pytest.raises(StoreRefused, match="the secret is another"):
        stranger.get("a/1")
    old_style = json.dumps({"token": server.address.token, "do": "set", "key": "a/1", "value": "z"}).encode() + b"\n"
    for nonsense in (b"\n", b"[1]\n", b'{"token": 5}\n', b"\xff\xfe\n", b"[" * 1000 + b"\n", old_style):
        with connect(server) as s:
            s.recv(1000)
            s.sendall(nonsense)
            answer = s.makefile("rb").read()
            assert b"refused" in answer
            assert b"value" not in answer
    assert client.get("a/1") == "x"


def test_additions_count_once_and_one_after_the_other(server: StoreServer) -> None:
    clients = [StoreClient(server.address) for _ in range(4)]
    sums: list[int] = []
    threads = [threading.Thread(target=lambda c=c: sums.extend(c.add("n", 1) for _ in range(25))) for c in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(sums) == list(range(1, 101))
    request = {"do": "add", "key": "m", "amount": 5, "once": "the same"}
    assert [clients[0]._ask(request)["value"] for _ in range(2)] == ["5", "5"]  # As sent again by a broken connection.
    assert clients[0].add("m", -7) == -2
    clients[0].set("text", "no number")
    with pytest.raises(StoreRefused, match="'text' holds no number to add to"):
        clients[0].add("text", 1)


def test_the_token_never_travels_and_an_overheard_proof_opens_nothing(server: StoreServer) -> None:
    sent = b""

    class Overheard:
        """A connection that somebody listens to."""

        def __init__(self, inner: socket.socket) -> None:
            self._inner = inner

        def recv(self, most: int) -> bytes:
            return self._inner.recv(most)

        def sendall(self, data: bytes) -> None:
            nonlocal sent
            sent += data
            self._inner.sendall(data)

    with connect(server) as s:
        tapped = Overheard(s)
        introduce(tapped, LineReader(tapped), server.address.token.encode(), Identity(-1, "a"))  # type: ignore[arg-type]
    assert sent.count(b"\n") == 1
    assert server.address.token.encode() not in sent
    with connect(server) as s:
        s.sendall(sent)
        assert b"the secret is another" in s.makefile("rb").read()


def test_a_server_that_does_not_know_the_token_is_not_believed(server: StoreServer) -> None:
    # It hands the client's own proof back, the best it can do; and the greeting is the true server's.
    with connect(server) as true_server:
        greeting = true_server.recv(1000)
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.sendall(greeting)
            proof = json.loads(connection.makefile("rb").readline())["proof"]
            connection.sendall(json.dumps({"proof": proof}).encode() + b"\n")

    thread = threading.Thread(target=serve)
    thread.start()
    client = StoreClient(Address(("127.0.0.1",), listener.getsockname()[1], server.address.token))
    with pytest.raises(StoreRefused, match="does not know the secret"):
        client.set("died/0", "false news")
    thread.join()
    listener.close()


def test_a_line_without_an_end_is_not_kept(server: StoreServer) -> None:
    with connect(server) as s:
        s.recv(1000)
        with pytest.raises(OSError, match=r"reset|Broken"):  # noqa: PT012  (whichever write meets the closed connection)
            for _ in range(10_000):
                s.sendall(b"x" * 10_000)
    assert StoreClient(server.address).list("") == {}


def test_strangers_take_up_no_threads_and_few_places(server: StoreServer) -> None:
    threads = threading.active_count()
    crowd = [connect(server) for _ in range(3 * store_server._MAX_UNPROVEN)]
    client = StoreClient(server.address, rank=0)
    client.set("a", "b")
    assert threading.active_count() == threads
    assert len(server._unproven) <= store_server._MAX_UNPROVEN
    assert client.get("a") == "b"
    for each in crowd:
        each.close()


def test_who_proves_nothing_in_time_is_dropped(server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_server, "_SECONDS_TO_PROVE", 0.05)
    with connect(server) as s:
        assert s.recv(1000) != b""
        assert s.recv(1000) == b""


def test_more_ranks_than_places_take_turns(server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_server, "_MAX_PROVEN", 2)
    clients = [StoreClient(server.address, rank) for rank in range(5)]
    for turn in range(3):
        for rank, client in enumerate(clients):
            client.set(f"{turn}/{rank}", "here")
    assert len(server._proven) <= 2
    assert len(clients[0].list("")) == 15


def test_a_rank_has_one_process_and_one_connection_to_hand_over(server: StoreServer) -> None:
    handed: list[int] = []
    server.hand_over = lambda rank, connection: handed.append(rank)
    first, second = StoreClient(server.address, rank=1), StoreClient(server.address, rank=1)
    first.set("a", "b")
    with pytest.raises(StoreRefused, match="another process is rank 1 already"):
        second.set("a", "c")
    first.close()
    assert first.get("a") == "b"  # The same process comes back.
    first.connect_through().close()
    with pytest.raises(CommError, match="rank 1 has its connection already"):
        first.connect_through()
    nobody = StoreClient(server.address)
    with pytest.raises(CommError, match="has its connection already"):
        nobody.connect_through()
    assert handed == [1]


def test_a_store_is_bounded(server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_server, "_MAX_TEXT", 1000)
    client = StoreClient(server.address)
    client.set("a", "x" * 900)
    client.set("a", "y" * 900)  # In its place.
    with pytest.raises(StoreRefused, match="the store is full"):
        client.set("b", "x" * 900)
    assert client.get("a") == "y" * 900


@pytest.mark.parametrize(
    "request_",
    [
        {"do": "set", "key": "k", "id": 1},
        {"do": "set", "key": 1, "value": "", "id": 1},
        {"do": "pop", "key": "", "id": 1},
        {"do": "add", "key": "k", "amount": "1", "once": "a", "id": 1},
        {"do": "add", "key": "k", "amount": 1, "id": 1},
        {"do": "get", "key": "k"},
        [],
    ],
)
def test_a_proven_client_that_asks_for_nonsense_is_dropped_alone(server: StoreServer, request_: object) -> None:
    with connect(server) as s:
        lines = LineReader(s)
        introduce(s, lines, server.address.token.encode(), Identity(0, "a"))
        s.sendall(json.dumps(request_).encode() + b"\n")
        with pytest.raises(EOFError):
            lines.read(1000)
    assert StoreClient(server.address, rank=1).list("") == {}


def test_a_store_listens_where_it_is_told_to() -> None:
    here, everywhere = StoreServer(), StoreServer("")
    assert here._listener.getsockname()[0] == "127.0.0.1"
    assert everywhere._listener.getsockname()[0] in ("::", "0.0.0.0")
    assert StoreClient(everywhere.address).list("") == {}
    here.close()
    everywhere.close()
    with pytest.raises(ConnectionRefusedError):
        connect(here)


def test_a_store_without_a_token_has_no_port_and_is_for_one_user(
    free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = StoreServer("127.0.0.1", free_port, token="")
    try:
        with pytest.raises(CommError, match="Address already in use"):
            StoreServer("127.0.0.1", free_port, token="")
        client = StoreClient(Address(("localhost",), free_port))
        client.set("a", "b")
        assert client.get("a") == "b"
        with pytest.raises(ConnectionRefusedError):
            connect(server)
        with monkeypatch.context() as patched:
            patched.setattr(store_client, "peer_user", lambda connection: os.geteuid() + 1)
            with pytest.raises(StoreRefused, match="is served by user"):
                StoreClient(Address(("localhost",), free_port)).get("a")
        with monkeypatch.context() as patched:
            patched.setattr(store_server, "peer_user", lambda connection: os.geteuid() + 1)
            with pytest.raises(CommError, match="no store answered"):
                StoreClient(Address(("localhost",), free_port), patience=0.3).wait_served(0.3)
        assert client.get("a") == "b"
    finally:
        server.close()


SERVE = "import sys; from qdist.comm.store import *; s = StoreServer(); print(s.address.to_json(), flush=True);"


def test_slow_is_not_dead() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", SERVE + "sys.stdin.read()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        address = Address.from_json(process.stdout.readline())
        client, late = StoreClient(address, patience=10), StoreClient(address, patience=0.2)
        client.set("a", "1")
        process.send_signal(signal.SIGSTOP)
        os.waitpid(process.pid, os.WUNTRACED)
        client.patience = 0.2
        for value in "23":
            with pytest.raises(CommError, match=r"did not answer within 0.2 s") as caught:
                client.set("a", value)
            assert not isinstance(caught.value, StoreGone)
        with pytest.raises(CommError, match="did not answer"):
            late.get("a")
        client.patience = late.patience = 20
        threading.Timer(0.3, process.send_signal, (signal.SIGCONT,)).start()
        # What was asked while it slept counts, in its order, and the answers are told apart.
        assert client.get("a") == "3"
        assert late.get("a") == "3"
        process.kill()
        process.wait()
        start = time.monotonic()
        for each in (client, late):
            with pytest.raises(StoreGone, match="its process has ended"):
                each.get("a")
        assert time.monotonic() - start < 10  # Not its patience.
    finally:
        process.kill()
        process.wait()


def test_a_forked_child_does_not_keep_a_dead_server_alive(server: StoreServer) -> None:
    client = StoreClient(server.address)
    client.set("a", "b")
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reader, 1)
        os._exit(0)
    try:
        server.close()
        with pytest.raises(StoreGone):
            client.get("a")
    finally:
        os.write(writer, b"x")
        os.waitpid(child, 0)
        os.close(reader)
        os.close(writer)


def test_an_address_that_is_none_is_refused_without_being_shown() -> None:
    address = Address(("h",), 5, "a secret token")
    assert Address.from_json(address.to_json()) == address
    assert "secret" not in repr(address) + str(address)
    for text in ("", "[]", '{"hosts": ["h"], "port": "5", "token": "a secret token"}', "[" * 5000, '{"hosts": 1}'):
        with pytest.raises(CommError, match="not the address of a store") as caught:
            Address.from_json(text)
        assert "secret" not in str(caught.value)


def test_a_client_refuses_what_is_not_the_protocol() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=lambda: listener.accept()[0].sendall(b"SSH-2.0-OpenSSH_9\r\n"))
    thread.start()
    with pytest.raises(StoreRefused):
        StoreClient(Address(("127.0.0.1",), listener.getsockname()[1], "t")).get("a")
    thread.join()
    listener.close()
    with pytest.raises(Refused, match="too long"):
        LineReader(_Endless()).read(1000)  # type: ignore[arg-type]


class _Endless:
    def recv(self, most: int) -> bytes:
        return b"x" * most
