"""Inner products of states, which may have different layouts."""

from __future__ import annotations

import numpy as np

from qdist.state.checking.alike import check_alike
from qdist.state.moves.relayout import relayout
from qdist.state.shards import Shards

__all__ = ["inner"]


def inner(bra: Shards, ket: Shards) -> complex:
    """<bra|ket>. On several ranks with different layouts, it takes memory for a copy of the ket. Raises StateError for
    states of different sizes, dtypes or devices, or over different ranks."""
    check_alike("an inner product", bra, ket)
    kernels = bra.backend.kernels
    if bra.layout == ket.layout:
        total = kernels.inner(bra.local, ket.local)
    elif bra.comm.size == 1:
        # Bit k of the bra's physical index is at this position of the ket's.
        positions = [ket.layout.positions[q] for q in bra.layout.qubits]
        total = kernels.permuted_inner(bra.local, ket.local, positions)
    else:
        moved = ket.copy()
        relayout(moved, bra.layout)
        total = kernels.inner(bra.local, moved.local)
    return complex(bra.sum_over_ranks(np.array([total]))[0])
