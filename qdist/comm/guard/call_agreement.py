"""CallAgreement: that all ranks of a group enter the same collectives, found out while they do.

Within a node the ranks note their calls in memory that they share (native/src/calls): one that calls something
else than another learns of it before it sends anything. Between nodes they compare digests of all their calls by
messages, at each of the first 32 calls and then after every 32.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

from qdist.comm.errors import CollectiveMismatch
from qdist.comm.guard.mismatch import mismatch_text
from qdist.comm.guard.node_memory import shared_memory
from qdist.comm.guard.watch import Guard
from qdist.comm.messages.call import Call
from qdist.comm.messages.group import Group
from qdist.comm.messages.reduction import NAMES
from qdist.comm.transports.transport import Transport
from qdist.native import kernels

__all__ = ["OPS", "REDUCTIONS", "CallAgreement"]

OPS = {
    name: code
    for code, name in enumerate(
        (
            "all_reduce",
            "reduce",
            "reduce_scatter",
            "broadcast",
            "all_gather",
            "gather",
            "scatter",
            "all_to_all",
            "all_to_all (ragged)",
            "barrier",
            "split",
        ),
        start=1,
    )
}
REDUCTIONS = {name: code for code, name in enumerate((None, *NAMES))}

_ASYNC, _DEVICE = 1, 2
"""Flags of a record: blocking and non-blocking calls of MPI do not meet, nor do those of MPI and NCCL."""

_RECORD = struct.Struct("=4B3i8qQ")
_NAMES = {code: name for name, code in OPS.items()}
_REDUCTION_NAMES = {code: name for name, code in REDUCTIONS.items()}
_TAG = 32_765
"""Of comparisons between nodes: next to the tags of exchanges, out of the way of a program's own."""
_SENT = 64
"""Calls that ranks tell each other when they differ: all since the last comparison are among them."""

_dtype_codes: dict[Any, int] = {None: 0}


class CallAgreement:
    """What one rank of a group knows of the others' collectives."""

    def __init__(self, comm: Group, guard: Guard, transport: Transport, node: int) -> None:
        """Collective over the group."""
        nbytes = kernels.CallTable.bytes(transport.size)
        memory, self._near, not_all, self.number = shared_memory(transport, node, nbytes)
        self.table = kernels.CallTable(memory, transport.size, transport.rank, self._near, not_all)
        self._comm, self._guard, self._transport = comm, guard, transport
        self._enter = self.table.enter

    def enter(self, call: Call, async_op: bool, on_device: bool, more: Any = None) -> None:
        """Notes the next collective. Raises CollectiveMismatch where a rank has called something else, or had before.

        more: what else must be equal on all ranks.
        """
        dtype = call.dtype
        code = _dtype_codes.get(dtype)
        if code is None:
            code = _dtype_codes[dtype] = ord(dtype.kind) << 32 | dtype.itemsize
        flags = _DEVICE if on_device else _ASYNC if async_op else 0
        root = -1 if call.root is None else call.root
        digest = 0 if more is None else zlib.crc32(repr(more).encode())
        if not self._enter(OPS[call.op], REDUCTIONS[call.reduction], code, flags, root, call.shape, digest):
            self.settle(block=not async_op)

    def settle(self, block: bool = True) -> None:
        """Sees to what the table found: raises CollectiveMismatch, or compares with the other nodes.

        block: whether other ranks can be waited for here; if not, a comparison is left to the next call that can.
        """
        if why := self.table.why_broken:
            raise CollectiveMismatch(f"{self._comm.name!r} cannot be used any more: {why}")
        if self.table.differs:
            self._raise({rank: self.table.calls(rank) for rank in self._near})
        if block and self.table.is_due:
            self._compare()

    def _compare(self) -> None:
        """Raises CollectiveMismatch on all ranks where digests differ. In about log2(size) steps every rank learns the
        smallest and the largest digest: in step k it trades with the ranks 2**k before and after it."""
        rank, size = self._transport.rank, self._transport.size
        low = high = np.uint64(self.table.digest)
        step = 1
        while step < size:
            mine, theirs = np.array([low, high]), np.empty(2, np.uint64)
            self._trade(mine, (rank + step) % size, theirs, (rank - step) % size)
            low, high = min(low, theirs[0]), max(high, theirs[1])
            step *= 2
        self.table.compared()
        if low != high:
            self._raise(self._everyone())

    def _everyone(self) -> dict[int, list[tuple[int, bytes]]]:
        """The last calls of every rank, told by messages; all ranks call."""
        rank, size = self._transport.rank, self._transport.size
        own = self.table.calls(rank)[-_SENT:]
        mine = np.zeros((_SENT, 8 + _RECORD.size), np.uint8)
        for row, (number, record) in zip(mine, own):
            row[:] = np.frombuffer(number.to_bytes(8, "little") + record, np.uint8)
        found = {rank: own}
        for step in range(1, size):
            source = (rank - step) % size
            theirs = np.empty_like(mine)
            self._trade(mine, (rank + step) % size, theirs, source)
            rows = [row.tobytes() for row in theirs]
            found[source] = [(n, row[8:]) for row in rows if (n := int.from_bytes(row[:8], "little"))]
        return found

    def _trade(self, x: Any, dest: int, out: Any, source: int) -> None:
        self._transport.sendrecv(x, dest, out, source, _TAG).wait()

    def _raise(self, calls: dict[int, list[tuple[int, bytes]]]) -> None:
        """Raises CollectiveMismatch, naming the first call in which ranks differ, and tells the other ranks."""
        why = self._first_difference({rank: dict(theirs) for rank, theirs in calls.items()})
        self.table.break_group(why)
        self._guard.tell_mismatch(self.number, why)
        raise CollectiveMismatch(why)

    def _first_difference(self, calls: dict[int, dict[int, bytes]]) -> str:
        for number in sorted(set().union(*calls.values())):
            callers: dict[bytes, list[int]] = {}
            for rank, theirs in sorted(calls.items()):
                if number in theirs:
                    callers.setdefault(theirs[number], []).append(rank)
            if len(callers) > 1:
                told = {_described(record, self._comm): ranks for record, ranks in callers.items()}
                return mismatch_text(self._comm.name, number, told)
        return (
            f"the ranks of {self._comm.name!r} did not call the same in one of their first {self.table.count} calls; "
            "QDIST_DEBUG=comm names the rank and the call"
        )


def _described(record: bytes, comm: Group) -> str:
    """``all_reduce(float32[4], sum)``, as Call.describe has it, with what else tells calls apart."""
    numbers = _RECORD.unpack(record)
    op, reduction, kind, flags, item_size, root, dims = numbers[:7]
    shape, more = numbers[7:15], numbers[15]
    dtype = np.dtype(f"{chr(kind)}{item_size}") if kind else None
    lengths = None if dims < 0 else tuple(shape[:dims])
    call = Call(_NAMES[op], comm, lengths, dtype, _REDUCTION_NAMES[reduction], None if root < 0 else root)
    text = call.describe()
    if flags & _ASYNC:
        text += " with async_op=True"
    if flags & _DEVICE:
        text += " over NCCL"
    if op == OPS["split"]:
        text += f" into groups of digest {more:08x}"
    elif dims > len(shape):
        text += f" with {dims} dimensions, those after the eighth of digest {more:x}"
    return text
