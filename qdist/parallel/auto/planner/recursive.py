"""Double recursion: the ranks are divided axis by axis, and for each axis the operations, the most work first.

Every operation takes, for the axis at hand, the split that costs least beside the splits of those neighbours that have
chosen before it (Wang et al., "Efficient and Systematic Partitioning of Large and Deep Neural Networks"). It looks at a
pair of operations at a time and never back, so it is quick on graphs where dynamic programming keeps too many states.
"""

from __future__ import annotations

from typing import Any

from qdist.parallel.auto.eager.capture import ANNOTATE
from qdist.parallel.auto.ir.graph import Graph, Operation, Value
from qdist.parallel.auto.ir.sharding_plan import ShardingPlan, starting_placements
from qdist.parallel.auto.placement.moves import gradient_of, wire_bytes
from qdist.parallel.auto.placement.placements import Partial, Placement, Replicate, Shard
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.auto.planner.step_cost import Machine
from qdist.parallel.auto.rules.forms import Split

__all__ = ["recursive"]


def recursive(graph: Graph, mesh: ProcessMesh, machine: Machine, given: dict[str, Any] | None = None) -> ShardingPlan:
    """A plan for a graph on a mesh.

    Args:
        graph: a captured graph; what is annotated in it stays as it is.
        mesh: the ProcessMesh; its axes are divided one after the other.
        machine: what a rank can do.
        given: placements by name of an input or parameter; the others are free.
    """
    plan = ShardingPlan(graph, mesh)
    starting_placements(plan, given or {})
    choice = _Choice(plan, machine)
    for axis in range(len(mesh.shape)):
        choice.divide(axis)
    for operation in graph.operations:
        plan.settle(operation, tuple(choice.splits.get(operation, ())))
    return plan


class _Choice:
    """The splits chosen so far, one list an operation."""

    def __init__(self, plan: ShardingPlan, machine: Machine) -> None:
        self.plan, self.machine = plan, machine
        self.operations = [op for op in plan.graph.operations if op.rule is not ANNOTATE]
        self.forms = {op: op.form() for op in self.operations}
        self.splits: dict[Operation, list[Split]] = {op: [] for op in self.operations}
        self.cut: dict[Operation, dict[str, int]] = {op: {} for op in self.operations}
        self.maker = {v: (op, i) for op in self.operations for i, v in enumerate(op.outputs)}
        self.takers: dict[Value, list[tuple[Operation, int]]] = {}
        for op in self.operations:
            for i, x in enumerate(op.inputs):
                if isinstance(x, Value):
                    self.takers.setdefault(x, []).append((op, i))

    def divide(self, axis: int) -> None:
        """Choose for one axis, the operations with most work first."""
        alone = {op: self.machine.computing(op, self.forms[op], (), ()) for op in self.operations}
        for operation in sorted(self.operations, key=lambda op: -alone[op]):
            split = self._best(operation, axis)
            self.cut[operation] = self.forms[operation].after(split, self.cut[operation], self.plan.mesh.shape[axis])
            self.splits[operation].append(split)

    def _best(self, operation: Operation, axis: int) -> Split:
        if operation.pinned is not None:
            return operation.pinned[axis]
        form, degree, cut = self.forms[operation], self.plan.mesh.shape[axis], self.cut[operation]
        equal = [
            split
            for split in form.splits(degree, cut)
            if split.label is None or form.sizes.get(split.label, 0) % (degree * cut.get(split.label, 1)) == 0
        ]
        return min(equal, key=lambda split: self._seconds(operation, split, axis))

    def _seconds(self, operation: Operation, split: Split, axis: int) -> float:
        """Of computing in this way, and of moving values from and to the neighbours that have chosen."""
        degrees = self.plan.mesh.shape[: axis + 1]
        seconds = self.machine.computing(operation, self.forms[operation], (*self.splits[operation], split), degrees)
        degree = degrees[axis]
        for i, x in enumerate(operation.inputs):
            if isinstance(x, Value):
                lying, needed = self._lying(x, axis), split.inputs[i]
                if lying is None and x.kind != "parameter" and split.label is not None and needed == Replicate():
                    # Whoever makes it is going to be cut as well, so it has to be gathered.
                    lying = Shard(0)
                # A parameter that is free lies as it is used.
                seconds += self._move(x, needed if lying is None else lying, needed, split.differs, degree)
        for value, placement in zip(operation.outputs, split.outputs):
            chosen = [(op, i) for op, i in self.takers.get(value, []) if len(self.splits[op]) > axis]
            for op, i in chosen:
                taker = self.splits[op][axis]
                seconds += self._move(value, placement, taker.inputs[i], taker.differs, degree)
            if not chosen and isinstance(placement, Partial):
                seconds += self._move(value, placement, Replicate(), False, degree)
        return seconds

    def _lying(self, value: Value, axis: int) -> Placement | None:
        """How a value lies along an axis, as far as that is decided."""
        if value in self.plan.placements:
            return self.plan.placements[value][axis]
        if value not in self.maker:
            return None
        operation, place = self.maker[value]
        if len(self.splits[operation]) <= axis:
            return None
        outputs = self.splits[operation][axis].outputs
        return outputs[place] if place < len(outputs) else outputs[0]

    def _move(self, value: Value, source: Placement, target: Placement, differs: bool, degree: int) -> float:
        there = wire_bytes(source, target, degree, value.nbytes)
        back = wire_bytes(gradient_of(target, differs), gradient_of(source), degree, value.nbytes) * value.needs_grad
        times = (there > 0) + (back > 0)
        return (there + back) / self.machine.bandwidth + times * self.machine.latency
