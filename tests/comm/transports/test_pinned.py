"""GPU arrays over host memory, without a GPU: what is copied and sent when, told by streams that run when told to."""

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from qdist.comm.transports import pinned
from qdist.comm.transports.pinned import PinnedTransport


class Event:
    def __init__(self, stream: "Stream") -> None:
        self.stream, self.after = stream, len(stream.work)

    @property
    def done(self) -> bool:
        return self.stream.finished >= self.after

    def synchronize(self) -> None:
        self.stream.run(self.after)


class Stream:
    """Runs what it was given when it is asked to, and then in order."""

    def __init__(self) -> None:
        self.work: list[Any] = []
        self.finished = 0

    def record(self) -> Event:
        return Event(self)

    def wait_event(self, event: Event) -> None:
        self.work.append(event.synchronize)

    def run(self, until: int | None = None) -> None:
        while self.finished < (len(self.work) if until is None else until):
            self.finished += 1
            self.work[self.finished - 1]()


class Array:
    """Stands in for a CuPy array; ``values`` is its memory."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.device, self.data = values, SimpleNamespace(id=0), self
        self.dtype, self.size, self.shape, self.nbytes = values.dtype, values.size, values.shape, values.nbytes

    def copy_to_host_async(self, to: int, nbytes: int, stream: Stream) -> None:
        stream.work.append(lambda: ctypes.memmove(to, self.values.ctypes.data, nbytes))

    def copy_from_host_async(self, source: int, nbytes: int, stream: Stream) -> None:
        stream.work.append(lambda: ctypes.memmove(self.values.ctypes.data, source, nbytes))


class Mail:
    """A transport to another rank that has sent everything already."""

    name, rank, size = "mpi", 0, 2

    def __init__(self, letters: list[np.ndarray]) -> None:
        self.letters, self.sent = letters, []

    def send(self, x: np.ndarray, dest: int, tag: int, block: bool) -> Any:
        self.sent.append((x.copy(), dest, tag, block))
        return SimpleNamespace(wait=lambda: None, test=lambda: True)

    def recv(self, out: np.ndarray, source: int, tag: int, block: bool) -> Any:
        letter = self.letters.pop(0)

        def arrive() -> bool:
            out[...] = letter
            return True

        return SimpleNamespace(wait=arrive, test=arrive)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    streams = SimpleNamespace(current=Stream(), down=Stream(), up=Stream())
    monkeypatch.setattr(pinned, "pinned_like", lambda x: np.full(x.shape, np.nan, x.dtype))
    monkeypatch.setattr(pinned, "_current", lambda x: streams.current)
    monkeypatch.setattr(pinned, "_now", lambda x: streams.current.record())
    monkeypatch.setattr(PinnedTransport, "_both_ways", lambda self, x: (streams.down, streams.up))
    return streams


def transport(inner: Mail) -> PinnedTransport:
    def unused(*arrays: Any) -> None:
        raise AssertionError("trades have their own way")

    return PinnedTransport(inner, unused, unused, unused)


def test_nothing_is_sent_before_it_is_there_and_all_in_the_order_in_which_it_was_started(gpu: SimpleNamespace) -> None:
    inner = Mail([np.full(3, 10.0), np.full(3, 20.0), np.full(3, 30.0)])
    over = transport(inner)
    sources = [Array(np.zeros(3)) for _ in range(3)]
    targets = [Array(np.zeros(3)) for _ in range(3)]
    trades = []
    for number, (x, out) in enumerate(zip(sources, targets)):
        gpu.current.work.append(lambda x=x, number=number: x.values.fill(number + 1))
        trades.append(over.sendrecv(x, 1, out, 1, 7))
    assert not any(trade.test() for trade in trades)
    assert inner.sent == []
    # The last is asked for first: those before it go first all the same.
    trades[2].wait()
    assert [x.tolist() for x, *_ in inner.sent] == [[1.0] * 3, [2.0] * 3, [3.0] * 3]
    assert {rest for _, *rest in map(tuple, inner.sent) for rest in [tuple(rest)]} == {(1, 7, False)}
    assert trades[0].test()
    assert trades[1].test()
    gpu.current.run()
    assert [out.values.tolist() for out in targets] == [[10.0] * 3, [20.0] * 3, [30.0] * 3]


def test_what_comes_up_waits_for_those_who_still_read_and_its_memory_stays(gpu: SimpleNamespace) -> None:
    inner = Mail([np.full(2, 5.0), np.full(2, 6.0)])
    over = transport(inner)
    out, seen = Array(np.full(2, 4.0)), []
    for _ in range(2):
        gpu.current.work.append(lambda: seen.append(out.values.copy()))
        over.sendrecv(Array(np.zeros(2)), 1, out, 1, 0).wait()
    gpu.current.work.append(lambda: seen.append(out.values.copy()))
    # The first had come up before the second was sent; the second is still to come.
    ((memory, done),) = over._uploads
    assert not done.done
    assert memory.tolist() == [6.0, 6.0]
    assert len(seen) == 2
    gpu.current.run()
    assert done.done
    assert [s.tolist() for s in seen] == [[4.0, 4.0], [5.0, 5.0], [6.0, 6.0]]


def test_a_cuda_aware_transport_gets_the_arrays_themselves_when_they_are_there(gpu: SimpleNamespace) -> None:
    x, out, computed = Array(np.zeros(2)), Array(np.zeros(2)), []
    gpu.current.work.append(lambda: computed.append(x))
    gpu.current.synchronize = gpu.current.run
    taken = []

    class Aware(Mail):
        def sendrecv(self, *arguments: Any) -> Any:
            assert computed == [x]
            taken.append(arguments)
            return SimpleNamespace(wait=lambda: None, test=lambda: True)

    over = pinned.device_arrays_over(Aware([]), cuda_aware=True)
    over.sendrecv(x, 1, out, 1, 3).wait()
    assert taken == [(x, 1, out, 1, 3)]
