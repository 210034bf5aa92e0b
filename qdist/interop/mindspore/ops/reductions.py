"""Operators along dimensions: sums, extremes and their places, running sums, softmax."""

from __future__ import annotations

from typing import Any

from ....tensor import functional
from ....tensor.methods import normal_axes, normal_axis
from .primitive import Application, Primitive

__all__ = [
    "Argmax",
    "Argmin",
    "CumSum",
    "LogSoftmax",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "Softmax",
]


class ReduceSum(Primitive):
    """(x, axis): the sum over an axis or a tuple of them; over all when not given."""

    rule = "sum"

    def __init__(self, keep_dims: bool = False) -> None:
        super().__init__()
        self.keep_dims = keep_dims

    def bind(self, *arguments: Any) -> Application:
        x = functional.as_tensor(arguments[0])
        axis = arguments[1] if len(arguments) > 1 else ()
        axes = normal_axes(None if axis == () else axis, x.ndim)
        return Application(self.rule, (x,), {"axis": axes, "keepdims": self.keep_dims})


class ReduceMean(ReduceSum):
    """(x, axis): the mean."""

    rule = "mean"


class ReduceProd(ReduceSum):
    """(x, axis): the product."""

    rule = "prod"


class ReduceMax(ReduceSum):
    """(x, axis): the largest."""

    rule = "max"


class ReduceMin(ReduceSum):
    """(x, axis): the smallest."""

    rule = "min"


class Softmax(Primitive):
    """softmax along an axis."""

    rule = "softmax"

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def bind(self, *arguments: Any) -> Application:
        x = functional.as_tensor(arguments[0])
        return Application(self.rule, (x,), {"axis": normal_axis(self.axis, x.ndim)})


class LogSoftmax(Softmax):
    """The logarithm of softmax along an axis."""

    rule = "log_softmax"


class Argmax(Softmax):
    """Where the largest is along an axis."""

    rule = "argmax"


class Argmin(Softmax):
    """Where the smallest is along an axis."""

    rule = "argmin"


class CumSum(Primitive):
    """(x, axis): running sums."""

    rule = "cumsum"

    def bind(self, *arguments: Any) -> Application:
        x, axis = functional.as_tensor(arguments[0]), arguments[1]
        return Application(self.rule, (x,), {"axis": normal_axis(axis, x.ndim)})
