"""Automatic mode: dynamic programming over the placements of a captured graph.

Operations are taken in order. A state is how the values lie that later operations still need; for every state the
cheapest way that leads to it is kept. That is exact as long as no more states come up than the beam is wide, which
holds for chains of layers and residual nets. Memory has a price, raised until the plan fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .capture import ANNOTATE
from .cost import Machine, cost_of, share
from .forms import Form, Split
from .graph import Graph, Operation, Value
from .placements import Placement
from .plan import Need, Plan, needs_of, starting_placements
from .process_mesh import ProcessMesh
from .propagate import data_parallel, propagate

__all__ = ["search"]

_Places = dict[Value, tuple[Placement, ...]]


@dataclass
class _State:
    cost: float
    live: _Places
    before: _State | None
    operation: Operation | None = None
    splits: tuple[Split, ...] = ()


def search(
    graph: Graph, mesh: ProcessMesh, machine: Machine, given: dict[str, Any] | None = None, *, beam: int = 96
) -> Plan:
    """The plan with the fewest predicted seconds that fits into memory; never slower than pure data parallelism
    by the machine's own prediction, as long as that fits.

    Args:
        graph: a captured graph; what is annotated in it stays as it is.
        mesh: the ProcessMesh.
        machine: what a rank can do.
        given: placements by name of an input or parameter; the others are free.
        beam: states kept after each operation.

    Raises:
        MemoryError: when no plan fits into `machine.memory`; the message has the smallest found.
    """
    given = given or {}
    plans = [_searched(graph, mesh, machine, given, beam, 0.0)]
    if not given:
        plans += [data_parallel(graph, mesh), propagate(graph, mesh)]
    limit = machine.memory
    price = 1 / machine.bandwidth / 16
    while limit is not None and all(cost_of(p, machine).memory > limit for p in plans) and price < 1:
        plans.append(_searched(graph, mesh, machine, given, beam, price))
        price *= 4
    fitting = [p for p in plans if limit is None or cost_of(p, machine).memory <= limit]
    if not fitting:
        least = min(cost_of(p, machine).memory for p in plans)
        raise MemoryError(
            f"no plan found for {mesh} needs less than {least / 2**20:.1f} MiB on a rank, and "
            f"{(limit or 0) / 2**20:.1f} are allowed; use more ranks or a smaller batch"
        )
    return min(fitting, key=lambda p: cost_of(p, machine).seconds)


def _searched(
    graph: Graph, mesh: ProcessMesh, machine: Machine, given: dict[str, Any], beam: int, price: float
) -> Plan:
    start = Plan(graph, mesh)
    starting_placements(start, given)
    last = {x: i for i, op in enumerate(graph.operations) for x in op.inputs if isinstance(x, Value)}
    states = [_State(0.0, dict(start.placements), None)]
    for index, operation in enumerate(graph.operations):
        best: dict[Any, _State] = {}
        ways = list(_ways(operation, mesh))
        for state in states:
            for form, splits in ways:
                after = _step(state, operation, form, splits, mesh, machine, price)
                after.live = {v: p for v, p in after.live.items() if last.get(v, -1) > index}
                key = tuple(sorted((id(v), str(p)) for v, p in after.live.items()))
                if key not in best or after.cost < best[key].cost:
                    best[key] = after
        states = sorted(best.values(), key=lambda s: s.cost)[:beam]
    plan = start
    for state in _path(min(states, key=lambda s: s.cost)):
        assert state.operation is not None
        plan.settle(state.operation, state.splits)
    return plan


def _ways(operation: Operation, mesh: ProcessMesh) -> Iterator[tuple[Form | None, tuple[Split, ...]]]:
    """All ways to run an operation on the mesh."""
    if operation.rule is ANNOTATE:
        yield None, ()
        return
    form = operation.form()
    if operation.pinned is not None:
        yield form, operation.pinned
        return

    def extend(chosen: tuple[Split, ...], cut: dict[str, int]) -> Iterator[tuple[Split, ...]]:
        if len(chosen) == len(mesh.shape):
            yield chosen
            return
        degree = mesh.shape[len(chosen)]
        for split in form.splits(degree, cut):
            label = split.label
            more = cut if label is None else {**cut, label: cut.get(label, 1) * degree}
            yield from extend((*chosen, split), more)

    for splits in extend((), {}):
        yield form, splits


def _step(
    state: _State,
    operation: Operation,
    form: Form | None,
    splits: tuple[Split, ...],
    mesh: ProcessMesh,
    machine: Machine,
    price: float,
) -> _State:
    local = Plan(Graph([operation]), mesh, {}, dict(state.live))
    fresh = [x for x in operation.inputs if isinstance(x, Value) and x not in state.live]
    local.settle(operation, splits)
    cost = state.cost
    if form is not None:
        cost += machine.computing(operation, form, splits, mesh.shape)
    for need in needs_of(local, operation):
        cost += _moving(local, need, machine)
    for value in fresh:
        cost += price * (2 + machine.state) * share(value, local.placements[value], mesh.shape)
    for value in operation.outputs:
        cost += price * value.needs_grad * share(value, local.placements[value], mesh.shape)
    return _State(cost, local.placements, state, operation, splits)


def _moving(plan: Plan, need: Need, machine: Machine) -> float:
    value, lying = need.value, plan.placements[need.value]
    return machine.moving(value.nbytes, plan.mesh.shape, lying, need.placements, need.differs, value.needs_grad)


def _path(state: _State) -> list[_State]:
    path = []
    while state.before is not None:
        path.append(state)
        state = state.before
    return path[::-1]
