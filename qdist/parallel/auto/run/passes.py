"""Passes: what a Strategy changes in a plan or in the run of its program."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

from qdist.parallel.auto.ir.graph import Operation, Value
from qdist.parallel.auto.ir.lower import Compute, Instruction, Move
from qdist.parallel.auto.ir.sharding_plan import ShardingPlan
from qdist.parallel.auto.placement.placements import Placement, Replicate, Shard, cuts
from qdist.parallel.auto.run.strategy import Amp, Recompute, Sharding
from qdist.tensor import Tensor
from qdist.tensor.arrays import as_dtype, kind_of

__all__ = ["half_products", "segments_of", "shard_storage"]

_PRODUCTS = {"matmul", "linear", "einsum", "conv2d", "attention"}


def shard_storage(plan: ShardingPlan, sharding: Sharding, data_axis: int | None, whole: Collection[Value] = ()) -> None:
    """Store parameters that are whole along the sharding axis in slices; using them gathers, their gradients scatter.

    whole: parameters that stay as they are.

    Raises:
        ValueError: when the mesh has no axis of the degree asked for.
    """
    axis = data_axis
    if sharding.degree is not None and (axis is None or plan.mesh.shape[axis] != sharding.degree):
        axis = next((i for i, n in enumerate(plan.mesh.shape) if n == sharding.degree), None)
    if axis is None:
        missing = "no axis 'dp'" if sharding.degree is None else "no axis of that size"
        raise ValueError(
            f"sharding.degree={sharding.degree}: {plan.mesh} has {missing}; set sharding.degree to the size of an axis"
        )
    for value in plan.graph.parameters:
        if value in whole:
            continue
        lying = list(plan.placements[value])
        dim = _free_dim(value.shape, lying, plan.mesh.shape[axis])
        if isinstance(lying[axis], Replicate) and dim is not None:
            lying[axis] = Shard(dim)
            plan.placements[value] = tuple(lying)


def _free_dim(shape: Sequence[int], placements: Sequence[Placement], degree: int) -> int | None:
    """The first dimension that nobody cuts yet and that `degree` ranks divide."""
    for dim, n in enumerate(shape):
        if n % degree == 0 and not any(cuts(p, dim) for p in placements):
            return dim
    return None


def segments_of(
    recompute: Recompute, sharding: Sharding
) -> Callable[[list[Instruction]], list[list[Instruction]]] | None:
    """How the program is cut for recomputation; None where it is not."""
    if sharding.enable and sharding.stage == 3:
        return _by_use
    if not recompute.enable:
        return None

    def cut(instructions: list[Instruction]) -> list[list[Instruction]]:
        count = recompute.segments or math.isqrt(len(instructions)) or 1
        length = -(-len(instructions) // count)
        return [instructions[i : i + length] for i in range(0, len(instructions), length)]

    return cut


def _by_use(instructions: list[Instruction]) -> list[list[Instruction]]:
    """A segment for every operation, with the gathering of its parameters: they are freed after it."""
    segments: list[list[Instruction]] = []
    gathered: dict[Any, Move] = {}
    for instruction in instructions:
        if isinstance(instruction, Move) and instruction.source.value.kind == "parameter":
            gathered[instruction.target] = instruction
        elif isinstance(instruction, Compute):
            segments.append([gathered[x] for x in dict.fromkeys(instruction.inputs) if x in gathered] + [instruction])
        else:
            segments.append([instruction])
    return segments


def half_products(amp: Amp) -> Callable[[Operation, list[Any], Callable[[list[Any]], Any]], Any] | None:
    """Runs products in half precision and brings the result back; None when mixed precision is off."""
    if not amp.enable:
        return None
    half = as_dtype(amp.dtype)

    def around(operation: Operation, inputs: list[Any], run: Callable[[list[Any]], Any]) -> Any:
        if operation.rule.name not in _PRODUCTS:
            return run(inputs)
        dtype = next(x.dtype for x in inputs if isinstance(x, Tensor))
        cast = [x.to(half) if isinstance(x, Tensor) and kind_of(x.dtype) == "f" else x for x in inputs]
        return run(cast).to(dtype)

    return around
