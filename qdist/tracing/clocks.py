"""The clocks of ranks: those of one node are the same, those of several are compared by messages."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from qdist.comm import Communicator

__all__ = ["offset_of", "offset_to_first"]

_ROUNDS = 20
_TAG = 32_001


def offset_to_first(comm: Communicator, clock: Callable[[], int]) -> int:
    """What to add to this rank's clock (nanoseconds) to have the first rank's. All ranks call.

    The clock of Linux counts from the node's start, for all processes of the node.
    """
    if comm.num_nodes == 1:
        return 0
    mine, theirs = np.zeros(1, np.int64), np.zeros(1, np.int64)
    if comm.rank != 0:
        samples = []
        comm.recv(theirs, 0, _TAG)  # The first rank takes one after the other.
        for _ in range(_ROUNDS):
            sent = clock()
            comm.send(mine, 0, _TAG)
            comm.recv(theirs, 0, _TAG)
            samples.append((sent, int(theirs[0]), clock()))
        return offset_of(samples)
    for rank in range(1, comm.size):
        comm.send(mine, rank, _TAG)
        for _ in range(_ROUNDS):
            comm.recv(theirs, rank, _TAG)
            mine[0] = clock()
            comm.send(mine, rank, _TAG)
    return 0


def offset_of(samples: list[tuple[int, int, int]]) -> int:
    """From (own time sent, the other's time, own time received): by the round trip that took least, in the middle of
    which the other's clock was read (Cristian 1989)."""
    sent, other, received = min(samples, key=lambda sample: sample[2] - sample[0])
    return other - (sent + received) // 2
