"""The MPI transport: mpi4py's buffer calls, no pickling, nothing copied that need not be."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from mpi4py import MPI

from qdist.comm.errors import CommError
from qdist.comm.messages.reduction import ReduceOp
from qdist.comm.standalone import mpich_segments

__all__ = ["MpiTransport", "abort"]

_OPS = {
    "sum": MPI.SUM,
    "product": MPI.PROD,
    "min": MPI.MIN,
    "max": MPI.MAX,
    "band": MPI.BAND,
    "bor": MPI.BOR,
    "bxor": MPI.BXOR,
}
# dtypes that mpi4py maps to an MPI datatype by itself; everything else travels as bytes, and so does clongdouble ("G")
# where it is not reduced: MPICH's gather ends the job when it cuts a long message within an element of 32 bytes.
_NATIVE = frozenset(np.dtype(t) for t in "?bBhHiIlLqQfdgFD")


class MpiRequest:
    """An MPI request and the buffers that must outlive it."""

    __slots__ = ("_keep", "_request")

    def __init__(self, request: MPI.Request, *keep: Any) -> None:
        self._request = request
        self._keep = keep

    def wait(self) -> None:
        self._request.Wait()

    def test(self) -> bool:
        return self._request.Test()


class MpiTrade:
    """A message to one rank and one from another, the buffers that must outlive both, and the check of what came."""

    __slots__ = ("_out", "_received", "_sent", "_source", "_status", "_x")

    def __init__(self, received: MPI.Request, sent: MPI.Request, x: Any, out: Any, source: int) -> None:
        self._received, self._sent = received, sent
        self._x, self._out, self._source = x, out, source
        self._status = MPI.Status()

    def wait(self) -> None:
        self._received.Wait(self._status)
        self._sent.Wait()
        self._check()

    def test(self) -> bool:
        if not MPI.Request.Testall([self._received, self._sent], [self._status, MPI.Status()]):
            return False
        self._check()
        return True

    def _check(self) -> None:
        came, room = self._status.Get_count(MPI.BYTE), self._out.nbytes
        if came != room:
            raise CommError(
                f"sendrecv: the message from rank {self._source} has {came} bytes, and out, which must have its size, "
                f"{room}"
            )


class MpiTransport:
    """The ranks of an MPI communicator. The communicator is used, never freed unless made here."""

    name = "mpi"

    def __init__(self, comm: MPI.Intracomm, *, owned: bool = False) -> None:
        self._comm = comm
        self._owned = owned
        if owned:
            # What goes wrong becomes an exception with a traceback, where MPI itself does not end the job.
            comm.Set_errhandler(MPI.ERRORS_RETURN)
        self.rank = comm.rank
        self.size = comm.size
        # mpi4py sums when it is told nothing.
        self.direct: dict[str, Any] = {"all_reduce": comm.Allreduce, "all_to_all": comm.Alltoall}

    def all_reduce(self, x: Any, out: Any, op: ReduceOp, block: bool) -> Any:
        send = MPI.IN_PLACE if x is None else x
        if block:
            return self._comm.Allreduce(send, out, _OPS[op.name])
        return MpiRequest(self._comm.Iallreduce(send, out, _OPS[op.name]), x, out)

    def reduce(self, x: Any, out: Any, op: ReduceOp, root: int, block: bool) -> Any:
        send = MPI.IN_PLACE if x is None else x
        if block:
            return self._comm.Reduce(send, out, _OPS[op.name], root)
        return MpiRequest(self._comm.Ireduce(send, out, _OPS[op.name], root), x, out)

    def reduce_scatter(self, x: Any, out: Any, op: ReduceOp, block: bool) -> Any:
        if block:
            return self._comm.Reduce_scatter_block(x, out, _OPS[op.name])
        return MpiRequest(self._comm.Ireduce_scatter_block(x, out, _OPS[op.name]), x, out)

    def broadcast(self, out: Any, root: int, block: bool) -> Any:
        buffer = _movable(out)
        if block:
            return self._comm.Bcast(buffer, root)
        return MpiRequest(self._comm.Ibcast(buffer, root), out)

    def all_gather(self, x: Any, out: Any, block: bool) -> Any:
        if block:
            return self._comm.Allgather(_movable(x), _movable(out))
        return MpiRequest(self._comm.Iallgather(_movable(x), _movable(out)), x, out)

    def gather(self, x: Any, out: Any, root: int, block: bool) -> Any:
        recv = None if out is None else _movable(out)
        if block:
            return self._comm.Gather(_movable(x), recv, root)
        return MpiRequest(self._comm.Igather(_movable(x), recv, root), x, out)

    def scatter(self, x: Any, out: Any, root: int, block: bool) -> Any:
        send = None if x is None else _movable(x)
        if block:
            return self._comm.Scatter(send, _movable(out), root)
        return MpiRequest(self._comm.Iscatter(send, _movable(out), root), x, out)

    def all_to_all(self, x: Any, out: Any, block: bool) -> Any:
        if block:
            return self._comm.Alltoall(_movable(x), _movable(out))
        return MpiRequest(self._comm.Ialltoall(_movable(x), _movable(out)), x, out)

    def all_to_all_ragged(
        self, x: Any, send_counts: Sequence[int], out: Any, recv_counts: Sequence[int], block: bool
    ) -> Any:
        send, recv = _ragged(x, send_counts), _ragged(out, recv_counts)
        if block:
            return self._comm.Alltoallv(send, recv)
        return MpiRequest(self._comm.Ialltoallv(send, recv), x, out, send, recv)

    def barrier(self, block: bool) -> Any:
        if block:
            return self._comm.Barrier()
        return MpiRequest(self._comm.Ibarrier())

    def send(self, x: Any, dest: int, tag: int, block: bool) -> Any:
        if block:
            return self._comm.Send(_movable(x), dest, tag)
        return MpiRequest(self._comm.Isend(_movable(x), dest, tag), x)

    def recv(self, out: Any, source: int, tag: int, block: bool) -> Any:
        if block:
            return self._comm.Recv(_movable(out), source, tag)
        return MpiRequest(self._comm.Irecv(_movable(out), source, tag), out)

    def sendrecv(self, x: Any, dest: int, out: Any, source: int, tag: int) -> MpiTrade:
        received = self._comm.Irecv(_movable(out), source, tag)
        return MpiTrade(received, self._comm.Isend(_movable(x), dest, tag), x, out, source)

    def split(self, groups: Sequence[Sequence[int]]) -> MpiTransport | None:
        color, key = MPI.UNDEFINED, 0
        for index, ranks in enumerate(groups):
            if self.rank in ranks:
                color, key = index, list(ranks).index(self.rank)
        part = self._comm.Split(color, key)
        return None if part == MPI.COMM_NULL else MpiTransport(MPI.Intracomm(part), owned=True)

    def subgroup(self, ranks: Sequence[int]) -> MpiTransport:
        whole = self._comm.Get_group()
        part = whole.Incl(list(ranks))
        try:
            comm = self._comm.Create_group(part)
            assert isinstance(comm, MPI.Intracomm)
            return MpiTransport(comm, owned=True)
        finally:
            part.Free()
            whole.Free()

    def abort(self, code: int) -> None:
        abort(code)

    def close(self) -> None:
        if self._owned and not MPI.Is_finalized():
            self._comm.Free()


_LAST_WORDS = 0.2
"""Seconds before an abort."""


def abort(code: int) -> None:
    """Ends all ranks that MPI's launcher started."""
    # MPI_Abort may itself get stuck behind the very call that hangs; leaving without MPI_Finalize has the launcher end
    # the other ranks all the same.
    last_resort = threading.Timer(3.0, os._exit, (code,))
    last_resort.daemon = True
    last_resort.start()
    # A rank that fails before all have come through init() leaves MPICH's files with their names.
    mpich_segments.unlink(mpich_segments.segments() | mpich_segments.topologies(os.getppid()))
    # The launcher stops passing on what ranks have written when one of them aborts: the last words get time to arrive.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            stream.flush()
    time.sleep(_LAST_WORDS)
    MPI.COMM_WORLD.Abort(code)


def _movable(x: np.ndarray) -> np.ndarray:
    return x if x.dtype in _NATIVE else x.reshape(-1).view(np.uint8)


def _ragged(x: np.ndarray, counts: Sequence[int]) -> list[Any]:
    if x.dtype not in _NATIVE:
        width = x.dtype.itemsize
        x, counts = x.view(np.uint8), [c * width for c in counts]
    starts = [0, *accumulate(counts)][:-1]
    return [x, (list(counts), starts)]
