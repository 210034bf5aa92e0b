"""Layers with weights, and the ones that only reshape or drop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..tensor import Tensor, computing_in, functional, no_grad
from ..tensor.arrays import as_dtype, is_half
from ..tensor.half import widened
from . import init
from .deferred import empty_parameter
from .module import Module, Parameter


def _empty(*shape: int, dtype: Any = np.float32) -> Parameter:
    return empty_parameter(shape, dtype)


def _positive(layer: str, **sizes: int) -> None:
    for name, value in sizes.items():
        if not hasattr(value, "__index__"):
            raise TypeError(f"{layer}: {name} is a whole number, not {value!r}")
        if value < 1:
            raise ValueError(f"{layer}: {name} must be at least 1, got {value}")


class Linear(Module):
    """x @ weight.T + bias: (..., in_features) to (..., out_features).

    weight (out, in) and bias (out,) start uniform within 1 / sqrt(in_features).
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True, dtype: Any = np.float32) -> None:
        super().__init__()
        _positive("Linear", in_features=in_features, out_features=out_features)
        self.in_features, self.out_features = in_features, out_features
        bound = 1 / math.sqrt(in_features)
        self.weight = _empty(out_features, in_features, dtype=dtype)
        init.uniform_(self.weight, -bound, bound)
        self.bias = _empty(out_features, dtype=dtype) if bias else None
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != self.in_features:
            raise ValueError(f"Linear takes (..., {self.in_features}), got shape {x.shape}")
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}" + ("" if self.bias is not None else ", bias=False")


class Conv2d(Module):
    """2-D cross-correlation: (n, in_channels, h, w) to (n, out_channels, oh, ow).

    weight (out, in / groups, kh, kw) and bias (out,) start uniform within 1 / sqrt(fan_in).
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: functional.Size,
        stride: functional.Size = 1,
        padding: functional.Size = 0,
        dilation: functional.Size = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__()
        _positive("Conv2d", in_channels=in_channels, out_channels=out_channels, groups=groups)
        if in_channels % groups or out_channels % groups:
            raise ValueError(f"Conv2d: {groups} groups do not divide {in_channels} and {out_channels} channels")
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = functional.pair(kernel_size), functional.pair(stride)
        self.padding, self.dilation = functional.pair(padding), functional.pair(dilation)
        self.weight = _empty(out_channels, in_channels // groups, *self.kernel_size, dtype=dtype)
        bound = 1 / math.sqrt(init.fans(self.weight.shape)[0])
        init.uniform_(self.weight, -bound, bound)
        self.bias = _empty(out_channels, dtype=dtype) if bias else None
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        return functional.conv2d(x, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        return (
            f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"padding={self.padding}, dilation={self.dilation}, groups={self.groups}"
        )


class _Pool(Module):
    def __init__(
        self,
        kernel_size: functional.Size,
        stride: functional.Size | None = None,
        padding: functional.Size = 0,
    ) -> None:
        super().__init__()
        self.kernel_size = functional.pair(kernel_size)
        self.stride = self.kernel_size if stride is None else functional.pair(stride)
        self.padding = functional.pair(padding)

    def extra_repr(self) -> str:
        return f"{self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxPool2d(_Pool):
    """The largest element of each window of (n, c, h, w)."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.max_pool2d(x, self.kernel_size, self.stride, self.padding)


