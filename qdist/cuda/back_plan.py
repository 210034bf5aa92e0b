"""The stages of the adjoint sweep: those of the program, or others that undo the same with less work.

Tiles of shorter rows hold more of the other bits. They read memory more slowly, but where the program's plan ends with
one sweep of the state more than it needs, they are worth it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from qdist.cuda.inverse import undoing
from qdist.cuda.phases import phases
from qdist.cuda.stages import Tiles, runnable
from qdist.cuda.tile import Shape, tile_level
from qdist.plan.fuse import fuse
from qdist.plan.operations import Operation
from qdist.plan.schedule import schedule

__all__ = ["cost", "rescheduled", "sweep_stages"]

_ROW_BYTES = 128
_WORTH = 0.97
"""A smaller gain is less than what these costs are sure of."""


def sweep_stages(
    num_bits: int, dtype: np.dtype, stages: Sequence[Tiles], shape: Shape, live: int
) -> tuple[list[Tiles | Operation], Shape]:
    """What to undo on shards of ``num_bits`` bits, in the order of the program, and the shape of the tiles.

    live: amplitudes are nonzero, before the program runs, only at indices whose bits outside of it are zero.
    """
    given = list(runnable(num_bits, dtype, stages, shape))
    tiled = [step for step in given if not isinstance(step, Operation)]
    if num_bits <= shape.tile or len(tiled) < len(given) or any(len(s.close) > shape.tile for s, _ in tiled):
        return given, shape
    shorter = replace(shape, contiguous=shape.contiguous - 1)
    other = rescheduled(num_bits, dtype, tiled, shorter)
    if cost(num_bits, other, shorter, live) < _WORTH * cost(num_bits, tiled, shape, live):
        return list(other), shorter
    return given, shape


def rescheduled(num_bits: int, dtype: np.dtype, stages: Sequence[Tiles], shape: Shape) -> list[Tiles]:
    """The same operations in stages for tiles of another shape, none of which they are too wide for."""
    operations = [o for _, blocks in stages for block in blocks for o in block.operations]
    planned = [(s, fuse(s.operations)) for s in schedule(operations, num_bits, [tile_level(num_bits, shape)])]
    return [step for step in runnable(num_bits, dtype, planned, shape) if not isinstance(step, Operation)]


def cost(num_bits: int, stages: Sequence[Tiles], shape: Shape, live: int) -> float:
    """What undoing the stages takes, in phases of a whole state (0.8 ms at 28 qubits in complex64 on an H200).

    A stage takes as long as its phases and one more, or, if that is more, as long as its memory: 3 phases in rows of
    128 bytes, twice that in rows of 64 (benchmarks/gpu_notes.md).
    """
    total = 0.0
    live &= (1 << num_bits) - 1
    for stage, blocks in stages:
        inside = sum(1 << p for p in stage.close)
        share = 2.0 ** ((live | inside).bit_count() - num_bits)
        row = next(p for p in range(num_bits + 1) if not inside >> p & 1)
        memory = 3.0 * max(1.0, _ROW_BYTES / (shape.itemsize << row))
        count = len(phases(list(stage.close), undoing(blocks), shape).phases)
        total += share * max(memory, 1.0 + count)
        live |= inside
    return total
