"""Deferred building: modules whose parameters have shapes but no values until somebody keeps them.

A model that no single process could hold is written as any other and built inside `deferred()`. Its parameters note how
they are to be drawn and take no memory. Pipeline and Zero draw what a rank keeps, one layer at a time; `materialize`
draws all. The numbers are those that building outside of `deferred()` with the same seed gives, as every draw has a
ticket of its own.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..tensor import Generator, Tensor
from ..tensor.arrays import Array, as_dtype
from ..tensor.random import default_generator
from ..tensor.versions import Version
from .module import Module, Parameter

__all__ = ["DeferredParameter", "deferred", "empty_parameter", "materialize"]

Draw = Callable[[Generator], Array]


class _Building(threading.local):
    later = False


_building = _Building()


@contextmanager
def deferred() -> Iterator[None]:
    """Layers that are made inside have parameters without values.

    What `nn.init` would draw is drawn when the parameter is kept: by Pipeline and Zero, by `materialize`. A Parameter
    that is made of an array keeps that array. Values that are asked for before are a RuntimeError.

    >>> with nn.deferred():
    ...     model = nn.Sequential(nn.Linear(4096, 65536), nn.ReLU(), nn.Linear(65536, 4096))
    >>> zero = Zero(model, optim.Adam(model.parameters()), stage=3)
    """
    before, _building.later = _building.later, True
    try:
        yield
    finally:
        _building.later = before


class DeferredParameter(Parameter):
    """A parameter that is going to have values: its shape, dtype and device, and how they are drawn."""

    deferred = True
    replicated = False

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self._shape, self._dtype, self._device = tuple(shape), as_dtype(dtype), "cpu"
        self._version = Version()
        self.requires_grad = True
        self._draw: Draw = lambda _: np.zeros(self._shape, self._dtype)
        self._state: dict[str, Any] | None = None

    def draw_later(self, draw: Draw, random: bool = True) -> None:
        """Take draw(generator) for values. random: it makes one draw, whose ticket is taken now."""
        self._draw, self._state = draw, None
        if random:
            self._state = default_generator().state_dict()
            default_generator().ticket()

    def values(self) -> Array:
        """What it is going to have; drawn anew by each call."""
        generator = Generator()
        if self._state is not None:
            generator.load_state_dict(self._state)
        return Tensor(self._draw(generator)).to(self._dtype).to(self._device).data

    def convert(self, target: Any) -> None:
        if isinstance(target, str) and target.partition(":")[0] in ("cpu", "cuda"):
            self._device = target
        else:
            self._dtype = as_dtype(target)

    @classmethod
    def take_values(cls, parameter: Parameter) -> None:
        """Leave a parameter nothing but its shape and dtype, for those who only ask for these."""
        shape, dtype, wants = parameter.shape, parameter.dtype, parameter.requires_grad
        del parameter._data
        parameter.__class__ = cls
        cls.__init__(parameter, shape, dtype)  # type: ignore[arg-type]
        parameter.requires_grad = wants

    def become(self, values: Array) -> None:
        """Be a plain Parameter with these values from now on."""
        for name in ("_shape", "_dtype", "_device", "_draw", "_state"):
            del self.__dict__[name]
        self.__class__ = Parameter  # type: ignore[assignment]
        self._data = values
        self._version.changed()

    @property
    def _data(self) -> Array:  # type: ignore[override]
        raise RuntimeError(
            f"{self.label}, of shape {self._shape}, was built inside nn.deferred() and has no values yet: "
            "nn.materialize(model) draws them; Pipeline and Zero draw those that a rank keeps"
        )

    @_data.setter
    def _data(self, value: Array) -> None:
        if value.shape != self._shape:
            raise ValueError(f"{self.label} has shape {self._shape}, the values have {value.shape}")
        self.become(value)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the values it is going to have."""
        return self._shape

    @property
    def dtype(self) -> np.dtype:
        """Of the values it is going to have."""
        return self._dtype

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self._shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self._shape)

    @property
    def nbytes(self) -> int:
        """Bytes of the values it is going to have."""
        return self.size * self._dtype.itemsize

    @property
    def device(self) -> str:
        return self._device

    def detach(self) -> Tensor:
        """Itself: nothing is recorded of what has no values."""
        return self

    def __repr__(self) -> str:
        return f"DeferredParameter(shape={self._shape}, dtype={self._dtype})"


def empty_parameter(shape: tuple[int, ...], dtype: Any) -> Parameter:
    """A parameter whose values come next, by a function of `nn.init`; without memory inside `deferred()`."""
    return DeferredParameter(shape, dtype) if _building.later else Parameter(np.empty(shape, as_dtype(dtype)))


def materialize(model: Module | Iterable[Parameter]) -> None:
    """Draw the values of all parameters that have none: of a module, or those given."""
    for parameter in list(model.parameters() if isinstance(model, Module) else model):
        if isinstance(parameter, DeferredParameter):
            parameter.become(parameter.values())
