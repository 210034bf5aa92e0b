"""Random and damaged input for everything that the rendezvous reads from a connection or a file.

    python tests/comm/fuzz_wire.py --inputs 1000000 --seed 1

Each input goes, in this process, to one of the parsers: the store before and after a client has proven itself, a client
that meets a false server, the process manager, and the address in a rendezvous file. Only the documented exceptions may
come out, no more may be kept than the limits say, and no input may take longer than its budget. A sample then goes over
real sockets to a running store and a running manager, which must still serve a good client afterwards.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import subprocess
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable

from qdist.comm.errors import CommError
from qdist.comm.standalone import handshake, pmi
from qdist.comm.standalone.handshake import Challenge, Identity, LineReader, Refused
from qdist.comm.store.client import MAX_LINE, Address, StoreClient
from qdist.comm.store.server import _MAX_TEXT, Session, StoreServer, Values

BUDGET_SECONDS = 1.0
TOKEN = "a token of this fuzzer's own"
PMI_LINES = [
    b"cmd=init pmi_version=1 pmi_subversion=1\n",
    b"cmd=get_maxes\n",
    b"cmd=get_appnum\n",
    b"cmd=get_my_kvsname\n",
    b"cmd=get_universe_size\n",
    b"cmd=put kvsname=x key=-bc-0 value=mpi#00 01\n",
    b"cmd=get kvsname=x key=PMI_process_mapping\n",
    b"cmd=barrier_in\n",
    b"cmd=finalize\n",
    b"cmd=abort exitcode=1\n",
    b"cmd=initack pmiid=1\n",
    b"mcmd=spawn\nnprocs=1\nendcmd\n",
]
REQUESTS = [
    {"do": "set", "key": "node/0", "value": "name 0f", "id": 1},
    {"do": "get", "key": "manager", "id": 2},
    {"do": "list", "key": "node/", "id": 3},
    {"do": "hand over", "id": 4},
]
ODD = [b"1e400", b"-1", b"9" * 5000, b"null", b"true", b"NaN", b'"\\ud800"', b"[" * 3000, b'{"a":' * 3000, b"{}", b"\0"]


class FakeSocket:
    """The other side of a connection, which has already said everything."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def recv(self, most: int) -> bytes:
        data, self._data = self._data[:most], self._data[most:]
        return data

    def sendall(self, data: bytes) -> None:
        pass


def json_line(message: object) -> bytes:
    return json.dumps(message).encode() + b"\n"


def damaged(rng: random.Random, seeds: list[bytes]) -> bytes:
    """A good message, or two, with a few bytes changed, cut out, doubled or replaced by something odd; or noise."""
    kind = rng.randrange(12)
    if kind == 0:
        return rng.randbytes(rng.randrange(200)) + b"\n" * rng.randrange(2)
    data = bytearray(rng.choice(seeds))
    if kind == 1:
        data += rng.choice(seeds)
    if kind == 2 and rng.randrange(50) == 0:
        data[-1:] = b"x" * rng.choice((1 << 10, 1 << 13, 1 << 16))
    for _ in range(rng.randrange(5)):
        at, length = rng.randrange(len(data) + 1), rng.randrange(12)
        match rng.randrange(6):
            case 0:
                data[at:at] = rng.randbytes(length)
            case 1:
                del data[at : at + length]
            case 2:
                data[at:at] = data[at : at + length]
            case 3:
                data[at : at + length] = rng.choice(ODD)
            case 4 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case _:
                data[at : at + 1] = rng.choice((b"\n", b"=", b" ", b'"', b"\\", b"}", b"\xff"))
    return bytes(data)


def proven(values: Values) -> Session:
    session = Session(values, TOKEN)
    session.receive(hello(session))
    assert session.who is not None
    return session


def hello(session: Session) -> bytes:
    """What a good client answers to this session's greeting."""
    nonce = json.loads(session.greeting())["nonce"]
    who = Identity(-1, "a1")
    proof = handshake._proof(TOKEN.encode(), "client", nonce, "0" * 64, who)
    return json_line({"nonce": "0" * 64, "rank": who.rank, "instance": who.instance, "proof": proof})


