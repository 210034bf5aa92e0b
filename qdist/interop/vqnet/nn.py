"""VQNet's modules: this library's, made and called with VQNet's arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np

from ... import nn
from ...nn import Sequential
from ...tensor import Tensor, functional, no_grad
from . import activation
from .devices import as_device
from .dtypes import as_dtype

__all__ = [
    "Conv2D",
    "CrossEntropyLoss",
    "Linear",
    "MaxPool2D",
    "Module",
    "Parameter",
    "Sequential",
    "activation",
]

Fill = Callable[[Tensor], Any]
"""Overwrites a tensor in place, like the functions of `qdist.nn.init`."""


class Module(nn.Module):
    """A Module that is moved to VQNet's devices."""

    def to(self, device: Any) -> Self:
        """To 0, the CPU, or 1000 + k, the k-th GPU; returns itself."""
        return super().to(as_device(device))


class Parameter(nn.Parameter):
    """A trained tensor of a given shape.

    Args:
        shape: its sizes.
        initializer: fills a tensor in place, like the functions of `qdist.nn.init`; standard normal numbers from the
            default generator, which `utils.set_random_seed` restarts, when not given.
        dtype: a VQNet or NumPy dtype; float32 when not given.
    """

    def __init__(self, shape: Sequence[int] = (1, 1), initializer: Fill = nn.init.normal_, dtype: Any = None) -> None:
        super().__init__(np.empty(tuple(shape), real(dtype)))
        initializer(self)

    @classmethod
    def of(cls, made: nn.Parameter) -> Parameter:
        """The same parameter with VQNet's methods."""
        result = cls.__new__(cls)
        vars(result).update(vars(made))
        return result

    def init_from_tensor(self, other_tensor: Any) -> None:
        """Takes over the values of another tensor of this shape."""
        with no_grad():
            self.assign(Tensor(other_tensor).to(self.dtype))

    def numel(self) -> int:
        """How many numbers it holds."""
        return self.size


class Linear(nn.Linear):
    """x @ weight.T + bias: (..., input_channels) to (..., output_channels)."""

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        weight_initializer: Fill | None = None,
        bias_initializer: Fill | None = None,
        use_bias: bool = True,
        dtype: Any = None,
        name: str = "",
    ) -> None:
        super().__init__(input_channels, output_channels, use_bias, real(dtype))
        as_vqnet(self, name, weight_initializer, bias_initializer)


class Conv2D(nn.Conv2d):
    """2-D cross-correlation of (n, input_channels, h, w).

    Args:
        padding: "valid" for none; "same", with a stride of 1 and an odd kernel, for outputs as large as the inputs; or
            (rows, columns) of zeros on either side.
    """

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        kernel_size: functional.Size,
        stride: functional.Size = (1, 1),
        padding: Any = "valid",
        use_bias: bool = True,
        kernel_initializer: Fill | None = None,
        bias_initializer: Fill | None = None,
        dilation_rate: functional.Size = (1, 1),
        group: int = 1,
        dtype: Any = None,
        name: str = "",
    ) -> None:
        border = _border(padding, functional.pair(kernel_size), functional.pair(stride), functional.pair(dilation_rate))
        super().__init__(
            input_channels, output_channels, kernel_size, stride, border, dilation_rate, group, use_bias, real(dtype)
        )
        as_vqnet(self, name, kernel_initializer, bias_initializer)


class MaxPool2D(nn.MaxPool2d):
    """The largest element of each window of (n, c, h, w); padding is "valid" or (rows, columns)."""

    def __init__(
        self, kernel: functional.Size, stride: functional.Size, padding: Any = "valid", name: str = ""
    ) -> None:
        if padding == "same":
            raise ValueError("MaxPool2D: padding='same' is not provided; give (rows, columns) on either side")
        super().__init__(kernel, stride, _border(padding, functional.pair(kernel), functional.pair(stride), (1, 1)))
        self.name = name


class CrossEntropyLoss(nn.CrossEntropyLoss):
    """The mean cross-entropy of softmax(logits); as in VQNet the targets come first."""

    def __init__(self, name: str = "") -> None:
        super().__init__()
        self.name = name

    def forward(self, targets: Any, logits: Any) -> Tensor:  # type: ignore[override]
        """targets: classes, of shape (n,) or (n, 1), or one row (n, classes) of 0 and 1 a sample."""
        targets = targets if isinstance(targets, Tensor) else Tensor(targets)
        if targets.shape == logits.shape and targets.shape[-1] > 1:
            return -(functional.log_softmax(logits) * targets.to(logits.dtype)).sum(axis=-1).mean()
        if targets.ndim == logits.ndim and targets.shape[-1] == 1:
            targets = targets.squeeze(-1)
        return super().forward(logits, targets)


def real(dtype: Any) -> np.dtype:
    """The dtype of a layer's parameters: float32 when not given."""
    return np.dtype(np.float32) if dtype is None else as_dtype(dtype)


def as_vqnet(
    layer: Any, name: str, weight_initializer: Fill | None = None, bias_initializer: Fill | None = None
) -> None:
    """Gives a layer VQNet's parameters and name, and starts them as asked."""
    layer.name = name
    for own, initializer in (("weight", weight_initializer), ("bias", bias_initializer)):
        parameter = getattr(layer, own)
        if parameter is not None:
            setattr(layer, own, Parameter.of(parameter))
            if initializer is not None:
                initializer(getattr(layer, own))


def _border(
    padding: Any, kernel: tuple[int, int], stride: tuple[int, int], dilation: tuple[int, int]
) -> functional.Size:
    """The zeros on either side that VQNet's word for a padding stands for."""
    if padding == "valid":
        return 0
    if padding != "same":
        if isinstance(padding, str):
            raise ValueError(f"padding={padding!r}: use 'valid', 'same' or (rows, columns)")
        return functional.pair(padding)
    if stride != (1, 1) or any(k % 2 == 0 for k in kernel):
        raise ValueError(f"padding='same' takes a stride of 1 and an odd kernel, got {stride} and {kernel}")
    return dilation[0] * (kernel[0] // 2), dilation[1] * (kernel[1] // 2)
