"""Recording: one pass over an example, and the steps that the forward code takes in it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from qdist.nn import DeferredParameter, Module, Parameter
from qdist.parallel.pipeline.flops import counting_flops
from qdist.parallel.pipeline.graph.structures import described, mapped, tensors_in
from qdist.parallel.pipeline.graph.traced import Pass, Traced, passing
from qdist.tensor import Tensor, enable_grad, random

__all__ = ["Key", "Recording", "Step", "record", "with_some_values"]

Key = tuple[int, int]
"""A tensor: (number of the step that gives it, which of its tensors); step -1 gives the inputs."""


class Step(NamedTuple):
    """What the forward code does once: calls a module, reads a parameter, or runs an operation."""

    name: str
    """ "call blocks.0", "read wte.weight", "operation add"."""
    takes: frozenset[Key]
    flops: float
    seconds: float

    @property
    def kind(self) -> str:
        return self.name.partition(" ")[0]

    @property
    def of(self) -> str:
        """The name of the module, the parameter or the operation."""
        return self.name.partition(" ")[2]


class Recording(Pass):
    """A pass that runs every step and notes it."""

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.gives: frozenset[Key] = frozenset()
        """What the forward pass returns."""
        self.inputs: list[Key] = []

    def step(self, name: str, given: Any, compute: Callable[[Any], Any]) -> Any:
        takes = frozenset(x.key for x in tensors_in(given) if isinstance(x, Traced))
        plain = mapped(given, lambda x: x.value if isinstance(x, Traced) else x)
        with counting_flops() as count, passing(None):
            begin = time.perf_counter()
            made = compute(plain)
            seconds = time.perf_counter() - begin
        try:
            described(made)
        except TypeError as error:
            raise ValueError(
                f"the stages of a pipeline cut this model's forward pass, and {name.partition(' ')[2]!r} gives a "
                f"{error}: stages exchange Tensors, numbers, strings, None, and tuples, lists and dicts of them"
            ) from error
        self.steps.append(Step(name, takes, count.flops, seconds))
        return self.wrapped(made, len(self.steps) - 1)


def record(model: Module, example: tuple[Tensor, ...], training: bool, open_names: list[str]) -> Recording:
    """The steps of a forward pass of a model with stand-ins. It is left as it was, and nothing is drawn.

    Raises ValueError for code that cannot be cut into stages, naming it.
    """
    recording = Recording()
    recording.inputs = [(-1, place) for place in range(len(example))]
    modes = {id(module): module.training for module in model.modules()}
    owners = {name: _owner(model, name) for name in open_names}
    state, buffers = random.get_state(), _buffers(model)
    before = {name: {key: id(b) for key, b in module._buffers.items()} for name, module in owners.items()}
    versions = {id(b): b.version for module in owners.values() for b in module._buffers.values() if b is not None}
    model.train(training)
    try:
        with enable_grad(), passing(recording):
            made = model(*recording.wrapped(example, -1))
        _check_stateless(owners, before, versions)
    finally:
        for module in model.modules():
            module.training = modes[id(module)]
        random.set_state(state)
        for tensor, values in buffers:
            if not np.array_equal(tensor._data, values, equal_nan=tensor.dtype.kind in "fc"):
                tensor.assign(values)
    for tensor in tensors_in(made):
        if not isinstance(tensor, Traced):
            raise ValueError("the model gives a tensor that does not depend on its inputs or its parameters")
    recording.gives = frozenset(tensor.key for tensor in tensors_in(made))  # type: ignore[attr-defined]
    return recording


def _owner(model: Module, name: str) -> Module:
    found: Any = model
    for part in name.split(".") if name else ():
        found = found._modules[part]
    return found


def _buffers(model: Module) -> list[tuple[Tensor, Any]]:
    """All buffers with copies of their values; those behind stand-ins too."""
    found: dict[int, Tensor] = {}
    waiting: list[Module] = [model]
    while waiting:
        module = waiting.pop()
        waiting += [child for child in (*module.children(), module.__dict__.get("_inner")) if child is not None]
        found.update((id(b), b) for b in module._buffers.values() if b is not None)
    return [(buffer, buffer._data.copy()) for buffer in found.values()]


def _check_stateless(owners: dict[str, Module], before: dict[str, dict[str, int]], versions: dict[int, int]) -> None:
    """Raises ValueError where the code between modules keeps something for its next call."""
    for name, module in owners.items():
        full = f"{name}." if name else ""
        for key, buffer in module._buffers.items():
            if before[name].get(key) != id(buffer) or (buffer is not None and versions[id(buffer)] != buffer.version):
                raise ValueError(
                    f"the forward code between modules changes the buffer {full + key!r}, which every stage would do "
                    "for itself: put it, and the code that changes it, into a module of its own, which one stage runs"
                )
        for key, value in vars(module).items():
            if any(isinstance(tensor, Traced) for tensor in tensors_in(value)):
                delattr(module, key)
                raise ValueError(
                    f"the forward code between modules keeps a tensor in {full + key!r} for a later call, which would "
                    "be on one stage's rank alone: put this code into a module of its own, which one stage runs"
                )


@contextmanager
def with_some_values(parameters: list[Parameter]) -> Iterator[None]:
    """Within it, parameters that were built without values have some, which take no memory. Shared ones may be there
    more than once."""
    later = list({id(p): p for p in parameters if isinstance(p, DeferredParameter)}.values())
    kept = [dict(p.__dict__) for p in later]
    for p in later:
        some = np.full((), 1 / max(1.0, math.sqrt(p.shape[-1] if p.shape else 1)), p.dtype)
        p.become(np.broadcast_to(some, p.shape))
    try:
        yield
    finally:
        for p, before in zip(later, kept):
            p.__class__ = DeferredParameter  # type: ignore[assignment]
            p.__dict__.clear()
            p.__dict__.update(before)
