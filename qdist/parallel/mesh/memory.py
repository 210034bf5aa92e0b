"""What a model on a mesh takes of each rank's memory, counted."""

from __future__ import annotations

from typing import Any, NamedTuple

from qdist.nn import Module, Parameter
from qdist.optim import Optimizer
from qdist.parallel.zero.sharded_model import Zero
from qdist.tensor import Tensor

__all__ = ["Memory", "count_memory"]


class Memory(NamedTuple):
    """Bytes of one rank between two steps, or at the end of a backward pass."""

    parameters: int
    """Values that stay here, buffers and float32 copies of half-precision parameters included."""
    gradients: int
    """From the end of a backward pass to the step."""
    optimizer: int
    """Its state."""
    activations: int
    """Kept for the backward pass of the last batch that was counted, without the batch itself; in a pipeline the most
    at one time. 0 before the first."""

    @property
    def total(self) -> int:
        return sum(self)

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {size / 2**20:.1f}" for name, size in self._asdict().items())
        return f"{self.total / 2**20:.1f} MiB ({parts})"


def count_memory(module: Module, optimizer: Optimizer | None, zero: Zero | None, activations: int) -> Memory:
    """Of this rank."""
    buffers = sum(buffer.nbytes for buffer in module.buffers())
    units = () if zero is None else (*zero.units, *zero.untrained)
    sharded = {id(p) for unit in units for p in unit.parameters}
    whole = [p for p in module.parameters() if id(p) not in sharded]
    parameters = buffers + sum(p.nbytes for p in whole)
    gradients = sum(p.nbytes for p in whole if p.requires_grad)
    for unit in units:
        held = unit.full if unit.keep and unit.full is not None else unit.own
        parameters += held.nbytes + (0 if unit.master is unit.own else unit.master.nbytes)
        # Stage 1 combines whole gradients at the step; from stage 2 on a rank keeps its part.
        own = unit.master.nbytes
        assert zero is not None
        if zero.stage > 1 and unit in zero.units:
            gradients += own
        else:
            gradients += sum(_gradient_bytes(p) for p in unit.parameters if p.requires_grad)
    return Memory(parameters, gradients, _state_bytes(optimizer), activations)


def _gradient_bytes(parameter: Parameter) -> int:
    return parameter.size * 4 if parameter.wide_gradient else parameter.nbytes


def _state_bytes(optimizer: Optimizer | None) -> int:
    if optimizer is None:
        return 0
    entries: list[Any] = [value for entry in optimizer.state_dict()["state"].values() for value in entry.values()]
    return sum(value.nbytes for value in entries if isinstance(value, Tensor))
