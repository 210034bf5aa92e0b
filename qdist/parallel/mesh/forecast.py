"""What a model is going to take of each rank's memory on a mesh, without the mesh: from shapes, in one process."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from qdist.comm import Mesh, counting_communicator
from qdist.nn import Module, Parameter
from qdist.optim import Optimizer
from qdist.parallel.activation_memory import frozen_arrays, saved_bytes
from qdist.parallel.loss_terms import Loss, loss_terms
from qdist.parallel.mesh.divide import divide
from qdist.parallel.mesh.memory import Memory
from qdist.parallel.mesh.mesh_plan import Plan
from qdist.parallel.mesh.mixed_precision import check_masters
from qdist.parallel.mesh.stage_source import fitting, stage_source
from qdist.parallel.pipeline.executor import Stage
from qdist.parallel.pipeline.graph.recording import with_some_values
from qdist.parallel.pipeline.micro_batches import cut_by_count
from qdist.parallel.pipeline.schedules import FORWARD, make_schedule
from qdist.parallel.pipeline.stages import Draws, as_tuple
from qdist.parallel.recompute import recompute
from qdist.parallel.replica.buckets import arrange
from qdist.parallel.sequence.context import shard_sequence
from qdist.parallel.sequence.positions import positions_of
from qdist.parallel.zero.sharded_model import bucket_bytes_of, rounds
from qdist.tensor import Tensor, computing_in, enable_grad, random
from qdist.tensor.arrays import is_inexact

__all__ = ["forecast_memory"]


def forecast_memory(
    model: Module,
    shape: Mapping[str, int],
    plan: Plan | None = None,
    *,
    optimizer: Callable[[Iterable[Any]], Optimizer],
    loss: Loss,
    inputs: Any,
    targets: Any,
) -> list[Memory]:
    """The bytes that each rank of a mesh is going to have, as `ParallelModel.memory()` counts them after a step.

    Args:
        model: as `parallelize` takes it; it stays as it is. Built inside nn.deferred() it needs no memory of its own.
        shape: the degrees of the mesh: {"dp": 2, "pp": 4}.
        plan, optimizer, loss: as `parallelize` takes them. The optimiser is made for a number or two, to learn what it
            keeps.
        inputs, targets: a batch of one rank of "dp", of any values: passes over one and over two of its rows (with "cp"
            over two and over three) tell what all of them keep, since what a row keeps does not depend on others.

    Raises ValueError for a model, a mesh and a plan that do not fit.

    No more memory is needed than for one rank's part of the parameters and the activations of two rows, or three.

    >>> for rank, memory in enumerate(forecast_memory(model, {"dp": 2, "pp": 2}, plan, optimizer=make, ...)):
    ...     print(rank, memory)
    """
    plan = plan or Plan()
    mesh = Mesh(counting_communicator(math.prod(shape.values())), **shape)
    plan.check(mesh)
    check_masters(plan, model)
    light = _light_copy(model)
    with with_some_values(list(light.parameters())):
        return _forecast(light, mesh, plan, optimizer, loss, inputs, targets)


def _forecast(
    model: Module, mesh: Mesh, plan: Plan, make: Callable[..., Optimizer], loss: Loss, inputs: Any, targets: Any
) -> list[Memory]:
    degree = mesh.shape.get
    ranks, staged = degree("pp", 1), degree("pp", 1) > 1
    names = fitting(model, plan.recompute)
    # A rank's positions of one row are in one piece, and those of more are not: layers and losses may copy them.
    few = 1 if degree("cp", 1) == 1 else 2
    rows = [tuple(_rows(part, few + 1) for part in as_tuple(given)) for given in (inputs, targets)]
    source = stage_source(model, mesh, plan, names, rows[0]) if staged else None
    model = divide(model, mesh, plan)
    for name, module in list(model.named_modules()):
        if name in names:
            recompute(module)
    count = len(as_tuple(inputs)[0])
    slots = make([Parameter(np.zeros(1), dtype=np.float64)]).slots
    replicas = degree("dp", 1) * degree("cp", 1)

    def held(holders: list[Module]) -> list[list[tuple[int, int, int]]]:
        found = [[_held(holder, plan, replicas, place, slots) for place in range(replicas)] for holder in holders]
        _round(model, plan)  # As the model runs with them.
        return found

    if source is None:
        parts = held([model])
        frozen = frozen_arrays(model)
        kept = [_linear(lambda n: _passes([model], rows, n, mesh, plan, loss, frozen), count, few)[0]]
    else:
        source = source.divided(model)
        cut = source.cut(source.sizes, range(len(source.sizes)))
        own = [range(rank, len(source.sizes), ranks) for rank in range(ranks)]
        parts = held([cut.holder(list(numbers)) for numbers in own])
        frozen = frozen_arrays(cut.whole)
        cut.take(cut.whole)
        stages = [cut.stage(number) for number in range(len(source.sizes))]
        model.train()
        for stage in stages:
            stage.train(True)
            stage.around = lambda x: _computing(plan)
        kept = _peaks(plan, ranks, count, few, lambda n: _passes(stages, rows, n, mesh, plan, loss, frozen))
    found = []
    for rank in range(mesh.comm.size):
        at = dict(zip(mesh.shape, (int(i) for i in np.unravel_index(rank, tuple(mesh.shape.values())))))
        along = [axis for axis in mesh.shape if axis in ("dp", "cp")]
        place = int(np.ravel_multi_index([at[a] for a in along], [mesh.shape[a] for a in along])) if along else 0
        line = at.get("pp", 0)
        parameters, gradients, state = parts[line][place]
        found.append(Memory(parameters, gradients, state, kept[line]))
    return found


def _light_copy(model: Module) -> Module:
    """A copy whose parameters are there but take no memory."""
    memo: dict[int, Any] = {}
    for p in model.parameters():
        if not p.deferred:
            some = np.full((), 1 / max(1.0, math.sqrt(p.shape[-1] if p.shape else 1)), p.dtype)
            memo[id(p._data)] = np.broadcast_to(some, p.shape)
    return copy.deepcopy(model, memo)


def _rows(given: Any, count: int) -> Tensor:
    array = given.numpy() if isinstance(given, Tensor) else np.asarray(given)
    return Tensor(array[:count])


# Parameters, gradients and the optimiser's state ---------------------------------------------------------------------


def _held(module: Module, plan: Plan, replicas: int, place: int, slots: tuple[str, ...]) -> tuple[int, int, int]:
    """(parameters, gradients, optimiser) of the rank at `place` among those with the same parameters."""
    buffers = sum(buffer.nbytes for buffer in module.buffers())
    everything = list(module.parameters())
    trained = [p for p in everything if p.requires_grad]
    whole = sum(p.nbytes for p in everything)
    zero = plan.zero
    if not zero or not trained:
        graded = sum(p.nbytes for p in trained)
        return buffers + whole, graded, len(slots) * graded
    held = buffers + _frozen([p for p in everything if not p.requires_grad], plan, replicas)
    gradients = state = 0
    for units in _units(module, trained, zero):
        elements = sum(p.size for p in units)
        length, size, stored = -(-elements // replicas), units[0].dtype.itemsize, _itemsize(units[0], plan)
        held += length * stored * (1 if zero == 3 else replicas) + (length * size if stored < size else 0)
        gradients += length * size if zero > 1 else sum(p.nbytes for p in units)
        state += len(slots) * size * min(max(elements - place * length, 0), length)
    return held, gradients, state


def _frozen(parameters: list[Parameter], plan: Plan, replicas: int) -> int:
    """Of parameters that are not trained: whole, and in half precision beside a part of their own values."""
    rounded = [p for p in parameters if plan.half is not None and rounds(p)]
    held = sum(p.nbytes for p in parameters) - sum(p.nbytes for p in rounded)
    for group in arrange(reversed(rounded)):
        length = -(-sum(p.size for p in group) // replicas)
        held += length * (replicas * _itemsize(group[0], plan) + group[0].dtype.itemsize)
    return held


def _itemsize(parameter: Parameter, plan: Plan) -> int:
    """Bytes of a number of a parameter as ZeRO has the model use it."""
    return plan.half.itemsize if plan.half is not None and rounds(parameter) else parameter.dtype.itemsize


def _round(model: Module, plan: Plan) -> None:
    """Have parameters in half precision, where ZeRO does."""
    for p in model.parameters() if plan.half is not None and plan.zero else ():
        if rounds(p):
            p.data = np.broadcast_to(np.ones((), plan.half), p.shape)


def _units(module: Module, trained: list[Parameter], zero: int) -> Iterable[list[Any]]:
    """The parameters that ZeRO puts together."""
    if zero < 3:
        return arrange(reversed(trained), bucket_bytes_of(module, zero))
    seen: set[int] = set()
    groups = []
    for each in module.modules():
        own = [p for p in each._parameters.values() if p is not None and p.requires_grad and id(p) not in seen]
        seen |= {id(p) for p in own}
        groups += arrange(own, bucket_bytes=sum(p.nbytes for p in own)) if own else []
    return groups


# Activations ---------------------------------------------------------------------------------------------------------


def _linear(kept: Callable[[int], list[int]], count: int, few: int) -> list[int]:
    """What `count` rows keep, from what `few` and one more of them do."""
    if count <= few:
        return kept(count)
    return [first + (count - few) * (second - first) for first, second in zip(kept(few), kept(few + 1))]


def _peaks(plan: Plan, ranks: int, count: int, few: int, kept: Callable[[int], list[int]]) -> list[int]:
    """The most bytes that wait for backward passes on each rank of a pipeline, by its schedule."""
    bounds = cut_by_count(count, plan.micro_batches)
    schedule = make_schedule(plan.schedule, ranks, len(bounds), plan.virtual_stages)
    sizes = {rows: _linear(kept, rows, few) for rows in {len(part) for part in bounds}}
    peaks = []
    for actions in schedule.actions:
        now = peak = 0
        for action in actions:
            saved = sizes[len(bounds[action.micro_batch])][action.stage]
            now += saved if action.kind == FORWARD else -saved
            peak = max(peak, now)
        peaks.append(peak)
    return peaks


def _passes(
    parts: list[Any],
    rows: list[tuple[Tensor, ...]],
    count: int,
    mesh: Mesh,
    plan: Plan,
    loss: Loss,
    frozen: list[Any],
) -> list[int]:
    """Bytes that each part of the model keeps of a pass over so many rows, one part after the other, besides what of
    the model is not trained."""
    context = mesh.shape.get("cp", 1)
    values, goals = (tuple(Tensor(x._data[:count]) for x in given) for given in rows)
    if context > 1:
        values, goals = (tuple(shard_sequence(x, mesh["cp"]) for x in given) for given in (values, goals))
    besides = [*(x._data for x in (*values, *goals)), *frozen]
    length = values[0].shape[1] if values[0].ndim > 1 else 0
    positions = positions_of(mesh["cp"].rank, context, length * context) if context > 1 else None
    if context == 1 and plan.sequence_parallel and length:
        positions = np.arange(length)
    draws = Draws((0, 0), 0, (0, count, count), positions)
    known: list[Any] = []
    found = []
    with enable_grad():
        for number, part in enumerate(parts):
            if isinstance(part, Stage):
                outputs = part.run(draws, known, *values)
                known = part.noted
            else:
                with random.placed(draws.place()), _computing(plan):
                    outputs = as_tuple(part(*values))
            if number == len(parts) - 1:
                output, targets = (x[0] if len(x) == 1 else x for x in (outputs, goals))
                reduction = getattr(loss, "reduction", "mean")
                outputs = (loss_terms(loss, output, targets, count, reduction).value,)
            found.append(saved_bytes(*outputs, besides=besides))
            # As a message has it: memory of its own.
            values = tuple(Tensor(x._data.copy(), x.requires_grad and is_inexact(x.dtype)) for x in outputs)
    return found


def _computing(plan: Plan) -> AbstractContextManager[None]:
    return nullcontext() if plan.half is None else computing_in(plan.half)
