"""Gates that mix more qubits than a tile holds: parts of the shard are taken out, multiplied, and put back.

A part holds all settings of the gate's qubits and some of the others', as a matrix with a row for each setting of the
gate's; the gate is a product with it, or another order of its rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qdist.backends.cuda import custatevec
from qdist.backends.cuda.moves import put_part, take_part
from qdist.plan.operations import Operation

__all__ = ["WideGate"]

_PART_BITS = 22
"""Amplitudes of a part, as a power of two, unless the gate itself is larger: 32 MiB in complex64."""


class WideGate:
    """A dense matrix or a permutation of many qubits, at positions of a shard of ``num_bits`` bits.

    operation: of kind "dense", without angles, or "permute". xp: CuPy.
    """

    def __init__(self, operation: Operation, num_bits: int, dtype: np.dtype, xp: Any) -> None:
        assert operation.kind in ("dense", "permute"), operation.kind
        assert not operation.slots, "gates with angles are narrow"
        self._xp, self._num_bits, self._dtype = xp, num_bits, dtype
        self._targets = list(operation.targets)
        near = [(p, value) for p, value in operation.controls if p < num_bits]
        self._controls = near
        self._base = sum(value << p for p, value in near)
        self._far_mask = sum(1 << p for p, _ in operation.controls if p >= num_bits)
        self._far_value = sum(value << p for p, value in operation.controls if p >= num_bits)
        taken = {*self._targets, *(p for p, _ in near)}
        others = [p for p in range(num_bits) if p not in taken]
        beside = max(0, _PART_BITS - len(self._targets))
        # The other bits are lowest, for coalesced accesses.
        self._positions = others[:beside] + self._targets
        self._outside = others[beside:]
        self._dense = operation.kind == "dense"
        self._matrix = xp.asarray(np.asarray(operation.matrix, dtype if self._dense else np.int64))

    def run(self, shard: Any, offset: int) -> None:
        """Runs on ``shard`` in place. ``offset`` is the place of its first amplitude in the whole state."""
        if offset & self._far_mask != self._far_value:
            return
        if self._dense and custatevec.is_installed():
            custatevec.apply_matrix(shard, self._num_bits, self._matrix, self._targets, self._controls)
            return
        part = self._xp.empty(1 << len(self._positions), self._dtype)
        rows = part.reshape(1 << len(self._targets), -1)
        for setting in range(1 << len(self._outside)):
            base = self._base | sum((setting >> k & 1) << p for k, p in enumerate(self._outside))
            take_part(shard, base, self._positions, part)
            result = self._matrix @ rows if self._dense else rows[self._matrix]
            put_part(result.reshape(-1), shard, base, self._positions)
