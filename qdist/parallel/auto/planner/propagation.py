"""Sharding propagation: from the annotations of a few tensors and operators to a plan for the whole graph.

One sweep forward gives every operation the cheapest way for what it is given (see `choose`). A sweep back carries
wishes: what a later operation wants cut, an earlier one may as well produce cut. A second sweep forward grants them
where that sends fewer bytes in all.
"""

from __future__ import annotations

from typing import Any

from qdist.parallel.auto.eager.capture import ANNOTATE
from qdist.parallel.auto.ir.graph import Graph, Operation, Value
from qdist.parallel.auto.ir.lower import sent_bytes
from qdist.parallel.auto.ir.sharding_plan import ShardingPlan, needs_of, starting_placements
from qdist.parallel.auto.placement.placements import Placement, Replicate, Shard
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.auto.rules.choose import Operand, choose

__all__ = ["data_parallel", "propagate"]

_Wishes = dict[Value, list[Shard | None]]


def propagate(
    graph: Graph, mesh: ProcessMesh, given: dict[str, Any] | None = None, *, use_all: bool = False
) -> ShardingPlan:
    """A plan for a graph on a mesh.

    Args:
        graph: a captured graph; parameters that are DistTensors, pinned operators and annotations are kept to.
        mesh: the ProcessMesh.
        given: placements by name of an input or parameter. An input without lies whole on every rank; a parameter
            without is placed as its first user wants it.
        use_all: leave no mesh axis idle: cut something wherever an operation can.

    Raises:
        ValueError: for annotations on another mesh.
    """
    whole = (Replicate(),) * len(mesh.shape)
    given = {**{value.name: whole for value in graph.inputs}, **(given or {})}
    first = _forward(graph, mesh, given, use_all, {})
    wishes = _backward(first)
    second = _forward(graph, mesh, given, use_all, wishes)
    return second if not use_all and sum(sent_bytes(second)) < sum(sent_bytes(first)) else first


def _forward(graph: Graph, mesh: ProcessMesh, given: dict[str, Any], use_all: bool, wishes: _Wishes) -> ShardingPlan:
    plan = ShardingPlan(graph, mesh)
    starting_placements(plan, given)
    for operation in graph.operations:
        splits = operation.pinned or ()
        if operation.rule is not ANNOTATE and operation.pinned is None:
            operands = [_operand(plan, x) for x in operation.inputs]
            itemsize = operation.outputs[0].dtype.itemsize
            wanted = wishes.get(operation.outputs[0])
            splits = choose(operation.form(), operands, mesh.shape, itemsize, wanted=wanted, use_all=use_all)
        plan.settle(operation, splits)
    return plan


def _operand(plan: ShardingPlan, x: Any) -> Operand:
    if not isinstance(x, Value):
        return Operand(plan.whole, 0)
    return Operand(plan.placements.get(x), x.nbytes, x.needs_grad)


def _backward(plan: ShardingPlan) -> _Wishes:
    """What each result would best be cut like, for those who use it."""
    wishes: _Wishes = {}

    def wish(value: Any, axis: int, placement: Placement) -> None:
        if isinstance(value, Value) and value.kind == "result" and isinstance(placement, Shard):
            entry = wishes.setdefault(value, [None] * len(plan.mesh.shape))
            entry[axis] = entry[axis] or placement

    for operation in reversed(plan.graph.operations):
        for need in needs_of(plan, operation):
            for axis, placement in enumerate(need.placements):
                if placement != plan.placements[need.value][axis]:
                    wish(need.value, axis, placement)
        if operation.rule is ANNOTATE or operation.pinned is not None:
            continue
        granted = wishes.get(operation.outputs[0])
        if granted is not None:
            _pass_on(plan, operation, granted, wish)
    return wishes


def _pass_on(plan: ShardingPlan, operation: Operation, granted: list[Shard | None], wish: Any) -> None:
    """An operation that is wished cut wishes its own inputs cut."""
    form = operation.form()
    for axis, placement in enumerate(granted):
        # A form without dimensions for its output runs whole.
        if placement is None or not form.outputs[0]:
            continue
        label = form.outputs[0][placement.dim]
        blocks = [(label, placement.blocks)] if label is not None and placement.blocks > 1 else []
        for split in form.splits(plan.mesh.shape[axis], {}, blocks):
            if split.outputs[0] == placement:
                for x, target in zip(operation.inputs, split.inputs):
                    wish(x, axis, target)
                break


def data_parallel(graph: Graph, mesh: ProcessMesh) -> ShardingPlan:
    """The plan that cuts nothing but the rows of the inputs, over all ranks of the mesh."""
    rows, whole = (Shard(0),) * len(mesh.shape), (Replicate(),) * len(mesh.shape)
    given: dict[str, Any] = {value.name: rows if value.shape else whole for value in graph.inputs}
    given.update({value.name: whole for value in graph.parameters})
    return propagate(graph, mesh, given)