class AvgPool2d(_Pool):
    """The mean of each window of (n, c, h, w), padding counted as zeros."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.avg_pool2d(x, self.kernel_size, self.stride, self.padding)


class Embedding(Module):
    """A table (count, features) of vectors looked up by integer; it starts normal with deviation 1."""

    def __init__(self, count: int, features: int, dtype: Any = np.float32) -> None:
        super().__init__()
        _positive("Embedding", count=count, features=features)
        self.count, self.features = count, features
        self.weight = _empty(count, features, dtype=dtype)
        init.normal_(self.weight)

    def forward(self, indices: Any) -> Tensor:
        return functional.embedding(self.weight, indices)

    def extra_repr(self) -> str:
        return f"{self.count}, {self.features}"


class LayerNorm(Module):
    """Normalise over the last axes, of the given shape, then scale and shift."""

    def __init__(self, shape: int | tuple[int, ...], eps: float = 1e-5, dtype: Any = np.float32) -> None:
        super().__init__()
        self.shape = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        self.eps = eps
        dtype = as_dtype(dtype)
        self.weight = Parameter(np.ones(self.shape, dtype))
        self.bias = Parameter(np.zeros(self.shape, dtype))

    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, self.shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.shape}, eps={self.eps}"


class BatchNorm2d(Module):
    """Normalise each channel of (n, channels, h, w) by the batch's statistics; running ones in eval mode."""

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, channels: int, eps: float = 1e-5, momentum: float = 0.1, dtype: Any = np.float32) -> None:
        super().__init__()
        _positive("BatchNorm2d", channels=channels)
        self.channels, self.eps, self.momentum = channels, eps, momentum
        dtype = as_dtype(dtype)
        self.weight = Parameter(np.ones(channels, dtype))
        self.bias = Parameter(np.zeros(channels, dtype))
        self.register_buffer("running_mean", np.zeros(channels, dtype))
        self.register_buffer("running_var", np.ones(channels, dtype))

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim != 4 or x.shape[1] != self.channels:
            raise ValueError(f"BatchNorm2d takes (n, {self.channels}, h, w), got shape {x.shape}")
        if not self.training:
            scale, shift = self._running(x.dtype)
            return x * scale.reshape(1, -1, 1, 1) + shift.reshape(1, -1, 1, 1)
        count = x.size // self.channels
        if count < 2:
            raise ValueError(f"{type(self).__name__} needs more than one value per channel in training mode")
        out, mean, variance = functional.batch_norm(x, self.weight, self.bias, self.eps)
        with no_grad(), computing_in(None):
            keep, take = 1 - self.momentum, self.momentum
            self.running_mean.assign(keep * self.running_mean + take * mean)
            # The running variance estimates the population's, hence the n - 1.
            self.running_var.assign(keep * self.running_var + take * variance * (count / (count - 1)))
        return out

    def _running(self, dtype: np.dtype) -> tuple[Tensor, Tensor]:
        """What evaluation multiplies each channel of an input of this dtype by, and adds to it. They are computed in
        float32 also where the layer is in half precision, which has no room for every variance."""
        with computing_in(None):
            scale = widened(self.weight) / (widened(self.running_var) + self.eps).sqrt()
            shift = widened(self.bias) - widened(self.running_mean) * scale
            return (scale.to(dtype), shift.to(dtype)) if is_half(dtype) else (scale, shift)

    def extra_repr(self) -> str:
        return f"{self.channels}, eps={self.eps}, momentum={self.momentum}"


class Dropout(Module):
    """Zero elements with probability p while training."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        if isinstance(p, str) or not 0 <= p < 1:
            raise ValueError(f"dropout probability {p!r} is not in [0, 1)")
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class Flatten(Module):
    """Join all axes from `start` on: (n, c, h, w) to (n, c h w)."""

    def __init__(self, start: int = 1) -> None:
        super().__init__()
        self.start = start

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(self.start)

    def extra_repr(self) -> str:
        return f"start={self.start}"


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x)


class SiLU(Module):
    """x sigmoid(x)."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.silu(x)


class GELU(Module):
    """x Phi(x); approximate=True, or "tanh", takes the tanh form."""

    def __init__(self, approximate: bool | str = False) -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, x: Tensor) -> Tensor:
        return functional.gelu(x, self.approximate)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.sigmoid(x)


class Tanh(Module):
    """tanh(x)."""

    def forward(self, x: Tensor) -> Tensor:
        return x.tanh()


class Softmax(Module):
    """softmax over one axis."""

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self.axis = axis

    def forward(self, x: Tensor) -> Tensor:
        return functional.softmax(x, self.axis)

    def extra_repr(self) -> str:
        return f"axis={self.axis}"
