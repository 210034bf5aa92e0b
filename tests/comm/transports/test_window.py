"""Windows between ranks of a node, without a GPU: two threads stand in for the ranks, NumPy's memory for a GPU's."""

import ctypes
import sys
import threading
import time
from collections import defaultdict, deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from qdist.comm import gpu_windows
from qdist.comm.transports import pinned, window
from qdist.comm.transports.pinned import PinnedTransport
from qdist.comm.transports.window import SLOTS, Window

SMALL = 64
STREAM = SimpleNamespace(
    ptr=0,
    wait_event=lambda event: None,
    synchronize=lambda: None,
    record=lambda: SimpleNamespace(done=True, synchronize=lambda: None),
)


class Array:
    """Stands in for a CuPy array; ``values`` is its memory."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.device, self.data, self.ptr = values, SimpleNamespace(id=0), self, values.ctypes.data
        self.dtype, self.size, self.shape, self.nbytes = values.dtype, values.size, values.shape, values.nbytes

    def copy_to_host_async(self, to: int, nbytes: int, stream: Any) -> None:
        ctypes.memmove(to, self.ptr, nbytes)

    def copy_from_host_async(self, source: int, nbytes: int, stream: Any) -> None:
        ctypes.memmove(self.ptr, source, nbytes)


class Post:
    """Messages between threads, which pair up with receives in the order of both, as MPI's do."""

    def __init__(self) -> None:
        self.condition = threading.Condition()
        self.letters: dict[Any, deque[np.ndarray]] = defaultdict(deque)
        self.posted: dict[Any, deque[Any]] = defaultdict(deque)
        self.count = 0


class Office:
    """One rank's way to the post."""

    name, size = "mpi", 2

    def __init__(self, post: Post, rank: int) -> None:
        self.post, self.rank = post, rank

    def send(self, x: np.ndarray, dest: int, tag: int, block: bool) -> Any:
        with self.post.condition:
            self.post.count += 1
            self.post.letters[self.rank, dest, tag].append(x.copy())
            self._match((self.rank, dest, tag))
        return SimpleNamespace(wait=lambda: None, test=lambda: True)

    def recv(self, out: np.ndarray, source: int, tag: int, block: bool) -> Any:
        state = SimpleNamespace(out=out, done=False)
        with self.post.condition:
            self.post.posted[source, self.rank, tag].append(state)
            self._match((source, self.rank, tag))

        def wait() -> None:
            with self.post.condition:
                assert self.post.condition.wait_for(lambda: state.done, timeout=20), "nothing came"

        return SimpleNamespace(wait=wait, test=lambda: state.done)

    def _match(self, key: Any) -> None:
        while self.post.letters[key] and self.post.posted[key]:
            state = self.post.posted[key].popleft()
            state.out[...] = self.post.letters[key].popleft()
            state.done = True
        self.post.condition.notify_all()


def copy(to: int, source: int, nbytes: int, kind: int, stream: int) -> None:
    ctypes.memmove(to, source, nbytes)


@pytest.fixture
def ranks(monkeypatch: pytest.MonkeyPatch) -> list[PinnedTransport]:
    """The transports of two ranks, number 5 and 3 in the world, that see each other's windows of small slots."""
    monkeypatch.setattr(window, "LARGEST", SMALL)
    monkeypatch.setattr(window, "SMALLEST", 16)
    monkeypatch.setattr(pinned, "pinned_like", lambda x: np.full(x.shape, np.nan, x.dtype))
    monkeypatch.setattr(pinned, "_current", lambda x: STREAM)
    monkeypatch.setattr(pinned, "_now", lambda x: STREAM.record())
    monkeypatch.setattr(PinnedTransport, "_both_ways", lambda self, x: (STREAM, STREAM))
    post, memory = Post(), [np.full(SLOTS * SMALL, 255, np.uint8) for _ in range(2)]
    windows = [Window(own.ctypes.data, SimpleNamespace(memcpyAsync=copy), own) for own in memory]
    windows[0].views.update({5: None, 3: memory[1].ctypes.data})
    windows[1].views.update({3: None, 5: memory[0].ctypes.data})

    def unused(*arrays: Any) -> None:
        raise AssertionError("trades have their own way")

    found = []
    for rank in range(2):
        transport = PinnedTransport(Office(post, rank), unused, unused, unused)
        transport.meet(windows[rank], (5, 3))
        found.append(transport)
    return found


