"""Layers under Paddle's names."""

from __future__ import annotations

from typing import Any

from .... import nn
from ....nn.deferred import empty_parameter
from ....tensor import Tensor
from ..defaults import default_device, get_default_dtype
from ..static import named
from . import functional

__all__ = [
    "GELU",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Layer",
    "LayerList",
    "LayerNorm",
    "Linear",
    "ReLU",
    "Sequential",
    "Tanh",
]


class Layer(nn.Module):
    """A Module with Paddle's names of methods."""

    def clear_gradients(self) -> None:
        """Forget all gradients."""
        self.zero_grad()

    def set_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Copy values into parameters and buffers by name."""
        self.load_state_dict(state_dict)

    def sublayers(self) -> list[nn.Module]:
        """All modules below."""
        return list(self.modules())[1:]

    def add_sublayer(self, name: str, sublayer: nn.Module) -> nn.Module:
        """Add a module under a name; returns it."""
        setattr(self, name, sublayer)
        return sublayer


class Linear(Layer):
    """x @ weight + bias: (..., in_features) to (..., out_features).

    weight (in, out) starts uniform with variance 2 / (in + out), bias (out,) at zero; bias_attr=False leaves it out.
    """

    def __init__(self, in_features: int, out_features: int, bias_attr: Any = None, name: str | None = None) -> None:
        super().__init__()
        if in_features < 1 or out_features < 1:
            raise ValueError(f"Linear({in_features}, {out_features}): sizes of at least 1")
        self.in_features, self.out_features, self.name = in_features, out_features, name
        self.weight = empty_parameter((in_features, out_features), get_default_dtype())
        nn.init.xavier_uniform_(self.weight)
        self.bias = None
        if bias_attr is not False:
            self.bias = empty_parameter((out_features,), get_default_dtype())
            nn.init.zeros_(self.bias)
        self.to(default_device())

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != self.in_features:
            raise ValueError(f"Linear takes (..., {self.in_features}), got shape {x.shape}")
        y = x @ self.weight
        return named(y if self.bias is None else y + self.bias, "linear")

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, dtype={self.weight.dtype}"


class Embedding(nn.Embedding, Layer):
    """A table (num_embeddings, embedding_dim) of vectors looked up by integer."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__(num_embeddings, embedding_dim, get_default_dtype())
        self.to(default_device())


class LayerNorm(nn.LayerNorm, Layer):
    """Normalise over the last axes, of the given shape, then scale and shift."""

    def __init__(self, normalized_shape: Any, epsilon: float = 1e-5) -> None:
        super().__init__(normalized_shape, epsilon, get_default_dtype())
        self.to(default_device())


class ReLU(nn.ReLU, Layer):
    """max(x, 0)."""


class GELU(nn.GELU, Layer):
    """x Phi(x)."""


class Tanh(nn.Tanh, Layer):
    """tanh(x)."""


class Dropout(nn.Dropout, Layer):
    """Zero elements with probability p while training."""


class Sequential(nn.Sequential, Layer):
    """Modules applied one after the other."""


class LayerList(nn.ModuleList, Layer):
    """A list of modules whose parameters are found."""


class CrossEntropyLoss(Layer):
    """Cross-entropy of softmax(input) with classes of shape (n,) or (n, 1)."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = nn.CrossEntropyLoss(reduction).reduction

    def forward(self, input: Any, label: Any) -> Tensor:
        return functional.cross_entropy(input, label, self.reduction)
