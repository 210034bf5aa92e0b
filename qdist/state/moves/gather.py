"""All amplitudes of a state in one array, on one rank or on all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends import on_host
from qdist.backends.memory import check_copies
from qdist.state.moves.relayout import reorder
from qdist.state.shards import Shards

__all__ = ["gathered"]


def gathered(sv: Shards, root: int | None) -> NDArray[Any] | None:
    """All amplitudes in logical order: a new array on rank ``root``, or on every rank where that is None.

    Elsewhere None. Takes no more memory than the result, and for a state on a GPU the rank's own share of it. Raises
    MemoryError, on all ranks, where the result does not fit.
    """
    comm = sv.comm
    needed = (sv.dtype.itemsize << sv.num_qubits) + (0 if sv.backend.is_host else sv.local.nbytes)
    way_out = "amplitudes(indices) takes only some of them"
    if root is None and comm.size > 1:
        way_out += ", gather(root) takes them on one rank"
    check_copies(comm, needed, f"all amplitudes of {sv.num_qubits} qubits", way_out, None if root is None else [root])
    if comm.size == 1:
        if sv.layout.is_identity:
            whole = on_host(sv.local)
            return whole.copy() if whole is sv.local else whole
        result = np.empty_like(sv.local)
        sv.backend.kernels.permuted_copy(sv.local, sv.layout.positions, result)
        return on_host(result)
    own = on_host(sv.local)
    if root is not None and comm.rank != root:
        comm.send(own, root)
        return None
    whole = np.empty(1 << sv.num_qubits, sv.dtype)
    parts = [whole[slice(*sv.bounds(rank))] for rank in range(comm.size)]
    if root is not None:
        parts[root][:] = own
        for rank, part in enumerate(parts):
            if rank != root:
                comm.recv(part, rank)
    elif len({len(part) for part in parts}) == 1:
        comm.all_gather(own, out=whole.reshape(comm.size, -1))
    else:
        parts[comm.rank][:] = own
        works = [comm.broadcast(part, rank, out=part, async_op=True) for rank, part in enumerate(parts)]
        for work in works:
            work.wait()
    reorder(whole, sv.layout)
    return whole
