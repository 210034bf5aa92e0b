"""CuPy arrays over a transport of host memory: handed over as they are where it is CUDA-aware, else copied.

Trades (sendrecv) go through windows that ranks of a node open for each other (window.py), or through pinned memory, in
a pipeline: while one message is between the ranks, the next is copied from its device and the one before it to its own,
each on a stream for itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from qdist.comm.transports.staging import StagedTransport
from qdist.comm.transports.transport import Request, Transport
from qdist.comm.transports.window import Window

__all__ = ["PinnedTransport", "device_arrays_over"]


class PinnedTransport(StagedTransport):
    """Copies of the arrays in pinned memory travel."""

    def __init__(
        self,
        inner: Transport,
        over: Callable[[Any], Any],
        fresh: Callable[[Any], Any],
        back: Callable[[Any, Any], None],
    ) -> None:
        super().__init__(inner, over, fresh, back)
        self.window: Window | None = None
        """What ranks of a node trade through, once they have met."""
        self._group: tuple[int, ...] = ()
        self._waiting: deque[_Message] = deque()
        """Those that have not been sent, in the order in which the other ranks expect them."""
        self._streams: dict[int, tuple[Any, Any]] = {}
        self._uploads: deque[tuple[Any, Any]] = deque()
        """Copies to the device under way, each with the event that ends it: until then the host memory must stay."""

    def sendrecv(self, x: Any, dest: int, out: Any, source: int, tag: int) -> _Message:
        trade: _Message
        # The other rank decides the same way: it receives what is sent here, and sends what is received.
        if (
            self.window is not None
            and dest == source
            and self.window.serves(self._group[dest], max(x.nbytes, out.nbytes))
        ):
            trade = _WindowTrade(self, x, dest, out, tag)
        else:
            trade = _Trade(self, x, dest, out, source, tag)
        self._waiting.append(trade)
        return trade

    def meet(self, window: Window, group: tuple[int, ...]) -> None:
        """From now on trades go by windows where they can. group: the ranks in the world of this transport's ranks."""
        self.window, self._group = window, group

    def offer(self, x: Any, rank: int, computed: Any) -> int:
        """Copies an array to this rank's window, after an event; gives the slot."""
        assert self.window is not None
        down, _ = self._both_ways(x)
        down.wait_event(computed)
        return self.window.offer(x, self._inner, rank, down)

    def take(self, out: Any, rank: int, slot: int) -> Request:
        """Copies a slot of a rank's window to an array, after what used it before."""
        assert self.window is not None
        _, up = self._both_ways(out)
        up.wait_event(_now(out))
        return self.window.take(out, self._inner, rank, self._group[rank], slot, up)

    def download(self, x: Any) -> tuple[Any, Any]:
        """A copy of a CuPy array in pinned memory, and the event after which it is complete."""
        host = pinned_like(x)
        down, _ = self._both_ways(x)
        down.wait_event(_now(x))
        x.data.copy_to_host_async(host.ctypes.data, x.nbytes, down)
        return host, down.record()

    def upload(self, host: Any, out: Any) -> None:
        """Copies pinned memory into a CuPy array, in the order of the current stream."""
        while self._uploads and self._uploads[0][1].done:
            self._uploads.popleft()
        _, up = self._both_ways(out)
        # What used the array before must be done with it.
        up.wait_event(_now(out))
        out.data.copy_from_host_async(host.ctypes.data, out.nbytes, up)
        done = up.record()
        _current(out).wait_event(done)
        self._uploads.append((host, done))

    def send_off(self, until: _Message | None = None) -> None:
        """Sends what is ready, in order; what comes up to and with ``until`` is waited for."""
        waited = until is not None
        while self._waiting and (waited or self._waiting[0].is_ready()):
            trade = self._waiting.popleft()
            trade.send()
            waited = waited and trade is not until

    def start_send(self, host: Any, dest: int, tag: int) -> Request:
        """Starts sending host memory."""
        request = self._inner.send(host, dest, tag, False)
        assert request is not None
        return request

    def expect(self, host: Any, source: int, tag: int) -> Request:
        """Starts receiving into host memory."""
        request = self._inner.recv(host, source, tag, False)
        assert request is not None
        return request

    def _both_ways(self, x: Any) -> tuple[Any, Any]:
        number = x.device.id
        if number not in self._streams:
            import cupy

            with x.device:
                self._streams[number] = (cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True))
        return self._streams[number]


