"""ShardingPlan: how every operation of a graph is split over the mesh, and the placements of every value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from qdist.parallel.auto.eager.capture import ANNOTATE
from qdist.parallel.auto.eager.dist_tensor import DistTensor
from qdist.parallel.auto.ir.graph import Graph, Operation, Value
from qdist.parallel.auto.placement.placements import Partial, Placement, Replicate
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.auto.rules.choose import outputs_of
from qdist.parallel.auto.rules.forms import Split

__all__ = ["Need", "ShardingPlan", "needs_of", "starting_placements", "stored"]


class Need(NamedTuple):
    """A value as an operation needs it: its placements, and on which axes the ranks use it for different results."""

    value: Value
    placements: tuple[Placement, ...]
    differs: tuple[bool, ...]


@dataclass
class ShardingPlan:
    """What was decided for a graph on a mesh.

    Attributes:
        splits: one a mesh axis for every operation; annotations have none.
        placements: how every value lies when it is made; for a parameter, how it is stored.
    """

    graph: Graph
    mesh: ProcessMesh
    splits: dict[Operation, tuple[Split, ...]] = field(default_factory=dict)
    placements: dict[Value, tuple[Placement, ...]] = field(default_factory=dict)
    summed_later: frozenset[tuple[Value, int]] = frozenset()
    """Parameters, and mesh axes along which a rank's gradients of them stay its own terms of the sum: somebody adds up
    those of several passes at once."""

    def terms(self, value: Value, axis: int) -> bool:
        """Whether the gradients of a value along an axis are terms of a sum for each operation that takes it."""
        uses = [(s[axis], i) for op, s in self.splits.items() for i, x in enumerate(op.inputs) if x is value]
        whole = isinstance(self.placements[value][axis], Replicate)
        return whole and all(split.differs and isinstance(split.inputs[i], Replicate) for split, i in uses)

    @property
    def whole(self) -> tuple[Placement, ...]:
        """Replicate on every axis."""
        return (Replicate(),) * len(self.mesh.shape)

    def settle(self, operation: Operation, splits: tuple[Split, ...]) -> None:
        """Write down how an operation runs; inputs that nobody has placed lie as it wants them."""
        if operation.rule is ANNOTATE:
            target = operation.attributes["placements"]
            self.placements.setdefault(operation.inputs[0], target)
            self.placements[operation.outputs[0]] = target
            return
        self.splits[operation] = splits
        for i, x in enumerate(operation.inputs):
            if isinstance(x, Value) and x not in self.placements:
                self.placements[x] = stored([split.inputs[i] for split in splits])
        lying = outputs_of(splits)
        if len(lying) != len(operation.outputs):
            # An operation without an entry may have more outputs than its form says; all lie as the first.
            lying = lying[:1] * len(operation.outputs)
        self.placements.update(zip(operation.outputs, lying))


def stored(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    """How a parameter is stored that is used with these placements: whole, where it is one term of a sum."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in placements)


def needs_of(plan: ShardingPlan, operation: Operation) -> list[Need]:
    """How an operation wants the values that it takes."""
    if operation.rule is ANNOTATE:
        target = operation.attributes["placements"]
        return [Need(operation.inputs[0], target, (False,) * len(target))]
    splits = plan.splits[operation]
    needs = []
    for i, x in enumerate(operation.inputs):
        if isinstance(x, Value):
            target = tuple(split.inputs[i] for split in splits)
            # Only the gradients of whole inputs depend on what the other ranks do.
            differs = tuple(
                s.differs and x.needs_grad and isinstance(p, Replicate) and (x, axis) not in plan.summed_later
                for axis, (s, p) in enumerate(zip(splits, target))
            )
            needs.append(Need(x, target, differs))
    return needs


def starting_placements(plan: ShardingPlan, given: dict[str, Any]) -> None:
    """Place constants, the parameters that are sharded already, and inputs that are given or that nothing takes.

    Args:
        plan: a plan without placements.
        given: placements by name of an input or parameter.

    Raises:
        ValueError: for a parameter on another mesh.
    """
    for value in [*plan.graph.inputs, *plan.graph.parameters]:
        if value.name in given:
            plan.placements[value] = given[value.name]
    taken = {x for operation in plan.graph.operations for x in operation.inputs if isinstance(x, Value)}
    for value in plan.graph.inputs:
        if value not in taken:
            plan.placements.setdefault(value, plan.whole)
    for operation in plan.graph.operations:
        if operation.rule is ANNOTATE and operation.attributes["mesh"] != plan.mesh:
            raise ValueError(f"an annotation is on {operation.attributes['mesh']}, the graph runs on {plan.mesh}")
        for x in operation.inputs:
            if not isinstance(x, Value) or x.tensor is None:
                continue
            if isinstance(x.tensor, DistTensor):
                if x.tensor.mesh != plan.mesh:
                    raise ValueError(f"{x.name} is sharded on {x.tensor.mesh}, the graph runs on {plan.mesh}")
                plan.placements.setdefault(x, x.tensor.placements)
            elif x.kind == "constant":
                plan.placements[x] = plan.whole
