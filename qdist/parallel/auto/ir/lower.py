"""Lowering: a plan as a list of instructions with all communication written out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from qdist.parallel.auto.eager.capture import ANNOTATE
from qdist.parallel.auto.ir.graph import Operation, Value
from qdist.parallel.auto.ir.sharding_plan import Need, ShardingPlan, needs_of
from qdist.parallel.auto.placement.placements import Placement
from qdist.parallel.auto.placement.reshard import Step, reshard_bytes, reshard_steps
from qdist.parallel.auto.rules.choose import inner_bytes

__all__ = ["Compute", "Instruction", "Move", "given_by", "lower", "made", "sent_bytes", "taken_by"]


@dataclass(eq=False)
class Move:
    """Reshard a value: from how it lies to how somebody needs it."""

    source: Need
    target: Need
    steps: list[Step]


@dataclass(eq=False)
class Compute:
    """Run an operation on local parts."""

    operation: Operation
    inputs: tuple[Any, ...]
    """A Need or a Python number for each input."""
    outputs: tuple[Need, ...]


Instruction = Move | Compute


def lower(plan: ShardingPlan) -> list[Instruction]:
    """The instructions of a plan.

    A need is met once, however many operations have it. A value that was resharded and is needed as it lay before is
    taken from before. Moves that nobody needs are dropped.
    """
    instructions: list[Instruction] = []
    met: set[Need] = set()
    origin: dict[Value, Value] = {}

    def steps_to(value: Value, placements: tuple[Placement, ...], differs: Sequence[bool] | None = None) -> list[Step]:
        """The moves that really move: an axis with one rank has none."""
        steps = reshard_steps(plan.placements[value], placements, differs)
        return [step for step in steps if plan.mesh.shape[step.axis] > 1]

    def earliest(value: Value, placements: tuple[Placement, ...]) -> Value:
        """The first of those that `value` was resharded from that lies as needed; itself when none does."""
        found = value
        while value in origin:
            value = origin[value]
            found = found if steps_to(value, placements) else value
        return found

    def meet(need: Need) -> Need:
        need = Need(earliest(need.value, need.placements), need.placements, need.differs)
        steps = steps_to(*need)
        if not steps:
            return made(plan, need.value)
        if need not in met:
            met.add(need)
            instructions.append(Move(made(plan, need.value), need, steps))
        return need

    for operation in plan.graph.operations:
        needs = iter(needs_of(plan, operation))
        if operation.rule is ANNOTATE:
            result = operation.outputs[0]
            source = earliest(operation.inputs[0], plan.placements[result])
            origin[result] = source
            steps = steps_to(source, plan.placements[result])
            instructions.append(Move(made(plan, source), made(plan, result), steps))
            continue
        inputs = tuple(meet(next(needs)) if isinstance(x, Value) else x for x in operation.inputs)
        instructions.append(Compute(operation, inputs, tuple(made(plan, v) for v in operation.outputs)))
    return _without_dead_moves(plan, instructions)


def made(plan: ShardingPlan, value: Value) -> Need:
    """A value as it is when it is made."""
    placements = plan.placements[value]
    return Need(value, placements, (False,) * len(placements))


def _without_dead_moves(plan: ShardingPlan, instructions: list[Instruction]) -> list[Instruction]:
    wanted = {made(plan, v) for v in plan.graph.results}
    kept: list[Instruction] = []
    for instruction in reversed(instructions):
        if isinstance(instruction, Move):
            if instruction.target not in wanted:
                continue
            wanted.add(instruction.source)
        else:
            wanted.update(x for x in instruction.inputs if isinstance(x, Need))
        kept.append(instruction)
    return kept[::-1]


def taken_by(instruction: Instruction) -> Iterator[Need]:
    """What an instruction takes."""
    if isinstance(instruction, Move):
        return iter((instruction.source,))
    return (x for x in instruction.inputs if isinstance(x, Need))


def given_by(instruction: Instruction) -> tuple[Need, ...]:
    """What an instruction makes."""
    return (instruction.target,) if isinstance(instruction, Move) else instruction.outputs


def sent_bytes(plan: ShardingPlan) -> tuple[float, float]:
    """Bytes that a rank sends in the forward and in the backward pass of a plan."""
    forward = backward = 0.0
    for instruction in lower(plan):
        if isinstance(instruction, Move):
            source, target = instruction.source, instruction.target
            value = target.value
            there, back = reshard_bytes(
                value.nbytes, plan.mesh.shape, source.placements, target.placements, target.differs
            )
            forward, backward = forward + there, backward + back * value.needs_grad
        else:
            operation = instruction.operation
            itemsize = operation.outputs[0].dtype.itemsize
            forward += inner_bytes(plan.splits[operation], plan.mesh.shape, itemsize)
    return forward, backward
