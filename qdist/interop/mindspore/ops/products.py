"""Products, convolutions, pooling, and looking up rows."""

from __future__ import annotations

import math
from string import ascii_lowercase
from typing import Any

from ....tensor.functional import Size, pair
from .primitive import Application, Primitive, tensors

__all__ = ["AvgPool", "BatchMatMul", "BiasAdd", "Conv2D", "Einsum", "Gather", "MatMul", "MaxPool"]


class BatchMatMul(Primitive):
    """Matrix products of the last two dimensions, either of which may be transposed first.

    Strategies are for the inputs as they are given.
    """

    rule = "matmul"

    def __init__(self, transpose_a: bool = False, transpose_b: bool = False) -> None:
        super().__init__()
        self.transpose_a, self.transpose_b = transpose_a, transpose_b

    def bind(self, *arguments: Any) -> Application:
        a, b = tensors(arguments)
        if not (self.transpose_a or self.transpose_b):
            return Application("matmul", (a, b), {})
        if min(a.ndim, b.ndim) < 2:
            raise ValueError(f"{type(self).__name__}: a product of matrices, not of {a.shape} and {b.shape}")
        if a.shape[:-2] != b.shape[:-2]:
            raise ValueError(f"{type(self).__name__}: {a.shape} and {b.shape} differ in their leading dimensions")
        lead = ascii_lowercase[: a.ndim - 2]
        left, right = "ZX" if self.transpose_a else "XZ", "YZ" if self.transpose_b else "ZY"
        return Application("einsum", (a, b), {"subscripts": f"{lead}{left},{lead}{right}->{lead}XY"})


class MatMul(BatchMatMul):
    """The product of two matrices, either of which may be transposed first."""


class Einsum(Primitive):
    """A sum of products that an equation such as "ij,jk->ik" names."""

    rule = "einsum"

    def __init__(self, equation: str) -> None:
        super().__init__()
        self.equation = equation.replace(" ", "")
        if "->" not in equation or "." in equation:
            raise ValueError(f"Einsum({equation!r}): every dimension has a letter, and the output stands behind ->")

    def bind(self, *arguments: Any) -> Application:
        return Application("einsum", tensors(arguments[0]), {"subscripts": self.equation})


class BiasAdd(Primitive):
    """x (rows, channels) + bias (channels)."""

    rule = "add"

    def bind(self, *arguments: Any) -> Application:
        x, bias = tensors(arguments)
        if x.ndim != 2 or bias.ndim != 1:
            raise ValueError(f"BiasAdd takes (rows, channels) and (channels), not {x.shape} and {bias.shape}")
        return Application("add", (x, bias), {})


class Gather(Primitive):
    """Rows of a table: (table, indices, 0). A strategy may cut the table's rows: ranks look up what they have."""

    rule = "embedding"

    def bind(self, *arguments: Any) -> Application:
        table, indices, axis = arguments
        if axis != 0:
            raise ValueError(f"Gather(axis={axis}): rows alone, axis 0")
        return Application("embedding", tensors((table, indices)), {})


class Conv2D(Primitive):
    """Cross-correlation of x (n, c, h, w) with a weight (filters, c / group, kh, kw).

    Args:
        out_channel, kernel_size: of the weight, which is checked against them.
        pad_mode: "valid", "same" (as many outputs as inputs over stride) or "pad", by `pad` on all sides.
    """

    rule = "conv2d"

    def __init__(
        self,
        out_channel: int,
        kernel_size: Size,
        mode: int = 1,
        pad_mode: str = "valid",
        pad: Size = 0,
        stride: Size = 1,
        dilation: Size = 1,
        group: int = 1,
    ) -> None:
        super().__init__()
        if mode != 1:
            raise ValueError(f"Conv2D(mode={mode}): 1, a cross-correlation")
        self.shape = (out_channel, *pair(kernel_size))
        options = {"stride": pair(stride), "dilation": pair(dilation)}
        self.options = {
            **options,
            "padding": _padding("Conv2D", pad_mode, pad, kernel_size, **options),
            "groups": group,
        }

    def bind(self, *arguments: Any) -> Application:
        x, weight = tensors(arguments)
        if x.ndim != 4 or (weight.shape[0], *weight.shape[2:]) != self.shape:
            raise ValueError(
                f"Conv2D was made for (n, c, h, w) and (filters, kh, kw) {self.shape}, not {x.shape} and {weight.shape}"
            )
        return Application("conv2d", (x, weight), self.options)


class MaxPool(Primitive):
    """The largest of every window of x (n, c, h, w)."""

    rule = "max_pool2d"

    def __init__(self, kernel_size: Size = 1, strides: Size = 1, pad_mode: str = "valid") -> None:
        super().__init__()
        if pad_mode != "valid":
            raise ValueError(f'{type(self).__name__}(pad_mode={pad_mode!r}): "valid"')
        self.options = {"kernel": pair(kernel_size), "stride": pair(strides), "padding": (0, 0)}

    def bind(self, *arguments: Any) -> Application:
        (x,) = tensors(arguments)
        if x.ndim != 4:
            raise ValueError(f"{type(self).__name__} takes (n, c, h, w), not {x.shape}")
        return Application(self.rule, (x,), self.options)


class AvgPool(MaxPool):
    """The mean of every window of x (n, c, h, w)."""

    rule = "avg_pool2d"


def _padding(name: str, mode: str, pad: Size, kernel: Size, stride: Any, dilation: Any) -> tuple[int, int]:
    """How many zeros a convolution puts before and after each side."""
    if mode == "pad":
        return pair(pad)
    if pair(pad) != (0, 0):
        raise ValueError(f'{name}(pad={pad}) takes pad_mode="pad"')
    if mode == "valid":
        return (0, 0)
    spans = [d * (k - 1) for k, d in zip(pair(kernel), dilation)]
    if mode != "same":
        raise ValueError(f'{name}(pad_mode={mode!r}): "valid", "same" or "pad"')
    if math.prod(stride) != 1 or any(span % 2 for span in spans):
        raise ValueError(f'{name}(pad_mode="same") takes a stride of 1 and an odd kernel')
    return spans[0] // 2, spans[1] // 2
