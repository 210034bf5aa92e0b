"""VQNet's modules: this library's, made and called with VQNet's arguments."""

from __future__ import annotations

from typing import Any

from ... import nn
from ...tensor import Tensor, functional
from . import activation
from .dtypes import real
from .module import Module, Parameter, Sequential
from .utils.initializer import Initializer, fill

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


class Linear(Module, nn.Linear):
    """x @ weight.T + bias: (..., input_channels) to (..., output_channels)."""

    def __init__(
        self,
        input_channels: int,
        output_channels: int,
        weight_initializer: Initializer | None = None,
        bias_initializer: Initializer | None = None,
        use_bias: bool = True,
        dtype: Any = None,
        name: str = "",
    ) -> None:
        super().__init__(input_channels, output_channels, use_bias, real(dtype))
        as_vqnet(self, name, weight_initializer, bias_initializer)


class Conv2D(Module, nn.Conv2d):
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
        kernel_initializer: Initializer | None = None,
        bias_initializer: Initializer | None = None,
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


class MaxPool2D(Module, nn.MaxPool2d):
    """The largest element of each window of (n, c, h, w); padding is "valid" or (rows, columns)."""

    def __init__(
        self, kernel: functional.Size, stride: functional.Size, padding: Any = "valid", name: str = ""
    ) -> None:
        if padding == "same":
            raise ValueError("MaxPool2D: padding='same' is not provided; give (rows, columns) on either side")
        super().__init__(kernel, stride, _border(padding, functional.pair(kernel), functional.pair(stride), (1, 1)))
        self.name = name


class CrossEntropyLoss(Module, nn.CrossEntropyLoss):
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


def as_vqnet(
    layer: Any, name: str, weight_initializer: Initializer | None = None, bias_initializer: Initializer | None = None
) -> None:
    """Gives a layer VQNet's parameters and name, and starts them as asked."""
    layer.name = name
    for own, initializer in (("weight", weight_initializer), ("bias", bias_initializer)):
        parameter = getattr(layer, own)
        if parameter is not None:
            setattr(layer, own, Parameter.of(parameter))
            if initializer is not None:
                fill(getattr(layer, own), initializer)


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
