"""Convolutions along a line, and transposed ones, which make inputs larger."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..tensor import Tensor, functional
from ..tensor.arrays import as_dtype
from . import init
from .module import Module, Parameter

__all__ = ["Conv1d", "ConvTranspose1d", "ConvTranspose2d"]


class _Convolution(Module):
    """Weight and bias start uniform within 1 / sqrt(fan_in)."""

    def _draw(self, shape: tuple[int, ...], out_channels: int, bias: bool, dtype: Any) -> None:
        bound = 1 / math.sqrt(init.fans(shape)[0])
        dtype = as_dtype(dtype)
        self.weight = Parameter(np.empty(shape, dtype))
        init.uniform_(self.weight, -bound, bound)
        self.bias = Parameter(np.empty(out_channels, dtype)) if bias else None
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def _check(self, in_channels: int, out_channels: int, groups: int) -> None:
        if min(in_channels, out_channels, groups) < 1 or in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{type(self).__name__}: {groups} groups must divide {in_channels} and {out_channels} channels, all "
                "at least 1"
            )


class Conv1d(_Convolution):
    """1-D cross-correlation: (n, in_channels, length) to (n, out_channels, length'); weight (out, in / groups, k)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__()
        self._check(in_channels, out_channels, groups)
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self._draw((out_channels, in_channels // groups, kernel_size), out_channels, bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv1d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)


class ConvTranspose2d(_Convolution):
    """The transpose of Conv2d: (n, in_channels, h, w) to (n, out_channels, (h - 1) stride - 2 padding +
    dilation (kh - 1) + 1 + output_padding, ...); weight is (in, out / groups, kh, kw)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: functional.Size,
        stride: functional.Size = 1,
        padding: functional.Size = 0,
        output_padding: functional.Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: functional.Size = 1,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__()
        self._check(in_channels, out_channels, groups)
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.output_padding = output_padding
        shape = in_channels, out_channels // groups, *functional.pair(kernel_size)
        self._draw(shape, out_channels, bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        options = self.stride, self.padding, self.output_padding, self.groups, self.dilation
        return functional.conv_transpose2d(x, self.weight, self.bias, *options)


class ConvTranspose1d(_Convolution):
    """The transpose of Conv1d: (n, in_channels, length) to (n, out_channels, length'), weight (in, out / groups, k)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        output_padding: int = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int = 1,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__()
        self._check(in_channels, out_channels, groups)
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.output_padding = output_padding
        self._draw((in_channels, out_channels // groups, kernel_size), out_channels, bias, dtype)

    def forward(self, x: Tensor) -> Tensor:
        options = self.stride, self.padding, self.output_padding, self.groups, self.dilation
        return functional.conv_transpose1d(x, self.weight, self.bias, *options)
