"""A plan's stages as a GPU can run them: what a tile has no room for is taken out or divided.

Gates that mix more qubits than a tile holds run by themselves (wide.py), between stages of the others. Stages with more
phases than shared memory has room for become several, each a sweep of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from qdist.cuda.tables import Tables
from qdist.cuda.tile import Shape, tile_level
from qdist.plan.fuse import Block, fuse
from qdist.plan.operations import Operation
from qdist.plan.schedule import Stage, schedule

__all__ = ["runnable"]

Tiles = tuple[Stage, list[Block]]


def runnable(num_bits: int, dtype: np.dtype, stages: Sequence[Tiles], shape: Shape) -> Iterator[Tiles | Operation]:
    """The stages on shards of ``num_bits`` bits, in order: those of tiles, and wide gates as bare operations.

    Raises ValueError for stages whose tiles are smaller than what a thread holds.
    """
    for stage, blocks in stages:
        if len(stage.close) < min(num_bits, shape.registers):
            raise ValueError(
                f"the stages were planned for tiles of {len(stage.close)} bits, and a thread of the kernel holds "
                f"{shape.registers}: plan them with levels of at least that many"
            )
        if len(stage.close) <= shape.widest:
            yield from _few_phases(num_bits, dtype, stage, blocks, shape)
            continue
        narrow: list[Operation] = []
        for operation in (o for block in blocks for o in block.operations):
            if (operation.mixes | (1 << shape.contiguous) - 1).bit_count() <= shape.widest:
                narrow.append(operation)
                continue
            yield from _tiles(num_bits, dtype, narrow, shape)
            narrow = []
            yield operation
        yield from _tiles(num_bits, dtype, narrow, shape)


def _tiles(num_bits: int, dtype: np.dtype, operations: list[Operation], shape: Shape) -> Iterator[Tiles]:
    for stage in schedule(operations, num_bits, [tile_level(num_bits, shape)]) if operations else ():
        yield from _few_phases(num_bits, dtype, stage, fuse(stage.operations), shape)


def _few_phases(num_bits: int, dtype: np.dtype, stage: Stage, blocks: list[Block], shape: Shape) -> Iterator[Tiles]:
    """The stage, or halves of halves of it, none of which needs more coefficients than there is room for."""
    operations = [o for block in blocks for o in block.operations]
    phases = sum(len(o.terms) + len(o.wide) for o in operations)
    most = shape.coefficient_bytes // (dtype.itemsize // 2)
    # Phases of one thread add up to one coefficient, so only tables tell; but there are never more.
    if phases <= most or len(operations) == 1 or _coefficients(num_bits, dtype, stage, blocks, shape) <= most:
        yield stage, blocks
        return
    middle = len(operations) // 2
    for half in (operations[:middle], operations[middle:]):
        part = Stage(stage.level, stage.close, half, [])
        yield from _few_phases(num_bits, dtype, part, fuse(half), shape)


def _coefficients(num_bits: int, dtype: np.dtype, stage: Stage, blocks: list[Block], shape: Shape) -> int:
    (lowered,) = Tables(num_bits, dtype, [(stage, blocks)], shape).stages
    return lowered.num_coefficients
