"""Operators that regroup numbers: shapes, orders, parts and joints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ....tensor import functional
from ....tensor.methods import normal_axes, normal_axis
from .primitive import Application, Primitive, tensors

__all__ = [
    "BroadcastTo",
    "Cast",
    "Concat",
    "ExpandDims",
    "GatherD",
    "Pad",
    "Reshape",
    "ReverseV2",
    "Select",
    "Split",
    "Squeeze",
    "Stack",
    "Transpose",
    "Tril",
    "Triu",
]


class Reshape(Primitive):
    """(x, shape)."""

    rule = "reshape"

    def bind(self, *arguments: Any) -> Application:
        x, shape = arguments
        return Application(self.rule, (x,), {"shape": tuple(shape)})


class ExpandDims(Primitive):
    """(x, axis): a dimension of length 1 before another."""

    rule = "reshape"

    def bind(self, *arguments: Any) -> Application:
        x, axis = functional.as_tensor(arguments[0]), arguments[1]
        at = normal_axis(axis, x.ndim + 1)
        return Application(self.rule, (x,), {"shape": (*x.shape[:at], 1, *x.shape[at:])})


class Squeeze(Primitive):
    """x without dimensions of length 1: all, or those of an axis or a tuple of them."""

    rule = "reshape"

    def __init__(self, axis: int | tuple[int, ...] = ()) -> None:
        super().__init__()
        self.axis = axis

    def bind(self, *arguments: Any) -> Application:
        x = functional.as_tensor(arguments[0])
        ones = tuple(i for i, n in enumerate(x.shape) if n == 1)
        dropped = ones if self.axis == () else normal_axes(self.axis, x.ndim)
        if not set(dropped) <= set(ones):
            raise ValueError(f"Squeeze({self.axis}): {x.shape} is longer than 1 there")
        return Application(self.rule, (x,), {"shape": tuple(n for i, n in enumerate(x.shape) if i not in dropped)})


class Transpose(Primitive):
    """(x, order of the dimensions)."""

    rule = "transpose"

    def bind(self, *arguments: Any) -> Application:
        x, order = functional.as_tensor(arguments[0]), arguments[1]
        if len(order) != x.ndim:
            raise ValueError(f"Transpose: {tuple(order)} is no order of {x.ndim} dimensions")
        return Application(self.rule, (x,), {"axes": normal_axes(tuple(order), x.ndim)})


class BroadcastTo(Primitive):
    """x repeated along dimensions that it has not, or of length 1."""

    rule = "expand"

    def __init__(self, shape: Sequence[int]) -> None:
        super().__init__()
        self.shape = tuple(shape)

    def bind(self, *arguments: Any) -> Application:
        return Application(self.rule, arguments, {"shape": self.shape})


class Concat(Primitive):
    """Tensors, given as a tuple, one behind the other along an axis."""

    rule = "concatenate"

    def __init__(self, axis: int = 0) -> None:
        super().__init__()
        self.axis = axis

    def bind(self, *arguments: Any) -> Application:
        parts = tensors(arguments[0])
        return Application(self.rule, parts, {"axis": normal_axis(self.axis, parts[0].ndim)})


class Stack(Primitive):
    """Tensors, given as a tuple, along a new axis."""

    rule = "stack"

    def __init__(self, axis: int = 0) -> None:
        super().__init__()
        self.axis = axis

    def bind(self, *arguments: Any) -> Application:
        parts = tensors(arguments[0])
        return Application(self.rule, parts, {"axis": normal_axis(self.axis, parts[0].ndim + 1)})


class Split(Primitive):
    """x in equal parts along an axis, as a tuple."""

    rule = "split"

    def __init__(self, axis: int = 0, output_num: int = 1) -> None:
        super().__init__()
        self.axis, self.output_num = axis, output_num

    def bind(self, *arguments: Any) -> Application:
        x = functional.as_tensor(arguments[0])
        axis = normal_axis(self.axis, x.ndim)
        if self.output_num < 1 or x.shape[axis] % self.output_num:
            raise ValueError(
                f"Split(output_num={self.output_num}): axis {axis} of {x.shape} is not so many equal parts"
            )
        sizes = (x.shape[axis] // self.output_num,) * self.output_num
        return Application(self.rule, (x,), {"sizes": sizes, "axis": axis})


class Pad(Primitive):
    """x with zeros around it: (before, after) for each dimension."""

    rule = "pad"

    def __init__(self, paddings: Sequence[tuple[int, int]]) -> None:
        super().__init__()
        self.widths = tuple((int(before), int(after)) for before, after in paddings)
        if any(n < 0 for pair in self.widths for n in pair):
            raise ValueError(f"Pad({self.widths}): not negative")

    def bind(self, *arguments: Any) -> Application:
        x = functional.as_tensor(arguments[0])
        if len(self.widths) != x.ndim:
            raise ValueError(f"Pad({self.widths}): a pair for each of {x.ndim} dimensions")
        return Application(self.rule, (x,), {"widths": self.widths, "value": 0})


class ReverseV2(Primitive):
    """x in the opposite order along some dimensions."""

    rule = "flip"

    def __init__(self, axis: Sequence[int]) -> None:
        super().__init__()
        self.axis = tuple(axis)

    def bind(self, *arguments: Any) -> Application:
        x = functional.as_tensor(arguments[0])
        return Application(self.rule, (x,), {"axes": normal_axes(self.axis, x.ndim)})


class Tril(Primitive):
    """The lower triangle of matrices, up to a diagonal."""

    rule = "tril"

    def __init__(self, diagonal: int = 0) -> None:
        super().__init__()
        self.diagonal = diagonal

    def bind(self, *arguments: Any) -> Application:
        return Application(self.rule, arguments, {"k": self.diagonal})


class Triu(Tril):
    """The upper triangle of matrices, from a diagonal on."""

    rule = "triu"


class GatherD(Primitive):
    """(x, dim, index): what an index of x's number of dimensions names along one of them."""

    rule = "gather"

    def bind(self, *arguments: Any) -> Application:
        x, dim, index = functional.as_tensor(arguments[0]), arguments[1], functional.as_tensor(arguments[2])
        return Application(self.rule, (x, index), {"axis": normal_axis(dim, x.ndim)})


class Select(Primitive):
    """(condition, x, y): x where the condition holds, y elsewhere."""

    rule = "where"


class Cast(Primitive):
    """(x, dtype)."""

    rule = "cast"

    def bind(self, *arguments: Any) -> Application:
        x, dtype = arguments
        return Application(self.rule, (x,), {"dtype": np.dtype(dtype)})
