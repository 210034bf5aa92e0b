"""The splits of an operator for given placements of its inputs: greedily the cheapest, one mesh axis after the other.

What is sharded stays sharded: cutting it in another way or gathering it comes last. Then the bytes of the forward
pass decide, among them the all-reduce that a Partial output is going to need, and of equal ones those that are sent
later; then whether the output lies as somebody wants it; then as few new slices as possible; then the bytes of the
backward pass.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qdist.parallel.auto.placement.moves import gradient_of, wire_bytes
from qdist.parallel.auto.placement.placements import Partial, Placement, Replicate, Shard
from qdist.parallel.auto.rules.forms import Form, Split

__all__ = ["Operand", "choose", "inner_bytes", "outputs_of"]


@dataclass(frozen=True)
class Operand:
    """An input of an operator, as far as its way of running is concerned.

    Attributes:
        placements: one a mesh axis; None for a parameter that nobody has placed yet and that may lie in any way.
        nbytes: of the whole tensor.
        needs_grad: gradients travel back to it.
    """

    placements: tuple[Placement, ...] | None
    nbytes: int
    needs_grad: bool = False


def choose(
    form: Form,
    operands: Sequence[Operand],
    degrees: Sequence[int],
    itemsize: int,
    *,
    wanted: Sequence[Placement | None] | None = None,
    use_all: bool = False,
) -> tuple[Split, ...]:
    """One split for each mesh axis.

    Args:
        form: the operator's.
        operands: one for each input.
        degrees: ranks on each axis.
        itemsize: bytes of one number of the output.
        wanted: where the first output should lie, where somebody cares.
        use_all: leave no axis idle: cut something wherever the form allows it.
    """
    cut: dict[str, int] = {}
    chosen: list[Split] = []
    for axis, degree in enumerate(degrees):
        target = None if wanted is None else wanted[axis]
        splits = list(form.splits(degree, cut, _blocks(form, operands, axis, target)))
        if use_all and degree > 1 and any(s.label is not None for s in splits):
            splits = [s for s in splits if s.label is not None]

        def key(
            split: Split, axis: int = axis, target: Placement | None = target, cut: dict[str, int] = cut
        ) -> tuple[float, ...]:
            undone, forward, sliced, backward = _moving(split, operands, degrees, axis)
            produced = split.outputs[0]
            output = form.output_elements * itemsize / _cuts(chosen, degrees)
            forward += inner_bytes((*chosen, split), degrees, itemsize)
            if use_all:
                return undone, forward, cut.get(split.label or "", 1), backward
            unmet = target is not None and produced != target
            goal = target if target is not None else Replicate() if isinstance(produced, Partial) else produced
            later = wire_bytes(produced, goal, degrees[axis], output)
            return undone, forward + later, forward, unmet, sliced, backward

        best = min(splits, key=key)
        cut = form.after(best, cut, degree)
        chosen.append(best)
    return tuple(chosen)


def _blocks(form: Form, operands: Sequence[Operand], axis: int, wanted: Placement | None) -> Iterator[tuple[str, int]]:
    """Labels of which an input is cut in blocks, or the output is wanted so, and in how many."""
    places = [None if o.placements is None else o.placements[axis] for o in operands]
    for dims, place in zip((*form.inputs, form.outputs[0]), (*places, wanted)):
        if isinstance(place, Shard) and place.blocks > 1 and dims:
            label = dims[place.dim]
            if label is not None:
                yield label, place.blocks


def outputs_of(splits: Sequence[Split]) -> tuple[tuple[Placement, ...], ...]:
    """How each output lies: one placement a mesh axis."""
    return tuple(zip(*(split.outputs for split in splits)))


def _moving(
    split: Split, operands: Sequence[Operand], degrees: Sequence[int], axis: int
) -> tuple[float, float, int, float]:
    """(bytes that lose their cut, bytes forward, new slices, bytes backward) of moving the inputs."""
    undone = forward = backward = 0.0
    sliced = 0
    degree = degrees[axis]
    for operand, target in zip(operands, split.inputs):
        arriving = gradient_of(target, split.differs)
        if operand.placements is None:
            leaving = gradient_of(target)
            backward += wire_bytes(arriving, leaving, degree, operand.nbytes) * operand.needs_grad
            continue
        source = operand.placements[axis]
        others = (n for k, n in enumerate(degrees) if k != axis and isinstance(operand.placements[k], Shard))
        whole = operand.nbytes / math.prod(others)
        # A sum that is scattered has to be gathered again some day: count it as the whole all-reduce.
        honest = Replicate() if isinstance(source, Partial) and isinstance(target, Shard) else target
        forward += wire_bytes(source, honest, degree, whole)
        if isinstance(source, Shard) and source != target:
            undone += whole
        sliced += isinstance(source, Replicate) and isinstance(target, Shard)
        backward += wire_bytes(arriving, gradient_of(source), degree, whole) * operand.needs_grad
    return undone, forward, sliced, backward


def inner_bytes(splits: Sequence[Split], degrees: Sequence[int], itemsize: int) -> float:
    """Bytes that an operation itself sends while it runs in these ways, one a mesh axis."""
    total = 0.0
    for axis, split in enumerate(splits):
        others = math.prod(
            n for k, (other, n) in enumerate(zip(splits, degrees)) if k != axis and isinstance(other.outputs[0], Shard)
        )
        total += wire_bytes(Partial(), Replicate(), degrees[axis], split.inside * itemsize / others)
    return total


def _cuts(chosen: Sequence[Split], degrees: Sequence[int]) -> int:
    return math.prod(n for split, n in zip(chosen, degrees) if isinstance(split.outputs[0], Shard))
