"""Cells, parameters, losses and optimisers under MindSpore's names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ... import nn, optim, tensor
from ...nn import MSELoss
from . import context

__all__ = ["Cell", "MSELoss", "Momentum", "Parameter", "Tensor", "initializer"]

_INITIALIZERS: dict[str, Callable[[tensor.Tensor], Any]] = {
    "normal": lambda tensor: nn.init.normal_(tensor, 0.0, 0.01),
    "uniform": lambda tensor: nn.init.uniform_(tensor, -0.07, 0.07),
    "zeros": nn.init.zeros_,
    "ones": nn.init.ones_,
    "xavier_uniform": nn.init.xavier_uniform_,
    "he_uniform": nn.init.kaiming_uniform_,
}


def initializer(init: str, shape: Sequence[int], dtype: Any = np.float32) -> nn.Parameter:
    """Values for a Parameter: "normal" (deviation 0.01), "uniform" (0.07), "zeros", "ones", "xavier_uniform" ..."""
    if init not in _INITIALIZERS:
        raise ValueError(f"initializer({init!r}): {', '.join(_INITIALIZERS)}")
    values = nn.Parameter(np.empty(tuple(shape), dtype))
    _INITIALIZERS[init](values)
    return values


def Tensor(input_data: Any, dtype: Any = None) -> tensor.Tensor:
    """A `qdist.Tensor` with a copy of the data, on the device of `set_context`; dtype is NumPy's. What is computed from
    it is of that class too, so `isinstance` asks for `qdist.Tensor`, and values are read by `numpy()`."""
    return tensor.Tensor(input_data, dtype=dtype, device=context.device()).detach().clone()


class Parameter(nn.Parameter):
    """A trained tensor with a name."""

    def __init__(self, default_input: Any, name: str | None = None, requires_grad: bool = True) -> None:
        super().__init__(np.array(default_input), requires_grad)
        self.name = name or ""
        self.convert(context.device())


class Cell(nn.Module):
    """A Module whose forward pass is written as construct()."""

    def construct(self, *inputs: Any) -> Any:
        """What the cell computes."""
        raise NotImplementedError(f"{type(self).__name__} has no construct()")

    def forward(self, *inputs: Any) -> Any:
        return self.construct(*inputs)

    def trainable_params(self) -> list[nn.Parameter]:
        """The parameters that get gradients."""
        return [p for p in self.parameters() if p.requires_grad]


class Momentum(optim.SGD):
    """v <- momentum v + g, p <- p - learning_rate v."""

    def __init__(self, params: Iterable[Any], learning_rate: float, momentum: float, weight_decay: float = 0.0) -> None:
        super().__init__(params, learning_rate, momentum, weight_decay=weight_decay)
