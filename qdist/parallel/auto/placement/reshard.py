"""Resharding over all axes of a mesh: the steps, their bytes, and the differentiable run of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from qdist.parallel.auto.placement.moves import gradient_of, move, wire_bytes
from qdist.parallel.auto.placement.placements import Placement, Replicate, Shard, cuts, local_shape
from qdist.tensor import Rule, Tensor, apply

__all__ = ["Step", "reshard_bytes", "reshard_local", "reshard_steps"]


class Step(NamedTuple):
    """One move along one mesh axis, and the move of the gradient on the way back."""

    axis: int
    source: Placement
    target: Placement
    gradient_source: Placement
    gradient_target: Placement
    before: tuple[Placement, ...]
    """The placements on all axes before the step."""


def reshard_steps(
    source: Sequence[Placement], target: Sequence[Placement], differs: Sequence[bool] | None = None
) -> list[Step]:
    """The moves that lead from one list of placements to another.

    An axis that cuts a dimension inside the cuts of an outer axis steps aside (is gathered) first when the outer
    one changes, since its parts would no longer be slices of the outer part.

    Args:
        source, target: one placement a mesh axis.
        differs: for each axis, whether its ranks go on to use the tensor each in its own way.
    """
    now = list(source)
    differs = [False] * len(now) if differs is None else list(differs)
    steps: list[Step] = []

    def go(axis: int, to: Placement, split: bool) -> None:
        back = gradient_of(to, split), gradient_of(now[axis])
        if now[axis] != to or back[0] != back[1]:
            steps.append(Step(axis, now[axis], to, *back, tuple(now)))
            now[axis] = to

    for axis in reversed(range(len(now))):
        here = source[axis]
        changed = (k for k in range(axis) if source[k] != target[k])
        if isinstance(here, Shard) and any(cuts(p, here.dim) for k in changed for p in (source[k], target[k])):
            go(axis, Replicate(), False)
    for axis in range(len(now)):
        here, there = now[axis], target[axis]
        if isinstance(here, Shard) and isinstance(there, Shard) and here != there and here.blocks + there.blocks > 2:
            go(axis, Replicate(), False)
        go(axis, target[axis], differs[axis])
    return steps


def reshard_bytes(
    nbytes: float,
    degrees: Sequence[int],
    source: Sequence[Placement],
    target: Sequence[Placement],
    differs: Sequence[bool] | None = None,
) -> tuple[float, float]:
    """Bytes that a rank sends forward and backward to reshard a tensor of `nbytes` in all."""
    forward = backward = 0.0
    for step in reshard_steps(source, target, differs):
        others = (n for k, n in enumerate(degrees) if k != step.axis and isinstance(step.before[k], Shard))
        whole = nbytes / math.prod(others)
        forward += wire_bytes(step.source, step.target, degrees[step.axis], whole)
        backward += wire_bytes(step.gradient_source, step.gradient_target, degrees[step.axis], whole)
    return forward, backward


def reshard_local(
    local: Tensor,
    mesh: Any,
    shape: tuple[int, ...],
    source: Sequence[Placement],
    target: Sequence[Placement],
    differs: Sequence[bool] | None = None,
) -> Tensor:
    """This rank's part after resharding a tensor of the global `shape`; gradients travel the conjugate way."""
    for step in reshard_steps(source, target, differs):
        if mesh.shape[step.axis] == 1 or (step.source == step.target and not local.requires_grad):
            continue
        others = [Replicate() if k == step.axis else p for k, p in enumerate(step.before)]
        whole = local_shape(shape, others, mesh.shape, mesh.place())
        local = apply(_RESHARD, local, comm=mesh.group(step.axis), step=step, whole=whole)
    return local


def _forward(xp: Any, x: Any, comm: Any, step: Step, whole: tuple[int, ...]) -> Any:
    return move(x, comm, step.source, step.target, whole), ()


def _vjp(xp: Any, g: Any, saved: Any, needs: Any, comm: Any, step: Step, whole: tuple[int, ...]) -> Any:
    return (move(g, comm, step.gradient_source, step.gradient_target, whole),)


_RESHARD = Rule("reshard", _forward, _vjp, view=True)
