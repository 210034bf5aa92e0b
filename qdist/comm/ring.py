"""All-reduce as a ring of point-to-point messages (Patarasuk and Yuan 2009): a reference for what transports do.

The array is cut into ``size`` chunks. In size-1 steps each rank passes a chunk to its right neighbour, adding its own
share, until every rank holds one finished chunk; in size-1 more the finished chunks go round. Each rank sends
2 (size-1)/size of the array, whatever the number of ranks.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qdist.comm.communicator import Communicator
from qdist.comm.messages.arrays import Array, as_input

__all__ = ["ring_all_reduce"]

_TAG = 1 << 14


def ring_all_reduce(comm: Communicator, x: Any) -> Array:
    """The sum of every rank's ``x`` on every rank, with isend and irecv alone. Same shape and dtype as ``x``."""
    x = as_input(x)
    result = x.copy()
    chunks = np.array_split(result.reshape(-1), comm.size)
    right, left = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size

    def pass_on(step: int, finished: bool) -> None:
        """Sends one chunk right and takes the one before it from the left."""
        outgoing = chunks[(comm.rank - step + finished) % comm.size]
        incoming = chunks[(comm.rank - step - 1 + finished) % comm.size]
        received = incoming if finished else np.empty_like(incoming)
        pending = comm.irecv(received, left, _TAG + step)
        sent = comm.isend(outgoing, right, _TAG + step)
        pending.wait()
        sent.wait()
        if not finished:
            incoming += received

    for step in range(comm.size - 1):
        pass_on(step, finished=False)
    for step in range(comm.size - 1):
        pass_on(step, finished=True)
    return result
