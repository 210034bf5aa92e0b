"""Which stages of a plan are the fastest: pairs of gates joined, other tiles, other orders, qubits that change places.

What stages take is told by the target (``Target.stage_cost``); of plans that are about as good the first stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from qdist.plan.operations import Operation
from qdist.plan.plan import Plan
from qdist.plan.rewrites.pairs import with_pairs_joined
from qdist.plan.stages.backward import Backward
from qdist.plan.stages.division import Tiles, cost_of, shares_of, staged, staged_cheaply, sweeps_of
from qdist.plan.stages.moving import staged_moving
from qdist.plan.stages.target import Target

__all__ = ["join_pairs", "stage_faster"]

_WORTH = 0.97
"""A smaller relative gain is within the error of the cost model."""
_WORTH_MOVING = 0.95
"""The same for stages between which qubits change places, whose plans differ more."""

_WORTH_JOINING = 0.85
"""The same for pairs joined: such plans took up to a third longer than they cost, beside others that did not, on x86
and an H200 alike."""

_AMPLITUDES_A_TRY = 10_000
"""Amplitudes that a sweep reads and writes in the time that a try takes for each operation: two to three microseconds
on Neoverse-N1."""


def join_pairs(plan: Plan, support: int) -> list[list[Tiles]] | None:
    """Gates on the same two qubits as one matrix each, where a segment costs less so. Returns the stages that were
    there before; None if nothing changed. support: as for ``cost_of``, of the first segment; exchanges bring in what
    may be anything."""
    bits, target = plan.shard_bits, plan.target
    apart = [segment.stages for segment in plan.segments]
    for k, segment in enumerate(plan.segments):
        joined = with_pairs_joined([o for stage, _ in segment.stages for o in stage.operations], bits)
        if joined is not None:
            found = staged(joined, bits, target, target.levels(bits))
            cost, before = (cost_of(target, stages, bits, -1 if k else support) for stages in (found, segment.stages))
            if cost < _WORTH_JOINING * before:
                segment.stages = found
    return None if all(segment.stages is own for segment, own in zip(plan.segments, apart)) else apart


def _in_order(stages: list[Tiles]) -> list[Operation]:
    """Operations in the order in which they run."""
    return [o for _, blocks in stages for block in blocks for o in block.operations]


class _Cost(NamedTuple):
    """Of stages: their sweeps, and these with their arithmetic, which is known less well."""

    sweeps: float
    all: float

    def is_less(self, other: _Cost, worth: float) -> bool:
        return self.sweeps < worth * other.sweeps and self.all <= other.all


class _Choice(NamedTuple):
    """Stages of a plan's segments, what they are for and what they cost; still: those that they were before qubits
    changed places between them, with their target."""

    target: Target
    stages: list[list[Tiles]]
    cost: _Cost
    still: tuple[Target, list[list[Tiles]]]


def stage_faster(plan: Plan, support: int, trained: bool, apart: list[list[Tiles]] | None) -> None:
    """The stages that cost least of those in the plan, of those that a search over schedules finds, and of what
    ``_faster`` makes of both. support: as for ``cost_of``, of the first segment; exchanges bring in what may be
    anything. trained: whether the circuit has parameters. apart: the same stages with no pairs joined, if that
    is a choice."""
    bits, target = plan.shard_bits, plan.target
    targets = (target, *target.forward(bits, trained))

    def best_of(stages: list[list[Tiles]]) -> _Choice:
        best = _faster(stages, bits, targets, support)
        if (searched := _searched(stages, bits, target, support)) is not None:
            found = _faster(searched, bits, targets, support)
            best = found if found.cost.all < _WORTH * best.cost.all else best
        return best

    best = best_of([segment.stages for segment in plan.segments])
    # Larger tiles, and qubits that change places, may bring more where nothing is joined.
    if apart is not None and len(targets) > 1:
        unjoined = best_of(apart)
        best = best if best.cost.all < _WORTH_JOINING * unjoined.cost.all else unjoined
    still, unmoved = best.still
    plan.target, plan.levels = best.target, (plan.levels[0], *best.target.levels(bits))
    for segment, own, plain in zip(plan.segments, best.stages, unmoved):
        segment.stages = own
        segment.still = None if own is plain else Backward(still, plain)


def _searched(stages: list[list[Tiles]], bits: int, target: Target, support: int) -> list[list[Tiles]] | None:
    """The same operations in the stages that a search over schedules finds, where they cost less; None if they never
    do. It takes about as long as one run, at most."""
    found = list(stages)
    for k, own in enumerate(stages):
        before = -1 if k else support
        operations = [o for stage, _ in own for o in stage.operations]
        cost = cost_of(target, own, bits, before)
        tries = min(target.tries(bits), int(cost * 2.0**bits / (_AMPLITUDES_A_TRY * max(1, len(operations)))))
        if tries > 1:
            cheaper = staged_cheaply(operations, bits, target, before, tries)
            if cost_of(target, cheaper, bits, before) < _WORTH * cost:
                found[k] = cheaper
    return None if all(own is before for own, before in zip(found, stages)) else found


def _faster(start: list[list[Tiles]], bits: int, targets: tuple[Target, ...], support: int) -> _Choice:
    """Stages for one of the targets, of which the first is that of the start, if they take less time, or those for an
    order in which another one runs the gates: what tiles of one size bring together often runs together in those of
    another; or stages between which qubits change places."""

    def cost(target: Target, stages: list[list[Tiles]]) -> _Cost:
        own = [(target, part, bits, -1 if k else support) for k, part in enumerate(stages)]
        sweeps = sum(sweeps_of(*one) for one in own)
        return _Cost(sweeps, sum(cost_of(*one) for one in own) if target.arithmetic_apart else sweeps)

    def planned(operations: Iterable[list[Operation]], target: Target) -> list[list[Tiles]]:
        return [staged(own, bits, target, target.levels(bits)) for own in operations]

    target, chosen = targets[0], start
    least = cost(target, chosen)
    if len(targets) == 1:
        return _Choice(target, chosen, least, (target, chosen))
    for other in targets[1:]:
        stages = planned(([o for stage, _ in own for o in stage.operations] for own in chosen), other)
        needed = cost(other, stages)
        if needed.is_less(least, _WORTH):
            target, chosen, least = other, stages, needed
    first = chosen
    for other in [other for other in targets if other != target]:
        again = planned(map(_in_order, planned(map(_in_order, first), other)), target)
        needed = cost(target, again)
        if needed.is_less(least, _WORTH):
            chosen, least = again, needed
    still, worth = (target, chosen), _WORTH_MOVING
    for other in targets:
        moving = _staged_moving(still[1], bits, other, support)
        if moving is not None and (needed := cost(other, moving)).is_less(least, worth):
            target, chosen, least, worth = other, moving, needed, 1.0
    return _Choice(target, chosen, least, still)


def _staged_moving(stages: list[list[Tiles]], bits: int, target: Target, support: int) -> list[list[Tiles]] | None:
    """Stages of the segments' operations between which qubits change places; None where that cannot be planned, or
    saves no reading and writing in one of them."""
    if not target.moves_qubits:
        return None
    moving = []
    for k, own in enumerate(stages):
        before = -1 if k else support
        most = sum(shares_of((stage for stage, _ in own), bits, before))
        found = staged_moving(_in_order(own), bits, target, before, most)
        if found is None:
            return None
        moving.append(found)
    return moving
