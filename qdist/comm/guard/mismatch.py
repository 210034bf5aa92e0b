"""Whether all ranks of a group call the same: compared before each collective with init(debug=True)."""

from __future__ import annotations

import numpy as np

from qdist.comm.errors import CollectiveMismatch
from qdist.comm.guard.naming import ranks_text
from qdist.comm.guard.watch import Guard
from qdist.comm.messages.call import Call
from qdist.comm.transports.transport import Transport

__all__ = ["check_counts", "check_same", "mismatch_text"]

_SIGNATURE_BYTES = 256


def check_same(call: Call, transport: Transport, guard: Guard) -> None:
    """Raises CollectiveMismatch on every rank when the ranks of the group call different things."""
    text = call.describe().encode()[:_SIGNATURE_BYTES]
    mine = np.zeros(_SIGNATURE_BYTES, np.uint8)
    mine[: len(text)] = np.frombuffer(text, np.uint8)
    table = np.empty((transport.size, _SIGNATURE_BYTES), np.uint8)
    with guard.watching(call):
        transport.all_gather(mine, table, True)
    callers: dict[str, list[int]] = {}
    for rank, row in enumerate(table):
        callers.setdefault(row.tobytes().rstrip(b"\0").decode(errors="replace"), []).append(rank)
    if len(callers) > 1:
        raise CollectiveMismatch(mismatch_text(call.comm.name, call.sequence, callers))


def check_counts(call: Call, transport: Transport, guard: Guard, sends: list[int], receives: list[int]) -> None:
    """Raises CollectiveMismatch on every rank where one sends another number of elements than the other expects."""
    size = transport.size
    table = np.empty((size, 2, size), np.int64)
    with guard.watching(call):
        transport.all_gather(np.array([sends, receives], np.int64), table, True)
    wrong = np.argwhere(table[:, 0] != table[:, 1].T)
    if len(wrong):
        source, dest = (int(rank) for rank in wrong[0])
        raise CollectiveMismatch(
            f"{call.describe()} on {call.comm.name!r}: rank {source} sends {table[source, 0, dest]} elements to rank "
            f"{dest}, which expects {table[dest, 1, source]}"
        )


def mismatch_text(name: str, number: int, callers: dict[str, list[int]]) -> str:
    """Says which ranks called what, as their call of this number on the group of this name."""
    # The larger party is probably right; between equals, rank 0's.
    usual, *others = sorted(callers.items(), key=lambda item: (-len(item[1]), item[1]))
    different = "; ".join(f"{ranks_text(ranks)} called {what}" for what, ranks in others)
    return (
        f"the ranks of {name!r} do not call the same (call {number}): {different}, "
        f"where {ranks_text(usual[1])} called {usual[0]}"
    )