def test_trades_of_all_sizes_arrive_whoever_is_slow(ranks: list[PinnedTransport]) -> None:
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 12, 60)  # Of 8 bytes each: most go by windows, the smallest and the largest do not.
    pauses = rng.random((2, 60)) * 2e-3
    wrong: list[str] = []

    def run(rank: int) -> None:
        under_way: deque[Any] = deque()

        def finish() -> None:
            number, trade, out, x = under_way.popleft()
            trade.wait()
            x.values.fill(-1)  # What was sent may be changed.
            if not (out.values == 1000 * (1 - rank) + number).all():
                wrong.append(f"rank {rank} got {out.values} as number {number}")

        try:
            for number, size in enumerate(sizes):
                if len(under_way) == 2:
                    finish()
                x, out = Array(np.full(size, 1000.0 * rank + number)), Array(np.zeros(size))
                under_way.append((number, ranks[rank].sendrecv(x, 1 - rank, out, 1 - rank, 9), out, x))
                time.sleep(pauses[rank][number])
            while under_way:
                finish()
        except BaseException as error:
            wrong.append(repr(error))

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert wrong == []


def test_a_trade_can_be_asked_after_and_those_of_some_sizes_with_one_rank_go_by_windows(
    ranks: list[PinnedTransport],
) -> None:
    post = ranks[0]._inner.post
    kinds = []
    for size, dest, source in ((2, 1, 1), (SMALL // 8, 1, 1), (SMALL // 8 + 1, 1, 1), (1, 1, 1), (2, 1, 0)):
        trade = ranks[0].sendrecv(Array(np.zeros(size)), dest, Array(np.zeros(size)), source, 1)
        kinds.append(type(trade).__name__)
        assert not trade.test()
    assert kinds == ["_WindowTrade", "_WindowTrade", "_Trade", "_Trade", "_Trade"]
    assert post.count == 5  # All have been sent, and nothing has come.
    out = Array(np.zeros(2))
    answer = ranks[1].sendrecv(Array(np.ones(2)), 0, out, 0, 1)
    assert answer.test()


def test_a_slot_is_free_when_the_other_rank_says_so_and_not_before(ranks: list[PinnedTransport]) -> None:
    own, other = ranks[0].window, ranks[1]._inner
    x = Array(np.arange(2.0))
    slots = [own.offer(x, ranks[0]._inner, 1, STREAM) for _ in range(SLOTS)]
    assert sorted(slots) == list(range(SLOTS))
    assert not own.has_room()
    other.send(np.array([slots[-1]]), 0, window._TAG, False)
    assert own.has_room()
    assert own.offer(x, ranks[0]._inner, 1, STREAM) == slots[-1]
    assert not own.has_room()


class Comm:
    """What share_gpus asks of a communicator, with a fixed answer of the other rank."""

    def __init__(self, transport: Any, offered: Any, seen: list[int]) -> None:
        self._device, self._device_over_host = None, transport
        self.rank, self.node, self.group = 0, 7, (5, 3)
        self.answers = [offered, seen]

    def all_gather_object(self, own: Any) -> list[Any]:
        return [own, self.answers.pop(0)]


@pytest.mark.parametrize(
    ("node", "handle", "sees", "served"),
    [(7, b"good", [5], True), (8, b"good", [5], False), (7, b"bad", [5], False), (7, b"good", [], False),
     (7, None, [5], False), (7, b"other", [5], False)],
    ids=["meets", "other node", "cannot open", "is not seen", "has none", "somebody else's"],
)  # fmt: skip
def test_ranks_meet_where_both_see_each_other(
    monkeypatch: pytest.MonkeyPatch, node: int, handle: bytes | None, sees: list[int], served: bool
) -> None:
    class Broken(Exception): ...

    theirs = {b"good": np.array([3, 0]), b"other": np.array([4, 0])}

    def opened(name: bytes) -> int:
        if name not in theirs:
            raise Broken
        return theirs[name].ctypes.data

    runtime = SimpleNamespace(
        CUDARuntimeError=Broken,
        memcpy=lambda to, source, nbytes, kind: ctypes.memmove(to, source, nbytes),
        ipcGetMemHandle=lambda address: b"mine",
        ipcOpenMemHandle=opened,
    )
    own = np.zeros(SLOTS * SMALL, np.uint8)
    memory = SimpleNamespace(ptr=own.ctypes.data, own=own)
    cuda = SimpleNamespace(runtime=runtime, Memory=lambda size: memory)
    monkeypatch.setattr(window, "LARGEST", SMALL)
    monkeypatch.setattr(window, "SMALLEST", SMALL)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda))
    gpu_windows._own_window.cache_clear()
    transport = PinnedTransport(Office(Post(), 0), None, None, None)  # type: ignore[arg-type]
    comm = Comm(transport, (node, handle), sees)
    gpu_windows.share_gpus(comm)  # type: ignore[arg-type]
    assert transport.window is not None
    assert transport.window.serves(3, SMALL) == served
    assert not transport.window.serves(5, SMALL)
    assert own.view(np.int64)[0] == 5
    gpu_windows.share_gpus(comm)  # type: ignore[arg-type]
    assert comm.answers == []
    gpu_windows._own_window.cache_clear()
