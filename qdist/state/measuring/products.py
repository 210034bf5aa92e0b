"""Inner products and comparison of states, which may have different layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from qdist.backends import on_host
from qdist.state.checking.alike import check_alike
from qdist.state.moves.relayout import relayout
from qdist.state.shards import Shards

__all__ = ["inner", "is_close"]

_PIECE = 1 << 20
"""Amplitudes that are compared at a time."""


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


def is_close(one: Any, other: Any) -> bool:
    """Whether two states have the same amplitudes up to the rounding of the less precise dtype."""
    tolerance = 1e-5 if np.complex64 in (one.dtype, other.dtype) else 1e-12
    if one.dtype != other.dtype:
        other = other.astype(one.dtype)
    check_alike("a comparison", one, other)
    if one.layout != other.layout:
        other = other.copy()
        relayout(other, one.layout)
    size = max(one.norm(), other.norm())
    squares = 0.0
    for start in range(0, len(one.local), _PIECE):
        piece = slice(start, start + _PIECE)
        difference = on_host(one.local[piece] - other.local[piece])
        squares += float(np.vdot(difference, difference).real)
    return bool(one.sum_over_ranks(np.array([squares]))[0] <= (tolerance * size) ** 2)
