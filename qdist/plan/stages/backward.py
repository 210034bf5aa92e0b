"""The stages of the adjoint sweep: those of the program, or others that undo the same with less work.

Tiles of shorter contiguous rows hold more of the other index bits. They read memory more slowly, but pay off where
they save a whole sweep. Large states are worth a second search, over the orders that gates have in the stages that were
found first: what larger tiles bring together often runs together in smaller ones; and a third, over stages between
which qubits change places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qdist.plan.operations import Operation
from qdist.plan.stages.division import Tiles, cost_of, divided, shares_of, staged, sweeps_of
from qdist.plan.stages.moving import staged_moving
from qdist.plan.stages.target import Target

__all__ = ["Backward", "backward"]

_WORTH = 0.98
"""A smaller relative gain is within the error of the cost model."""
_WORTH_MOVING = 0.91
"""The same for stages between which qubits change places: of those that were to gain less, as many lost as gained."""
_PROMISING = 1.1
"""Times the least cost: from there on another order does not make up for it."""
_WORTH_ORDERS = 23
"""Index bits of a shard from which on a sweep takes longer than a search."""


@dataclass(frozen=True, slots=True)
class Backward:
    """The stages whose inverses undo a segment, in program order (the last is undone first), and their target."""

    target: Target
    stages: list[Tiles]


def backward(stages: Sequence[Tiles], num_bits: int, target: Target, support: int) -> Backward:
    """The plan that undoes stages planned for ``target``, on shards of ``num_bits`` bits.

    support: nonzero-support mask before the stages run: amplitudes whose index has a 1 outside of it are zero.
    """
    first, *others = target.backward()
    chosen = Backward(first, list(divided((s for s in stages), num_bits, first)) if first != target else list(stages))
    if num_bits <= target.tile or any(s.is_wide or len(s.close) > target.tile for s, _ in chosen.stages):
        return chosen
    operations = _operations(stages)
    least = sweeps_of(first, chosen.stages, num_bits, support)
    again = bool(others) and num_bits >= _WORTH_ORDERS
    found = {
        other: staged(operations, num_bits, other) for other in dict.fromkeys([first, *others] if again else others)
    }
    tried = [Backward(other, own) for other, own in found.items() if other in others]
    if again:
        costs = {other: sweeps_of(other, own, num_bits, support) for other, own in found.items()}
        for other in [other for other in found if other == first or costs[other] < _PROMISING * min(costs.values())]:
            tried += [Backward(other, staged(_operations(own), num_bits, other)) for own in found.values()]
    for plan in tried:
        needed = sweeps_of(plan.target, plan.stages, num_bits, support)
        if needed < _WORTH * least:
            chosen, least = plan, needed
    return _moving(chosen, list(found), num_bits, support) if again else chosen


def _moving(chosen: Backward, targets: list[Target], num_bits: int, support: int) -> Backward:
    """The stages of the targets between which qubits change places, if they cost less than the chosen ones."""
    best, least, worth = chosen, cost_of(chosen.target, chosen.stages, num_bits, support), _WORTH_MOVING
    for target in targets:
        plan = _moved(chosen, num_bits, target, support)
        if plan is not None and (cost := cost_of(target, plan.stages, num_bits, support)) < worth * least:
            best, least, worth = plan, cost, 1.0
    return best


def _moved(plan: Backward, num_bits: int, target: Target, support: int) -> Backward | None:
    """The plan's operations in stages for the target between which qubits change places; None where that cannot be
    planned, or saves no reading and writing."""
    if not target.moves_qubits:
        return None
    most = sum(shares_of((stage for stage, _ in plan.stages), num_bits, support))
    stages = staged_moving(_operations(plan.stages), num_bits, target, support, most)
    return None if stages is None else Backward(target, stages)


def _operations(stages: Sequence[Tiles]) -> list[Operation]:
    return [o for _, blocks in stages for block in blocks for o in block.operations]
