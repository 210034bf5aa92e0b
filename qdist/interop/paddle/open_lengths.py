"""Lengths of a static graph's data that are known only when it runs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...parallel.auto.ir.graph import Value
from ...tensor import Tensor

__all__ = ["OpenLength", "OpenTensor", "Values", "has_length", "in_run"]

Values = Mapping[Value, Tensor]


class OpenLength(int):
    """The length of an open axis while a program is captured: the sample's, with how to find that of a run.

    So a 3 that was written stays a 3, and the length of three sample rows does not.
    """

    __array_ufunc__ = None  # array * length asks the length

    of: Callable[[Values], int]

    @classmethod
    def found(cls, sample: int, of: Callable[[Values], int]) -> OpenLength:
        """The length of the sample, and what gives that of a run."""
        length = cls(sample)
        length.of = of
        return length

    @classmethod
    def of_axis(cls, sample: int, value: Value, axis: int) -> OpenLength:
        """The length of the sample along an axis of a value."""
        return cls.found(sample, lambda values: values[value].shape[axis])

    def _with(self, function: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return NotImplemented
        if not isinstance(left, (int, np.integer)) or not isinstance(right, (int, np.integer)):
            return self._refuse()
        return OpenLength.found(
            function(int(left), int(right)), lambda values: function(in_run(left, values), in_run(right, values))
        )

    def __add__(self, other: Any) -> Any:
        return self._with(operator.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return self._with(operator.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return self._with(operator.sub, self, other)

    def __rsub__(self, other: Any) -> Any:
        return self._with(operator.sub, other, self)

    def __mul__(self, other: Any) -> Any:
        return self._with(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Any:
        return self._with(operator.mul, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return self._with(operator.floordiv, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return self._with(operator.floordiv, other, self)

    def __mod__(self, other: Any) -> Any:
        return self._with(operator.mod, self, other)

    def __rmod__(self, other: Any) -> Any:
        return self._with(operator.mod, other, self)

    def __neg__(self) -> Any:
        return 0 - self

    def _refuse(self, *_: Any) -> Any:
        raise TypeError(
            "an open number of rows is known when a program runs, not while it is captured: it can be a length in a "
            "shape, but no number to compute with; use mean() for a sum divided by it, or data with a fixed shape"
        )

    # What NumPy and Tensors ask for, and what would give the number of the sample.
    __complex__ = __float__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _refuse


def in_run(attribute: Any, values: Values) -> Any:
    """An attribute of an operation with the lengths of this run."""
    if isinstance(attribute, OpenLength):
        return attribute.of(values)
    if type(attribute) in (tuple, list):
        return type(attribute)(in_run(part, values) for part in attribute)
    if isinstance(attribute, slice):
        return slice(*(in_run(part, values) for part in (attribute.start, attribute.stop, attribute.step)))
    return attribute


def has_length(attribute: Any) -> bool:
    """Whether a length of an open axis is among an operation's attributes."""
    if isinstance(attribute, dict):
        return any(map(has_length, attribute.values()))
    if type(attribute) in (tuple, list):
        return any(map(has_length, attribute))
    if isinstance(attribute, slice):
        return has_length((attribute.start, attribute.stop, attribute.step))
    return isinstance(attribute, OpenLength)


class OpenTensor(Tensor):
    """A tensor of a program that is captured, some of whose lengths are known only when it runs."""

    lengths: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes; the open ones remember that they are."""
        return self.lengths

    def __len__(self) -> int:
        if isinstance(self.shape[0], OpenLength):
            raise TypeError("the number of rows is open while a program is captured: write x.shape[0] for len(x)")
        return super().__len__()
