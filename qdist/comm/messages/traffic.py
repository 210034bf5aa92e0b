"""What a communication costs: the record of one message, and the bytes that cross the wire for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from qdist.comm.messages.call import Call

__all__ = ["Message", "message_of"]


class Message(NamedTuple):
    """One communication of one rank."""

    op: str
    group: tuple[int, ...]
    """World ranks that take part; for point to point, the two."""
    bytes: int
    """Size of the array this rank brought (or, for recv and scatter, receives)."""
    wire_bytes: float
    """Bytes sent by an average rank of the group when the transport uses the bandwidth-optimal algorithm."""


# Bytes sent by an average of n ranks for arrays of b bytes: ring algorithms for reductions and all_gather (Patarasuk
# and Yuan 2009), direct sends for the rest.
_WIRE: dict[str, Callable[[int, int], float]] = {
    "all_reduce": lambda n, b: 2 * (n - 1) * b / n,
    "reduce": lambda n, b: (n - 1) * b / n,
    "reduce_scatter": lambda n, b: (n - 1) * b / n,
    "broadcast": lambda n, b: (n - 1) * b / n,
    "all_gather": lambda n, b: (n - 1) * b,
    "gather": lambda n, b: (n - 1) * b / n,
    "scatter": lambda n, b: (n - 1) * b / n,
    "all_to_all": lambda n, b: (n - 1) * b / n,
    "send": lambda n, b: b,
    "isend": lambda n, b: b,
    "isendrecv": lambda n, b: b,
}


def message_of(call: Call) -> Message:
    """The record of this call."""
    comm = call.comm
    width = 0 if call.dtype is None else np.dtype(call.dtype).itemsize
    if call.elements is not None:
        size, sends = call.elements
        return Message(call.op, comm.group, size * width, (size - sends[comm.rank]) * width)
    nbytes = 0 if call.shape is None else math.prod(call.shape) * width
    group = comm.group if call.peer is None else (comm.group[comm.rank], comm.group[call.peer])
    wire = _WIRE.get(call.op)
    return Message(call.op, group, nbytes, 0 if wire is None else wire(comm.size, nbytes))
