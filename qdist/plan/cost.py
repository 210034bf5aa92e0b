"""What a plan costs: flops of its blocks, and seconds on a machine described by a few numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qdist.plan.fuse import Block
from qdist.plan.operations import FORMULAS

__all__ = ["Machine", "block_flops", "is_real"]

_REAL_FORMULAS = {FORMULAS["ry"]}


@dataclass(frozen=True, slots=True)
class Machine:
    """What limits a machine: bytes a second of its memory, flops a second in single and double precision."""

    bandwidth: float
    flops_single: float
    flops_double: float

    def seconds(self, nbytes: float, flops: float, dtype: np.dtype) -> float:
        peak = self.flops_single if dtype == np.complex64 else self.flops_double
        return max(nbytes / self.bandwidth, flops / peak)


def block_flops(block: Block) -> float:
    """Floating-point operations an amplitude: of the arithmetic alone, for the structure the kernels use."""
    if block.kind in ("linear", "permute"):
        return 0.0
    if block.kind in ("diagonal", "table"):
        return 6.0
    if block.kind == "rotation":
        return 10.0
    size = 1 << block.mixes.bit_count()
    share = 0.5 ** len(block.operations[0].controls)
    # A row of the matrix: `size` products and sums, of reals on both parts or of complex numbers.
    return share * (2 * (2 * size - 1) if is_real(block) else 8 * size - 2)


def is_real(block: Block) -> bool:
    """Whether a dense block's matrix is real, whatever the angles."""
    return all(
        o.formula in _REAL_FORMULAS if o.matrix is None else not np.iscomplex(o.matrix).any() for o in block.operations
    )
