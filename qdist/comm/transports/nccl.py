"""The NCCL transport, through CuPy: collectives between GPUs, one rank a GPU.

Communication runs on a stream of its own. It starts when the current stream has finished what it was given before, and
the host waits for it: what a call returns is there.

NCCL runs what is on one stream in order, and a message ends when both sides have come to it. Two ranks that each start
a send and then a receive would wait for each other for ever. So isend and irecv are put down, and start together: when
one of them is waited for or asked whether it is done, or before whatever else is called.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, ClassVar

import cupy
import numpy as np
from cupy.cuda import nccl

from qdist.comm.errors import CommError
from qdist.comm.messages.reduction import ReduceOp
from qdist.comm.place import Place

__all__ = ["NcclTransport"]

_OPS = {"sum": nccl.NCCL_SUM, "product": nccl.NCCL_PROD, "min": nccl.NCCL_MIN, "max": nccl.NCCL_MAX}
_TYPES = {
    np.dtype("int8"): nccl.NCCL_INT8,
    np.dtype("uint8"): nccl.NCCL_UINT8,
    np.dtype("int32"): nccl.NCCL_INT32,
    np.dtype("uint32"): nccl.NCCL_UINT32,
    np.dtype("int64"): nccl.NCCL_INT64,
    np.dtype("uint64"): nccl.NCCL_UINT64,
    np.dtype("float16"): nccl.NCCL_FLOAT16,
    np.dtype("float32"): nccl.NCCL_FLOAT32,
    np.dtype("float64"): nccl.NCCL_FLOAT64,
}
_ID_BYTES = 128
_IDS_ARE_BYTES = int(cupy.__version__.split(".")[0]) >= 14


class NcclTransport:
    """The ranks of an NCCL communicator."""

    name = "nccl"
    direct: ClassVar[dict[str, Any]] = {}

    def __init__(self, rank: int, size: int, unique_id: bytes) -> None:
        self.rank, self.size = rank, size
        self._stream = cupy.cuda.Stream(non_blocking=True)
        self._put_down: list[_Message] = []
        # CuPy 14 takes the id as bytes; before that it was a tuple of signed numbers.
        as_before = tuple(np.frombuffer(unique_id, np.int8).tolist())
        self._comm = nccl.NcclCommunicator(size, unique_id if _IDS_ARE_BYTES else as_before, rank)

    @staticmethod
    def prepare(rank: int, place: Place) -> bytes:
        """Chooses the GPU of the local rank. Returns, on rank 0, the id under which the world's ranks meet.

        Raises CommError when this node shows no GPU.
        """
        if place.devices == 0:
            raise CommError("backend='nccl' needs a CUDA device, and this process sees none: use backend='mpi'")
        cupy.cuda.Device(place.local_rank % place.devices).use()
        return bytes(cupy.asnumpy(_as_array(nccl.get_unique_id()))) if rank == 0 else b""

    def all_reduce(self, x: Any, out: Any, op: ReduceOp, block: bool) -> Any:
        x = out if x is None else x
        native = _reducible(x, op)
        if native is None:
            return self._reduce_locally(x, out, op, block)
        count, kind = native
        return self._run(
            lambda s: self._comm.allReduce(x.data.ptr, out.data.ptr, count, kind, _OPS[op.name], s),
            block,
            x,
            out,
        )

    def reduce(self, x: Any, out: Any, op: ReduceOp, root: int, block: bool) -> Any:
        x = out if x is None else x
        native = _reducible(x, op)
        if native is None:
            return self._reduce_locally(x, cupy.empty_like(x) if out is None else out, op, block)
        count, kind = native
        target = x.data.ptr if out is None else out.data.ptr
        return self._run(
            lambda s: self._comm.reduce(x.data.ptr, target, count, kind, _OPS[op.name], root, s),
            block,
            x,
            out,
        )

    def reduce_scatter(self, x: Any, out: Any, op: ReduceOp, block: bool) -> Any:
        native = _reducible(x, op)
        if native is None:
            rows = cupy.empty_like(x)
            self.all_to_all(x, rows, True)
            out[...] = _fold(rows, op)
            return None if block else _Event(self._stream)
        count, kind = native
        return self._run(
            lambda s: self._comm.reduceScatter(x.data.ptr, out.data.ptr, count // self.size, kind, _OPS[op.name], s),
            block,
            x,
            out,
        )

    def broadcast(self, out: Any, root: int, block: bool) -> Any:
        return self._run(lambda s: self._comm.bcast(out.data.ptr, out.nbytes, nccl.NCCL_UINT8, root, s), block, out)

    def all_gather(self, x: Any, out: Any, block: bool) -> Any:
        return self._run(
            lambda s: self._comm.allGather(x.data.ptr, out.data.ptr, x.nbytes, nccl.NCCL_UINT8, s),
            block,
            x,
            out,
        )

    def gather(self, x: Any, out: Any, root: int, block: bool) -> Any:
        sends = [(x.data.ptr, x.nbytes, root)]
        receives = [] if out is None else [(out.data.ptr + r * x.nbytes, x.nbytes, r) for r in range(self.size)]
        return self._messages(sends, receives, block, x, out)

    def scatter(self, x: Any, out: Any, root: int, block: bool) -> Any:
        sends = [] if x is None else [(x.data.ptr + r * out.nbytes, out.nbytes, r) for r in range(self.size)]
        return self._messages(sends, [(out.data.ptr, out.nbytes, root)], block, x, out)

    def all_to_all(self, x: Any, out: Any, block: bool) -> Any:
        row = x.nbytes // self.size
        sends = [(x.data.ptr + r * row, row, r) for r in range(self.size)]
        receives = [(out.data.ptr + r * row, row, r) for r in range(self.size)]
        return self._messages(sends, receives, block, x, out)

    def all_to_all_ragged(
        self, x: Any, send_counts: Sequence[int], out: Any, recv_counts: Sequence[int], block: bool
    ) -> Any:
        def pieces(a: Any, counts: Sequence[int]) -> list[tuple[int, int, int]]:
            width = a.dtype.itemsize
            starts = [0, *accumulate(counts)]
            return [(a.data.ptr + starts[r] * width, counts[r] * width, r) for r in range(self.size)]

        return self._messages(pieces(x, send_counts), pieces(out, recv_counts), block, x, out)

    def barrier(self, block: bool) -> Any:
        token = cupy.zeros(1, cupy.uint8)
        return self.all_reduce(None, token, ReduceOp.SUM, block)

    def send(self, x: Any, dest: int, tag: int, block: bool) -> Any:
        self._only_tag_zero(tag)
        if not block:
            return self._later(_Message(self._start, x, dest, sends=True))
        return self._messages([(x.data.ptr, x.nbytes, dest)], [], block, x)

    def recv(self, out: Any, source: int, tag: int, block: bool) -> Any:
        self._only_tag_zero(tag)
        if not block:
            return self._later(_Message(self._start, out, source, sends=False))
        return self._messages([], [(out.data.ptr, out.nbytes, source)], block, out)

    def sendrecv(self, x: Any, dest: int, out: Any, source: int, tag: int) -> Any:
        self._only_tag_zero(tag)
        return self._messages([(x.data.ptr, x.nbytes, dest)], [(out.data.ptr, out.nbytes, source)], False, x, out)

    def split(self, groups: Sequence[Sequence[int]]) -> NcclTransport | None:
        # Every rank offers an id; a group takes its first member's.
        offer = _as_array(nccl.get_unique_id())
        offers = cupy.empty((self.size, _ID_BYTES), cupy.uint8)
        self.all_gather(offer, offers, True)
        for ranks in groups:
            if self.rank in ranks:
                return self._join(ranks, offers[ranks[0]])
        return None

    def subgroup(self, ranks: Sequence[int]) -> NcclTransport:
        leader = ranks[0]
        unique_id = _as_array(nccl.get_unique_id())
        if self.rank == leader:
            self._messages([(unique_id.data.ptr, _ID_BYTES, r) for r in ranks[1:]], [], True, unique_id)
        else:
            self._messages([], [(unique_id.data.ptr, _ID_BYTES, leader)], True, unique_id)
        return self._join(ranks, unique_id)

    def abort(self, code: int) -> None:
        os._exit(code)

    def close(self) -> None:
        self._start()
        self._comm.destroy()

    def _join(self, ranks: Sequence[int], unique_id: Any) -> NcclTransport:
        return NcclTransport(list(ranks).index(self.rank), len(ranks), cupy.asnumpy(unique_id).tobytes())

    def _later(self, message: _Message) -> _Message:
        self._put_down.append(message)
        return message

    def _start(self) -> None:
        """Starts the messages that were put down, as one group."""
        messages, self._put_down = self._put_down, []
        if not messages:
            return
        for message in messages:
            self._stream.wait_event(message.after)
        sends = [(m.array.data.ptr, m.array.nbytes, m.peer) for m in messages if m.sends]
        receives = [(m.array.data.ptr, m.array.nbytes, m.peer) for m in messages if not m.sends]
        done = self._messages(sends, receives, False, *(m.array for m in messages))
        for message in messages:
            message.event = done

    def _run(self, call: Callable[[int], None], block: bool, *keep: Any) -> _Event | None:
        self._start()
        self._stream.wait_event(cupy.cuda.get_current_stream().record())
        call(self._stream.ptr)
        done = _Event(self._stream, *keep)
        if block:
            done.wait()
            return None
        return done

    def _messages(
        self,
        sends: list[tuple[int, int, int]],
        receives: list[tuple[int, int, int]],
        block: bool,
        *keep: Any,
    ) -> _Event | None:
        """Sends and receives (pointer, bytes, rank) as one group: NCCL runs them together, so they cannot deadlock."""

        def call(stream: int) -> None:
            nccl.groupStart()
            try:
                for pointer, nbytes, rank in sends:
                    self._comm.send(pointer, nbytes, nccl.NCCL_UINT8, rank, stream)
                for pointer, nbytes, rank in receives:
                    self._comm.recv(pointer, nbytes, nccl.NCCL_UINT8, rank, stream)
            finally:
                nccl.groupEnd()

        return self._run(call, block, *keep)

    def _reduce_locally(self, x: Any, out: Any, op: ReduceOp, block: bool) -> _Event | None:
        """What NCCL cannot reduce (bit operations, complex products, odd integers): gather, then fold here."""
        rows = cupy.empty((self.size, *x.shape), x.dtype)
        self.all_gather(x, rows, True)
        out[...] = _fold(rows, op)
        return None if block else _Event(self._stream)

    @staticmethod
    def _only_tag_zero(tag: int) -> None:
        if tag != 0:
            raise ValueError(f"tag={tag}: NCCL has no tags, messages between two ranks arrive in the order sent; use 0")


class _Event:
    """The point that the stream had reached, and the buffers in use until then."""

    __slots__ = ("_event", "_keep")

    def __init__(self, stream: Any, *keep: Any) -> None:
        self._event = stream.record()
        self._keep = keep

    def wait(self) -> None:
        self._event.synchronize()

    def test(self) -> bool:
        return bool(self._event.done)


class _Message:
    """A send or a receive that was put down. after: what the current stream had reached; event: once it has started."""

    __slots__ = ("_start", "after", "array", "event", "peer", "sends")

    def __init__(self, start: Callable[[], None], array: Any, peer: int, sends: bool) -> None:
        self._start, self.array, self.peer, self.sends = start, array, peer, sends
        self.after = cupy.cuda.get_current_stream().record()
        self.event: _Event | None = None

    def wait(self) -> None:
        self._started().wait()

    def test(self) -> bool:
        return self._started().test()

    def _started(self) -> _Event:
        if self.event is None:
            self._start()
        assert self.event is not None
        return self.event


def _reducible(x: Any, op: ReduceOp) -> tuple[int, int] | None:
    """Element count and NCCL type under which ``op`` on ``x`` is native, or None."""
    if op.name not in _OPS:
        return None
    if x.dtype.kind == "c":
        # A complex sum is a sum of twice as many reals; a product is not.
        real = _TYPES.get(np.dtype(f"f{x.dtype.itemsize // 2}"))
        return (2 * x.size, real) if op.name == "sum" and real is not None else None
    kind = _TYPES.get(x.dtype)
    return None if kind is None else (x.size, kind)


def _as_array(unique_id: bytes | tuple[int, ...]) -> Any:
    raw = unique_id if isinstance(unique_id, bytes) else np.array(unique_id, np.int8).tobytes()
    return cupy.asarray(np.frombuffer(raw, np.uint8))


def _fold(rows: Any, op: ReduceOp) -> Any:
    combine = op.ufunc(cupy)
    total = rows[0].copy()
    for row in rows[1:]:
        total = combine(total, row)
    return total
