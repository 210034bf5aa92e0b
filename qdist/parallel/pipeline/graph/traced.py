"""Traced tensors: what the code between modules sees, whether their values are on this rank or not.

The forward code of a model runs on every rank of a pipeline. All that it does with tensors are steps: a call of a
module, a read of a parameter, an operation. A `Pass` decides what becomes of each: it is run, or left to another
stage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local
from typing import Any, NoReturn

import numpy as np

from qdist.nn import Parameter
from qdist.parallel.pipeline.graph.structures import mapped
from qdist.tensor import Rule, Tensor, apply
from qdist.tensor.arrays import Array
from qdist.tensor.versions import Version

__all__ = ["Pass", "Traced", "current_pass", "passing"]


class Traced(Tensor):
    """A tensor in the code between modules: its shape and dtype, and its value where this rank has it."""

    def __init__(
        self,
        owner: Pass,
        key: tuple[int, int],
        value: Tensor | None,
        kind: tuple[tuple[int, ...], str, str, bool],
    ) -> None:
        self._pass, self.key, self.value = owner, key, value
        """key: (number of the step that made it, which of its tensors); -1 is the step that gives the inputs."""
        self._shape, self._dtype, self._device = kind[0], np.dtype(kind[1]), kind[2]
        self.requires_grad = kind[3]
        self._version = Version()

    def dispatch(self, rule: Rule, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:  # type: ignore[override]
        return self._pass.operation(rule, inputs, attributes)

    @property
    def _data(self) -> Array:  # type: ignore[override]
        refuse_values()

    @_data.setter
    def _data(self, value: Array) -> None:
        refuse_values()

    def numpy(self) -> np.ndarray:
        refuse_values()

    def item(self) -> Any:
        refuse_values()

    def tolist(self) -> Any:
        refuse_values()

    def __setitem__(self, key: Any, value: Any) -> None:
        refuse_values()

    @property
    def is_leaf(self) -> bool:
        return False

    def detach(self) -> Tensor:
        """The same, outside the graph."""
        return self._pass.step("operation detach", self, lambda x: x.detach())

    def __repr__(self) -> str:
        return f"Traced(shape={self._shape}, dtype={self._dtype})"

    @property
    def shape(self) -> tuple[int, ...]:
        return self._shape

    @property
    def dtype(self) -> np.dtype:
        return self._dtype

    @property
    def ndim(self) -> int:
        return len(self._shape)

    @property
    def size(self) -> int:
        return math.prod(self._shape)

    @property
    def nbytes(self) -> int:
        return self.size * self._dtype.itemsize

    @property
    def device(self) -> str:
        return self._device


def refuse_values() -> NoReturn:
    """Raises ValueError: the code between modules must not look at values."""
    raise ValueError(
        "the stages of a pipeline cut this model's forward pass, which looks at the values of a tensor between its "
        "modules (an `if` or a loop over values, .item(), .numpy(), .data, a change in place, or checkpoint()): the "
        "values are on one stage's rank alone. Use tensor operations such as where(), put this code into a module of "
        "its own, which one stage runs, and recomputed modules into Plan(recompute=...)"
    )


class _Now(local):
    now: Pass | None = None


_now = _Now()


def current_pass() -> Pass | None:
    """What the forward code that runs in this thread is part of."""
    return _now.now


@contextmanager
def passing(now: Pass | None) -> Iterator[None]:
    """Within it, this is what the forward code is part of; None for code inside a module, which is left alone."""
    before, _now.now = _now.now, now
    try:
        yield
    finally:
        _now.now = before


class Pass:
    """One run of the forward code."""

    def step(self, name: str, given: Any, compute: Callable[[Any], Any]) -> Any:
        """What a step gives, with traced tensors.

        Args:
            name: what it does; the same for the same step of another pass.
            given: what it takes, a structure with traced tensors.
            compute: from the same structure with plain tensors to what the step gives.
        """
        raise NotImplementedError

    def call(self, name: str, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A module's outputs."""
        return self.step(f"call {name}", (args, kwargs), lambda given: module(*given[0], **given[1]))

    def read(self, name: str, value: Callable[[], Any]) -> Any:
        """A parameter."""
        return self.step(f"read {name}", (), lambda _: value())

    def operation(self, rule: Rule, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """What an operation makes."""
        for x in inputs:
            if isinstance(x, Parameter):
                raise ValueError(
                    f"the stages of a pipeline cut this model's forward pass, and its operation {rule.name!r} takes "
                    f"{x.label} of a module that is not reached by attributes of the model: assign modules to "
                    "attributes or put them into a ModuleList, and not into plain lists or closures"
                )
        return self.step(f"operation {rule.name}", inputs, lambda given: apply(rule, *given, **attributes))

    def wrapped(self, made: Any, number: int) -> Any:
        """What a step gave, its tensors traced."""
        places = iter(range(1 << 30))

        def wrap(tensor: Tensor) -> Traced:
            kind = tensor.shape, tensor.dtype.str, tensor.device, tensor.requires_grad
            return Traced(self, (number, next(places)), tensor, kind)

        return mapped(made, wrap)
