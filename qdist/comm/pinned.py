"""CuPy arrays over a transport of host memory: handed over as they are where it is CUDA-aware, else copied.

Trades (sendrecv) go through pinned memory, beside everything else: while one is on its way between the ranks, the next
is copied down and the one before it up, each on a stream of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np

from qdist.comm.staging import StagedTransport
from qdist.comm.transport import Request, Transport

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
        self._waiting: deque[_Trade] = deque()
        """Those whose copies down are under way, in the order in which the other ranks expect them."""
        self._streams: dict[int, tuple[Any, Any]] = {}
        self._rising: deque[tuple[Any, Any]] = deque()
        """What is being copied up, with the event that ends it: until then the memory must stay."""

    def sendrecv(self, x: Any, dest: int, out: Any, source: int, tag: int) -> _Trade:
        trade = _Trade(self, x, dest, out, source, tag)
        self._waiting.append(trade)
        return trade

    def download(self, x: Any) -> tuple[Any, Any]:
        """A copy of a CuPy array in pinned memory, and the event after which it is complete."""
        host = pinned_like(x)
        down, _ = self._both_ways(x)
        down.wait_event(_now(x))
        x.data.copy_to_host_async(host.ctypes.data, x.nbytes, down)
        return host, down.record()

    def upload(self, host: Any, out: Any) -> None:
        """Copies pinned memory into a CuPy array, in the order of the current stream."""
        while self._rising and self._rising[0][1].done:
            self._rising.popleft()
        _, up = self._both_ways(out)
        # What used the array before must be done with it.
        up.wait_event(_now(out))
        out.data.copy_from_host_async(host.ctypes.data, out.nbytes, up)
        done = up.record()
        _current(out).wait_event(done)
        self._rising.append((host, done))

    def send_off(self, until: _Trade | None = None) -> None:
        """Sends what has been copied down, in order; what comes up to and with ``until`` is waited for."""
        waited = until is not None
        while self._waiting and (waited or self._waiting[0].copied.done):
            trade = self._waiting.popleft()
            trade.copied.synchronize()
            trade.sent = self._inner.send(trade.leaving, trade.dest, trade.tag, False)
            waited = waited and trade is not until

    def expect(self, host: Any, source: int, tag: int) -> Request:
        """Starts receiving into pinned memory."""
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


class _Trade:
    """A message down, away, in and up again."""

    def __init__(self, transport: PinnedTransport, x: Any, dest: int, out: Any, source: int, tag: int) -> None:
        self._transport, self._out = transport, out
        self.dest, self.tag = dest, tag
        self._coming = pinned_like(out)
        self._received = transport.expect(self._coming, source, tag)
        self.leaving, self.copied = transport.download(x)
        self.sent: Request | None = None
        self._x = x  # Lives until it has been copied.

    def wait(self) -> None:
        if self.sent is None:
            self._transport.send_off(self)
        assert self.sent is not None
        # The next one may be on its way while this one is waited for.
        self._transport.send_off()
        self._received.wait()
        self.sent.wait()
        self._transport.upload(self._coming, self._out)

    def test(self) -> bool:
        self._transport.send_off()
        if self.sent is None or not self._received.test() or not self.sent.test():
            return False
        self._transport.upload(self._coming, self._out)
        return True


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
    """Room for a CuPy array in host memory that copies run to and from beside everything else."""
    import cupy

    memory = cupy.cuda.alloc_pinned_memory(max(1, x.nbytes))
    return np.frombuffer(memory, x.dtype, x.size).reshape(x.shape)


def _current(x: Any) -> Any:
    """The stream that this thread works on, of the array's device."""
    import cupy

    with x.device:
        return cupy.cuda.get_current_stream()


def _now(x: Any) -> Any:
    """The point that the current stream has been told to reach."""
    with x.device:
        return _current(x).record()
