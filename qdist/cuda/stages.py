"""A plan's stages as a GPU can run them: what a tile has no room for is taken out or divided.

Gates that mix more qubits than a tile holds run by themselves (wide.py), between stages of the others. Stages with more
phases than shared memory has room for become several, each a sweep of its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from qdist.cuda import back_resident
from qdist.cuda.back_tables import BackTables
from qdist.cuda.resident import layout, resident
from qdist.cuda.tables import Tables
from qdist.cuda.tile import Shape, tile_level
from qdist.plan.fuse import Block, fuse
from qdist.plan.operations import Operation
from qdist.plan.schedule import Stage, schedule

__all__ = ["Tiles", "runnable"]

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
    """The stage, or halves of halves of it, none of which needs more shared memory than there is."""
    operations = [o for block in blocks for o in block.operations]
    if len(operations) == 1 or _surely_fits(stage, operations, shape) or _fits(num_bits, dtype, stage, blocks, shape):
        yield stage, blocks
        return
    middle = len(operations) // 2
    for half in (operations[:middle], operations[middle:]):
        part = Stage(stage.level, stage.close, half, [])
        yield from _few_phases(num_bits, dtype, part, fuse(half), shape)


def _surely_fits(stage: Stage, operations: list[Operation], shape: Shape) -> bool:
    """Whether no lowering of the operations can need more room than there is: the usual case, told without lowering."""
    phases = sum(len(o.terms) + len(o.wide) for o in operations)
    size = max(len(stage.close), shape.narrowest)
    # Each operation begins a phase at most, beside those that load and store.
    num_phases = len(operations) + 2
    if shape.states == 1:
        # A matrix or a table of phases has up to 32 numbers, or two a register.
        numbers = len(operations) * max(32, 2 << shape.registers)
        counts = (num_phases, len(operations) + phases, numbers, phases)
        few = phases * shape.itemsize // 2 <= shape.coefficient_bytes
        return few and layout(size, shape, *counts).end <= shape.shared_bytes
    needed = num_phases * (1024 + (4 << size - shape.registers)) + 256 * phases
    return needed <= shape.shared_bytes - (shape.states * shape.itemsize << size)


def _fits(num_bits: int, dtype: np.dtype, stage: Stage, blocks: list[Block], shape: Shape) -> bool:
    if shape.states == 1:
        (lowered,) = Tables(num_bits, dtype, [(stage, blocks)], shape).stages
        # Phases of one thread add up to one coefficient, so only tables tell.
        few = lowered.num_coefficients * shape.itemsize // 2 <= shape.coefficient_bytes
        return few and resident(lowered, shape).end <= shape.shared_bytes
    slots = {slot for block in blocks for o in block.operations for slot in o.reads}
    tables = BackTables(num_bits, dtype, [(stage, blocks)], shape, slots)
    return back_resident.resident(tables.stages[0], tables.extents[0], shape)[1] <= shape.shared_bytes