class _Message:
    """A message to another rank and one from there."""

    _received: Request

    def __init__(self, transport: PinnedTransport) -> None:
        self._transport = transport
        self._sent: Request | None = None

    def is_ready(self) -> bool:
        """Whether it can be sent without waiting."""
        raise NotImplementedError

    def send(self) -> None:
        """Sets ``_sent``."""
        raise NotImplementedError

    def wait(self) -> None:
        if self._sent is None:
            self._transport.send_off(self)
        assert self._sent is not None
        # The next one may be on its way while this one is waited for.
        self._transport.send_off()
        self._received.wait()
        self._sent.wait()
        told = self._take()
        if told is not None:
            told.wait()

    def test(self) -> bool:
        self._transport.send_off()
        if self._sent is None or not self._received.test() or not self._sent.test():
            return False
        told = self._take()
        return told is None or told.test()

    def _take(self) -> Request | None:
        """Copies what came to where it is wanted; gives what tells the other rank, where that is needed."""
        raise NotImplementedError


class _Trade(_Message):
    """Copied from the device, sent; received, copied to the device."""

    def __init__(self, transport: PinnedTransport, x: Any, dest: int, out: Any, source: int, tag: int) -> None:
        super().__init__(transport)
        self._out, self._dest, self._tag = out, dest, tag
        self._coming = pinned_like(out)
        self._received = transport.expect(self._coming, source, tag)
        self._leaving, self._copied = transport.download(x)
        self._x = x  # Lives until it has been copied.

    def is_ready(self) -> bool:
        return self._copied.done

    def send(self) -> None:
        self._copied.synchronize()
        self._sent = self._transport.start_send(self._leaving, self._dest, self._tag)

    def _take(self) -> None:
        self._transport.upload(self._coming, self._out)


class _WindowTrade(_Message):
    """A message through a window of each side: the numbers of slots travel, by the host."""

    def __init__(self, transport: PinnedTransport, x: Any, rank: int, out: Any, tag: int) -> None:
        super().__init__(transport)
        self._x, self._out = x, out
        self._rank, self._tag = rank, tag
        self._slot = np.empty(1, np.int64)
        self._received = transport.expect(self._slot, rank, tag)
        self._computed = _now(x)
        self._told: Request | None = None

    def is_ready(self) -> bool:
        assert self._transport.window is not None
        return self._computed.done and self._transport.window.has_room()

    def send(self) -> None:
        slot = self._transport.offer(self._x, self._rank, self._computed)
        self._sent = self._transport.start_send(np.array([slot]), self._rank, self._tag)

    def _take(self) -> Request:
        if self._told is None:
            self._told = self._transport.take(self._out, self._rank, int(self._slot[0]))
        return self._told


def device_arrays_over(inner: Transport, cuda_aware: bool) -> StagedTransport:
    """CuPy arrays over a transport of host memory; handed over as they are where that transport is CUDA-aware."""

    def settle(x: Any) -> Any:
        # The transport knows nothing of streams: what is still being computed must be there before it reads.
        _current(x).synchronize()
        return x

    if cuda_aware:
        return StagedTransport(inner, over=settle, fresh=settle, back=lambda there, x: None)

    def download(x: Any) -> Any:
        host = pinned_like(x)
        x.get(out=host)
        return host

    return PinnedTransport(inner, over=download, fresh=pinned_like, back=lambda there, x: x.set(there))


def pinned_like(x: Any) -> np.ndarray:
    """Page-locked host memory for a CuPy array: copies to and from it are asynchronous."""
    import cupy

    memory = cupy.cuda.alloc_pinned_memory(max(1, x.nbytes))
    return np.frombuffer(memory, x.dtype, x.size).reshape(x.shape)


def _current(x: Any) -> Any:
    """The stream that this thread works on, of the array's device."""
    import cupy

    with x.device:
        return cupy.cuda.get_current_stream()


def _now(x: Any) -> Any:
    """An event behind all work that the current stream has been given so far."""
    with x.device:
        return _current(x).record()
