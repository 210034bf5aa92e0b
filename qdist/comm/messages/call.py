"""Call: the record of one communication, by which guards watch it, ranks compare it, and errors name it."""

from __future__ import annotations

from typing import Any, NamedTuple

from qdist.comm.messages.arrays import describe
from qdist.comm.messages.group import Group

__all__ = ["Call", "DirectEntry", "forget"]

# What the fast path of a collective puts on the list of calls under way: op, communicator, array, sequence, thread.
DirectEntry = tuple[str, Group, Any, int, int]


class Call(NamedTuple):
    """One communication: what it does, with which array, on which group."""

    op: str
    comm: Group
    shape: tuple[int, ...] | None
    dtype: Any
    reduction: str | None = None
    root: int | None = None
    peer: int | None = None
    elements: tuple[int, list[int]] | None = None
    """For ragged messages: how many elements in all, and how many to each rank."""
    sequence: int = 0
    """Which of the group's collectives it is, counted from 1; 0 for point to point."""
    thread: int = 0

    @staticmethod
    def of(entry: Call | DirectEntry) -> Call:
        """The full record of what is under way."""
        if isinstance(entry, Call):
            return entry
        op, comm, x, sequence, thread = entry
        reduction = "sum" if op == "all_reduce" else None
        return Call(op, comm, x.shape, x.dtype, reduction, sequence=sequence, thread=thread)

    def describe(self) -> str:
        """``all_reduce(float32[4], sum)``"""
        parts = []
        if self.dtype is not None:
            parts.append(str(self.dtype) if self.shape is None else describe(self.shape, self.dtype))
        if self.reduction is not None:
            parts.append(self.reduction)
        if self.root is not None:
            parts.append(f"root={self.root}")
        if self.peer is not None:
            parts.append(f"{'dest' if 'send' in self.op else 'source'}={self.peer}")
        return f"{self.op}({', '.join(parts)})"


def forget(active: list[Call | DirectEntry], call: Call) -> None:
    """Takes this very record off the list: comparing records would compare arrays."""
    for index, entry in enumerate(active):
        if entry is call:
            del active[index]
            return
