"""Automatic mode: dynamic programming over the placements of a captured graph.

Operations are taken in order. A state is the placements of the live values, those that later operations still need; for
every state the cheapest splits that lead to it are kept. That is exact as long as no more states come up than the beam
is wide, which holds for chains of layers and residual nets. Memory has a price, raised until the plan fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from qdist.parallel.auto.eager.capture import ANNOTATE
from qdist.parallel.auto.eager.dist_tensor import DistTensor
from qdist.parallel.auto.ir.graph import Graph, Operation, Value
from qdist.parallel.auto.ir.sharding_plan import Need, ShardingPlan, needs_of, starting_placements
from qdist.parallel.auto.placement.placements import Placement
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.auto.planner.blocks import block_choices
from qdist.parallel.auto.planner.propagation import data_parallel, propagate
from qdist.parallel.auto.planner.step_cost import Machine, cost_of, share
from qdist.parallel.auto.rules.forms import Split

__all__ = ["search"]

_Places = dict[Value, tuple[Placement, ...]]


class _Way(NamedTuple):
    """One way to run an operation, with all of its cost that does not depend on how its inputs lie."""

    splits: tuple[Split, ...]
    needs: tuple[Need, ...]
    placed: _Places
    """How its outputs lie, and those of its inputs that nobody has placed yet."""
    cost: float


class _State(NamedTuple):
    """The cheapest splits so far that leave the live values, those still needed, in certain placements."""

    cost: float
    before: _State | None
    splits: tuple[Split, ...]


def search(
    graph: Graph, mesh: ProcessMesh, machine: Machine, given: dict[str, Any] | None = None, *, beam: int = 64
) -> ShardingPlan:
    """The plan with the fewest predicted seconds that fits into memory; never slower than pure data parallelism
    by the machine's own prediction, as long as that fits and there is a row for every rank.

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
    if not given and not _annotated(graph):
        plans += [data_parallel(graph, mesh)] * _has_rows(graph, mesh.size) + [propagate(graph, mesh)]
    limit = machine.memory
    price = 1 / machine.bandwidth / 16
    while limit is not None and all(cost_of(p, machine).memory > limit for p in plans) and price < 1:
        plans.append(_searched(graph, mesh, machine, given, beam, price))
        price *= 16
    fitting = [p for p in plans if limit is None or cost_of(p, machine).memory <= limit]
    if not fitting:
        least = min(cost_of(p, machine).memory for p in plans)
        raise MemoryError(
            f"no plan found for {mesh} needs less than {least / 2**20:.1f} MiB on a rank, and "
            f"{(limit or 0) / 2**20:.1f} are allowed; use more ranks or a smaller batch"
        )
    return min(fitting, key=lambda p: cost_of(p, machine).seconds)


def _has_rows(graph: Graph, ranks: int) -> bool:
    """Whether every rank gets a row of each input."""
    return all(value.shape[0] >= ranks for value in graph.inputs if value.shape)


def _annotated(graph: Graph) -> bool:
    """Whether the user placed anything."""
    placed = any(isinstance(value.tensor, DistTensor) for value in graph.parameters)
    return placed or any(op.rule is ANNOTATE or op.pinned is not None for op in graph.operations)


def _searched(
    graph: Graph, mesh: ProcessMesh, machine: Machine, given: dict[str, Any], beam: int, price: float
) -> ShardingPlan:
    plan = ShardingPlan(graph, mesh)
    starting_placements(plan, given)
    last = {x: i for i, op in enumerate(graph.operations) for x in op.inputs if isinstance(x, Value)}
    seconds = _Moving(machine, mesh.shape)
    blocks = block_choices(graph)
    # All states know the same values: those that were placed and are still needed.
    live = [v for v in plan.placements if v in last]
    states = {tuple(plan.placements[v] for v in live): _State(0.0, None, ())}
    for index, operation in enumerate(graph.operations):
        known = set(live)
        ways = [
            _way(operation, splits, known, mesh, machine, price) for splits in _ways(operation, mesh, blocks[operation])
        ]
        after = [v for v in (*live, *ways[0].placed) if last.get(v, -1) > index]
        best: dict[tuple[Any, ...], _State] = {}
        for key, state in states.items():
            places = dict(zip(live, key))
            for way in ways:
                cost = state.cost + way.cost
                for need in way.needs:
                    cost += seconds(places.get(need.value) or way.placed[need.value], need)
                lying = tuple(places.get(v) or way.placed[v] for v in after)
                if lying not in best or cost < best[lying].cost:
                    best[lying] = _State(cost, state, way.splits)
        live = after
        states = dict(sorted(best.items(), key=lambda item: item[1].cost)[:beam])
    for operation, splits in zip(graph.operations, _path(min(states.values(), key=lambda s: s.cost)), strict=True):
        plan.settle(operation, splits)
    return plan


def _way(
    operation: Operation,
    splits: tuple[Split, ...],
    known: set[Value],
    mesh: ProcessMesh,
    machine: Machine,
    price: float,
) -> _Way:
    local = ShardingPlan(Graph([operation]), mesh)
    local.settle(operation, splits)
    placed = {v: p for v, p in local.placements.items() if v not in known}
    cost = 0.0
    if operation.rule is not ANNOTATE:
        cost += machine.computing(operation, operation.form(), splits, mesh.shape)
    for value, lying in placed.items():
        own = share(value, lying, mesh.shape)
        if value.kind == "parameter":
            cost += machine.updating(own) + price * (2 + machine.state) * own
        else:
            cost += price * value.needs_grad * own
    return _Way(splits, tuple(dict.fromkeys(needs_of(local, operation))), placed, cost)


class _Moving:
    """Seconds to bring a value from how it lies to how it is needed; each pair is worked out once."""

    def __init__(self, machine: Machine, degrees: tuple[int, ...]) -> None:
        self.machine, self.degrees = machine, degrees
        self.known: dict[Any, float] = {}

    def __call__(self, lying: tuple[Placement, ...], need: Need) -> float:
        key = lying, need
        if key not in self.known:
            value = need.value
            self.known[key] = self.machine.moving(
                value.nbytes, self.degrees, lying, need.placements, need.differs, value.needs_grad
            )
        return self.known[key]


def _ways(operation: Operation, mesh: ProcessMesh, blocks: set[tuple[str, int]]) -> Iterator[tuple[Split, ...]]:
    """All ways to run an operation on the mesh, with equal parts only; `blocks` as of Form.splits."""
    if operation.rule is ANNOTATE or operation.pinned is not None:
        yield operation.pinned or ()
        return
    form = operation.form()

    def extend(chosen: tuple[Split, ...], cut: dict[str, int]) -> Iterator[tuple[Split, ...]]:
        if len(chosen) == len(mesh.shape):
            yield chosen
            return
        degree = mesh.shape[len(chosen)]
        for split in form.splits(degree, cut, sorted(blocks)):
            more = form.after(split, cut, degree)
            length = form.sizes.get(split.label or "", 0)
            if split.label is None or split.blocks > 1 or length % more[split.label] == 0:
                yield from extend((*chosen, split), more)

    yield from extend((), {})


def _path(state: _State) -> list[tuple[Split, ...]]:
    path = []
    while state.before is not None:
        path.append(state.splits)
        state = state.before
    return path[::-1]
