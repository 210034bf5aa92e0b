"""The cost of a plan: seconds of a training step and bytes of memory, of one rank."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from qdist.parallel.auto.eager.capture import ANNOTATE
from qdist.parallel.auto.ir.graph import Operation, Value
from qdist.parallel.auto.ir.lower import Move, lower, sent_bytes
from qdist.parallel.auto.ir.sharding_plan import ShardingPlan
from qdist.parallel.auto.placement.moves import wire_bytes
from qdist.parallel.auto.placement.placements import Placement, Shard
from qdist.parallel.auto.placement.reshard import reshard_steps
from qdist.parallel.auto.rules.choose import inner_bytes
from qdist.parallel.auto.rules.forms import Form, Split

__all__ = ["Cost", "Machine", "cost_of"]


@dataclass(frozen=True)
class Machine:
    """What one rank can do. The defaults are a core and a half of a common server, over shared memory.

    Attributes:
        flops: floating-point operations a second.
        bandwidth: bytes a second that a rank sends.
        latency: seconds that a collective takes before the first byte.
        stream: bytes a second that it reads and writes in memory, as the optimiser does.
        memory: bytes that a rank may use; None for no limit.
        state: arrays that the optimiser keeps for each parameter, in its size (2 for Adam).
    """

    flops: float = 5e10
    bandwidth: float = 2e9
    latency: float = 2e-5
    stream: float = 1e10
    memory: float | None = None
    state: int = 1

    def __post_init__(self) -> None:
        for name in ("flops", "bandwidth", "stream"):
            if getattr(self, name) <= 0:
                raise ValueError(f"Machine: {name} must be positive, got {getattr(self, name)}")
        if self.latency < 0 or self.state < 0:
            raise ValueError(f"Machine: latency={self.latency} and state={self.state} must not be negative")

    def moving(
        self,
        nbytes: float,
        degrees: tuple[int, ...],
        source: tuple[Placement, ...],
        target: tuple[Placement, ...],
        differs: tuple[bool, ...],
        needs_grad: bool,
    ) -> float:
        """Seconds to reshard a tensor of `nbytes` in all, forward and backward."""
        sent, times = _traffic(degrees, source, target, differs, needs_grad)
        return sent * nbytes / self.bandwidth + times * self.latency

    def computing(self, operation: Operation, form: Form, splits: Sequence[Split], degrees: Sequence[int]) -> float:
        """Seconds of one rank for an operation, forward and backward, with what it sends itself."""
        ranks = math.prod(n for split, n in zip(splits, degrees) if split.label is not None)
        # The backward pass multiplies twice: once for each factor's gradient.
        passes = 1 + sum(isinstance(x, Value) and x.needs_grad for x in operation.inputs)
        inner = inner_bytes(splits, degrees, operation.outputs[0].dtype.itemsize)
        return (
            passes * _flops(operation, form) / ranks / self.flops + inner / self.bandwidth + self.latency * (inner > 0)
        )

    def updating(self, nbytes: float) -> float:
        """Seconds of an optimiser's step for `nbytes` of parameters: they and their state are read and written."""
        return (3 + 2 * self.state) * nbytes / self.stream


@dataclass(frozen=True)
class Cost:
    """What a plan costs one rank: seconds of a step, bytes sent, and bytes of memory."""

    compute: float
    communication: float
    sent: float
    parameters: float
    """Bytes of parameters with their gradients and optimiser state."""
    activations: float
    """Bytes of results that the backward pass needs, all of them counted."""

    @property
    def seconds(self) -> float:
        """Of computing and communicating, which do not overlap."""
        return self.compute + self.communication

    @property
    def memory(self) -> float:
        """Bytes of parameters and activations together."""
        return self.parameters + self.activations


def cost_of(plan: ShardingPlan, machine: Machine) -> Cost:
    """The predicted cost of one training step."""
    degrees = plan.mesh.shape
    compute = communication = activations = 0.0
    for operation in plan.graph.operations:
        if operation.rule is not ANNOTATE:
            compute += machine.computing(operation, operation.form(), plan.splits[operation], degrees)
        activations += sum(share(v, plan.placements[v], degrees) for v in operation.outputs if v.needs_grad)
    for move in lower(plan):
        if isinstance(move, Move):
            value, target = move.target.value, move.target
            communication += machine.moving(
                value.nbytes, degrees, move.source.placements, target.placements, target.differs, value.needs_grad
            )
    parameters = sum(share(v, plan.placements[v], degrees) for v in plan.graph.parameters)
    compute += machine.updating(parameters)
    return Cost(compute, communication, sum(sent_bytes(plan)), parameters * (2 + machine.state), activations)


def share(value: Value, placements: Sequence[Placement], degrees: Sequence[int]) -> float:
    """Bytes of a value on one rank."""
    return value.nbytes / math.prod(n for p, n in zip(placements, degrees) if isinstance(p, Shard))


@cache
def _traffic(
    degrees: tuple[int, ...],
    source: tuple[Placement, ...],
    target: tuple[Placement, ...],
    differs: tuple[bool, ...],
    needs_grad: bool,
) -> tuple[float, int]:
    """(bytes sent for each byte of the tensor, number of collectives) of a resharding, there and back."""
    sent, times = 0.0, 0
    for step in reshard_steps(source, target, differs):
        others = (n for k, n in enumerate(degrees) if k != step.axis and isinstance(step.before[k], Shard))
        whole = 1 / math.prod(others)
        ways = [(step.source, step.target)] + [(step.gradient_source, step.gradient_target)] * needs_grad
        for way in ways:
            wire = wire_bytes(*way, degrees[step.axis], whole)
            sent += wire
            times += wire > 0
    return sent, times


def _flops(operation: Operation, form: Form) -> float:
    """Floating-point operations of the forward pass, on one rank alone."""
    shapes = [x.shape for x in operation.inputs if isinstance(x, Value)]
    if operation.rule.name == "attention":
        return 4.0 * math.prod(shapes[0]) * shapes[1][-2]
    if operation.rule.name == "conv2d":
        return 2.0 * math.prod(operation.outputs[0].shape) * math.prod(shapes[1][1:])
    if form.product:
        return 2.0 * math.prod(form.sizes.values())
    return float(max(math.prod(s) for s in (*shapes, operation.outputs[0].shape)))
