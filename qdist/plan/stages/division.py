"""Stages within a target's limits: gates too wide for a tile are split off, and stages with too many tables are halved.

A gate that mixes more qubits than a tile holds becomes a stage of its own on the whole shard (``Stage.is_wide``),
between stages of the others. A stage whose tables do not fit beside the tile becomes several, each a sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from qdist.plan.fuse import Block
from qdist.plan.levels import Level
from qdist.plan.operations import Operation
from qdist.plan.stages.schedule import Stage, cheapest_schedule, schedule, wide_stage
from qdist.plan.stages.target import Target

__all__ = ["Tiles", "cost_of", "divided", "shares_of", "staged", "staged_cheaply", "sweeps_of"]

Tiles = tuple[Stage, list[Block]]


def staged(
    operations: list[Operation], num_bits: int, target: Target, levels: Sequence[Level] | None = None
) -> list[Tiles]:
    """Operations on a shard of ``num_bits`` bits in stages for the target. levels: if not its own."""
    stages = schedule(operations, num_bits, target.levels(num_bits) if levels is None else levels)
    return list(divided(((s, target.fused(s.operations)) for s in stages), num_bits, target))


def staged_cheaply(operations: list[Operation], num_bits: int, target: Target, support: int, tries: int) -> list[Tiles]:
    """The same: the stages that cost least of so many schedules. support: as for ``cost_of``."""
    (level,) = target.levels(num_bits)
    stages = cheapest_schedule(operations, num_bits, level, support, tries, target.work(num_bits))
    return list(divided(((s, target.fused(s.operations)) for s in stages), num_bits, target))


def divided(stages: Iterable[Tiles], num_bits: int, target: Target) -> Iterator[Tiles]:
    """The same stages, in order, none of which needs more than the target has room for.

    Raises ValueError for stages whose tiles are smaller than the target's smallest.
    """
    for stage, blocks in stages:
        if len(stage.close) < min(num_bits, target.fewest):
            raise ValueError(
                f"the stages were planned for tiles of {len(stage.close)} bits, and a thread of the kernel holds "
                f"{target.fewest}: plan them with levels of at least that many"
            )
        if len(stage.close) <= target.widest:
            yield from _with_room(stage, blocks, num_bits, target)
            continue
        narrow: list[Operation] = []
        for operation in (o for block in blocks for o in block.operations):
            if (operation.mixes | (1 << target.contiguous) - 1).bit_count() <= target.widest:
                narrow.append(operation)
                continue
            yield from staged(narrow, num_bits, target)
            narrow = []
            yield wide_stage(operation), target.fused([operation])
        yield from staged(narrow, num_bits, target)


def sweeps_of(target: Target, stages: Iterable[Tiles], num_bits: int, support: int) -> float:
    """The time of stages, in units of reading and writing the whole shard; amplitudes that must be zero are skipped.

    support: nonzero-support mask before the first stage: amplitudes whose index has a 1 outside of it are zero.
    """
    return _sum(target.sweep_cost, stages, num_bits, support)


def cost_of(target: Target, stages: Iterable[Tiles], num_bits: int, support: int) -> float:
    """What stages cost, by which plans are compared (``Target.stage_cost``); arguments as for ``sweeps_of``."""
    return _sum(target.stage_cost, stages, num_bits, support)


def _sum(cost: Callable[..., float], stages: Iterable[Tiles], num_bits: int, support: int) -> float:
    stages = list(stages)
    shares = shares_of((stage for stage, _ in stages), num_bits, support)
    return sum(share * cost(num_bits, *tiles) for share, tiles in zip(shares, stages) if share)


def shares_of(stages: Iterable[Stage], num_bits: int, support: int) -> list[float]:
    """The part of the shard that each stage reads and writes: of |0...0> none, where qubits only change places."""
    found = []
    support &= (1 << num_bits) - 1
    for stage in stages:
        if not support and stage.only_moves:
            found.append(0.0)
            continue
        support |= sum(1 << p for p in stage.close)
        found.append(2.0 ** (support.bit_count() - num_bits))
    return found


def _with_room(stage: Stage, blocks: list[Block], num_bits: int, target: Target) -> Iterator[Tiles]:
    """The stage, recursively halved until its tables fit."""
    operations = [o for block in blocks for o in block.operations]
    if len(operations) == 1 or target.has_room(num_bits, stage, blocks):
        yield stage, blocks
        return
    middle = len(operations) // 2
    for half in (operations[:middle], operations[middle:]):
        yield from _with_room(Stage(stage.level, stage.close, half, []), target.fused(half), num_bits, target)