class Targets:
    """The parsers, each a function of one input; what they may raise is caught here, all else is a crash."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._fresh()

    def _fresh(self) -> None:
        self._values = Values()
        self._session = proven(self._values)
        self._job = pmi.ProcessGroup(3, "(vector,(0,1,3))")

    def store_unproven(self) -> bytes:
        session = Session(self._values, TOKEN)
        good = hello(session)
        seeds = [good, *map(json_line, REQUESTS), json_line({"token": "", "do": "set", "key": "node/1", "value": ""})]
        data, held = damaged(self._rng, seeds), self._values._held
        try:
            session.receive(data)
        except Refused:
            return data
        if session.who is None:
            assert self._values._held == held
            assert len(session._pending) <= handshake.MAX_HELLO
        else:
            assert session.who == Identity(-1, "a1")
        return data

    def store_proven(self) -> bytes:
        data = damaged(self._rng, [json_line(r) for r in REQUESTS])
        try:
            answer = self._session.receive(data)
            assert all(isinstance(json.loads(line), dict) for line in answer.split(b"\n") if line)
            assert len(self._session._pending) <= MAX_LINE
            if self._session.hand_over:
                self._session = proven(self._values)
        except Refused:
            self._session = proven(self._values)
        assert self._values._held <= _MAX_TEXT
        return data

    def client(self) -> bytes:
        greeting = Challenge(TOKEN.encode()).greeting()
        answers = [json_line({"proof": "0" * 64}), json_line({"refused": "no"})]
        data = damaged(self._rng, [greeting + a for a in answers] + [greeting, *answers])
        other = FakeSocket(data)
        try:
            handshake.introduce(other, LineReader(other), TOKEN.encode(), Identity(1, "b2"))  # type: ignore[arg-type]
        except (Refused, EOFError):
            return data
        raise AssertionError("a server that does not know the token was believed")

    def manager(self) -> bytes:
        data = damaged(self._rng, PMI_LINES)
        rank = self._rng.randrange(3)
        try:
            for to, answer in self._job.receive(rank, data):
                assert 0 <= to < 3
                assert answer.index(b"\n") == len(answer) - 1
            assert len(self._job._pending[rank]) <= pmi._MAX_LINE
        except pmi.BadClientError:
            self._job.lose(rank)
            self._job = pmi.ProcessGroup(3, "(vector,(0,1,3))")
        assert len(self._job._values) <= 3 * pmi._MAX_KEYS_OF_A_RANK + 1
        return data

    def address(self) -> bytes:
        data = damaged(self._rng, [Address(("node0", "127.0.0.1"), 2950, "0f" * 32).to_json().encode()])
        try:
            found = Address.from_json(data.decode(errors="replace"))
        except CommError:
            return data
        assert 0 <= found.port < 1 << 16
        assert Address.from_json(found.to_json()) == found
        return data


def fuzz(inputs: int, seed: int, progress: Callable[[int], None] = lambda done: None) -> tuple[Counter[str], float]:
    """Inputs given to each target, and the seconds of the slowest. Raises AssertionError with the first that fails."""
    rng = random.Random(seed)
    targets = Targets(rng)
    tries = [targets.store_unproven, targets.store_proven, targets.client, targets.manager, targets.address]
    counts: Counter[str] = Counter()
    slowest = 0.0
    for done in range(inputs):
        attempt = tries[done % len(tries)]
        start = time.perf_counter()
        try:
            attempt()
        except Exception as error:
            raise AssertionError(f"input {done} of seed {seed} for {attempt.__name__}: {error!r}") from error
        slowest = max(slowest, time.perf_counter() - start)
        counts[attempt.__name__] += 1
        if done % 10_000 == 0:
            progress(done)
    if slowest > BUDGET_SECONDS:
        raise AssertionError(f"an input took {slowest:.2f} s, more than its budget of {BUDGET_SECONDS:g} s")
    return counts, slowest


def fuzz_sockets(inputs: int, seed: int) -> None:
    """The same over real connections. Raises AssertionError when a good client is not served any more."""
    rng = random.Random(seed)
    server = StoreServer(token=TOKEN)
    try:
        good = StoreClient(server.address, rank=0)
        good.set("kept", "yes")
        seeds = [
            *map(json_line, REQUESTS),
            json_line({"nonce": "0" * 64, "rank": 0, "instance": "x", "proof": "0" * 64}),
        ]
        for _ in range(inputs):
            with socket.create_connection((server.address.hosts[0], server.address.port), timeout=10) as stranger:
                stranger.sendall(damaged(rng, seeds))
        assert good.get("kept") == "yes"
        late = StoreClient(server.address, rank=1)
        assert late.list("") == {"kept": "yes"}
    finally:
        server.close()
    fuzz_running_manager(inputs, rng)


def fuzz_running_manager(inputs: int, rng: random.Random) -> None:
    """Rank 1 of 2 sends noise to managers until each drops it; rank 0 is answered all the time and may finalise."""
    left = inputs
    while left > 0:
        theirs, ours = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        manager = subprocess.Popen(
            [sys.executable, "-IS", str(pmi.__file__), "2", "(vector,(0,1,2))"],
            stdin=theirs.fileno(),
            stdout=subprocess.PIPE,
        )
        theirs.close()
        ends = []
        for rank in range(2):
            mine, its = socket.socketpair()
            mine.settimeout(10)
            socket.send_fds(ours, [str(rank).encode()], [its.fileno()])
            its.close()
            ends.append(mine)
        try:
            while left > 0:
                left -= 1
                ends[1].sendall(damaged(rng, [line for line in PMI_LINES if b"barrier" not in line]))
                ends[1].setblocking(False)
                try:
                    while ends[1].recv(65536):
                        pass
                    break  # Dropped.
                except BlockingIOError:
                    ends[1].settimeout(10)
        except OSError:
            pass  # Dropped, too.
        ends[0].sendall(b"cmd=get_universe_size\n")
        assert ends[0].recv(1000) == b"cmd=universe_size rc=0 size=2\n"
        ends[0].sendall(b"cmd=finalize\n")
        assert ends[0].recv(1000) == b"cmd=finalize_ack rc=0\n"
        for each in (*ends, ours):
            each.close()
        assert manager.wait(10) == 0
        assert manager.stdout is not None
        manager.stdout.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--sockets", type=int, default=5000, help="how many more go over real sockets")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    start = time.monotonic()

    def progress(done: int) -> None:
        print(f"\r{done} of {options.inputs} inputs, {time.monotonic() - start:.0f} s", end="", flush=True)

    try:
        counts, slowest = fuzz(options.inputs, options.seed, progress)
        fuzz_sockets(options.sockets, options.seed)
    except AssertionError:
        traceback.print_exc()
        print("crashes: 1")
        return 1
    print(f"\r{sum(counts.values())} inputs in this process ({dict(counts)}), {options.sockets} over each socket")
    print(f"crashes: 0; slowest input: {slowest * 1e3:.1f} ms; seed {options.seed}; {time.monotonic() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
