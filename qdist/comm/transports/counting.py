"""A transport that moves nothing: any rank of a group of any size, to count messages and bytes on one process.

>>> comm = counting_communicator(size=4096, rank=17)
>>> comm.all_reduce(gradient)
>>> comm.messages[0].wire_bytes
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from qdist.comm.messages.reduction import ReduceOp
from qdist.comm.transports.solo import _DONE, _copy, _Done
from qdist.comm.transports.transport import Transport

__all__ = ["CountingTransport"]


class CountingTransport:
    """Rank ``rank`` of ``size`` with nobody else there.

    Results are as if the other ranks brought the neutral element of the reduction, and zeros to everything else:
    all_reduce gives the input back, all_gather the input in the rank's own row.
    """

    name = "counting"
    direct: ClassVar[dict[str, Any]] = {}

    def __init__(self, size: int, rank: int = 0) -> None:
        if size < 1 or not 0 <= rank < size:
            raise ValueError(f"rank {rank} of {size}: size must be at least 1 and rank in 0..size-1")
        self.rank = rank
        self.size = size

    def all_reduce(self, x: Any, out: Any, op: ReduceOp, block: bool) -> _Done | None:
        return _copy(x, out, block)

    def reduce(self, x: Any, out: Any, op: ReduceOp, root: int, block: bool) -> _Done | None:
        return _copy(x if out is not None else None, out, block)

    def reduce_scatter(self, x: Any, out: Any, op: ReduceOp, block: bool) -> _Done | None:
        return _copy(x[self.rank, ...], out, block)

    def broadcast(self, out: Any, root: int, block: bool) -> _Done | None:
        return _copy(None, out, block)

    def all_gather(self, x: Any, out: Any, block: bool) -> _Done | None:
        out[...] = 0
        return _copy(x, out[self.rank, ...], block)

    def gather(self, x: Any, out: Any, root: int, block: bool) -> _Done | None:
        if out is None:
            return _copy(None, None, block)
        return self.all_gather(x, out, block)

    def scatter(self, x: Any, out: Any, root: int, block: bool) -> _Done | None:
        return _copy(0 if x is None else x[self.rank, ...], out, block)

    def all_to_all(self, x: Any, out: Any, block: bool) -> _Done | None:
        out[...] = 0
        return _copy(x[self.rank, ...], out[self.rank, ...], block)

    def all_to_all_ragged(
        self, x: Any, send_counts: Sequence[int], out: Any, recv_counts: Sequence[int], block: bool
    ) -> _Done | None:
        sent, received = sum(send_counts[: self.rank]), sum(recv_counts[: self.rank])
        own = send_counts[self.rank]
        out[...] = 0
        return _copy(x[sent : sent + own], out[received : received + own], block)

    def barrier(self, block: bool) -> _Done | None:
        return None if block else _DONE

    def send(self, x: Any, dest: int, tag: int, block: bool) -> _Done | None:
        return None if block else _DONE

    def recv(self, out: Any, source: int, tag: int, block: bool) -> _Done | None:
        return _copy(0, out, block)

    def sendrecv(self, x: Any, dest: int, out: Any, source: int, tag: int) -> _Done:
        out[...] = 0
        return _DONE

    def split(self, groups: Sequence[Sequence[int]]) -> Transport | None:
        for ranks in groups:
            if self.rank in ranks:
                return self.subgroup(ranks)
        return None

    def subgroup(self, ranks: Sequence[int]) -> CountingTransport:
        return CountingTransport(len(ranks), list(ranks).index(self.rank))

    def abort(self, code: int) -> None:
        raise SystemExit(code)

    def close(self) -> None:
        pass
