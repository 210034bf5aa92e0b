"""Attention over several heads and the transformer block made of it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import Tensor, functional
from .layers import GELU, Dropout, LayerNorm, Linear
from .module import Module


class MultiHeadAttention(Module):
    """Self-attention: (batch, sequence, features) to the same shape.

    Args:
        features: divisible by `heads`.
        heads: each attends with features / heads components.
        dropout: probability of dropping an attention weight while training.
        bias: whether the two linear maps have one.

    `qkv` maps to queries, keys and values at once, `out` maps the joined heads back.
    """

    def __init__(
        self, features: int, heads: int, dropout: float = 0.0, bias: bool = True, dtype: Any = np.float32
    ) -> None:
        super().__init__()
        if heads < 1 or features % heads:
            raise ValueError(f"MultiHeadAttention: {heads} heads do not divide {features} features")
        self.features, self.heads, self.dropout = features, heads, dropout
        self.qkv = Linear(features, 3 * features, bias, dtype)
        self.out = Linear(features, features, bias, dtype)

    def forward(self, x: Tensor, mask: Any = None, causal: bool = False) -> Tensor:
        """mask: broadcasts to (batch, heads, sequence, sequence); bool (True is seen) or added to scores."""
        if x.ndim != 3:
            raise ValueError(f"MultiHeadAttention takes (batch, sequence, features), got shape {x.shape}")
        qkv = self.qkv(x)
        # Parallel forms have only some of the heads here, and more of the sequence than of x.
        batch, length, together = qkv.shape
        width = self.features // self.heads
        qkv = qkv.reshape(batch, length, 3, together // (3 * width), width)
        q, k, v = (part.squeeze(2).swapaxes(1, 2) for part in qkv.split(1, axis=2))
        joined = self.attend(q, k, v, mask, causal)
        return self.out(joined.swapaxes(1, 2).reshape(batch, length, together // 3))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Any, causal: bool) -> Tensor:
        """The heads' weighted values, all (batch, heads, sequence, features / heads): the part without weights."""
        dropout = self.dropout if self.training else 0.0
        return functional.attention(q, k, v, mask, causal=causal, dropout=dropout)

    def extra_repr(self) -> str:
        return f"{self.features}, heads={self.heads}, dropout={self.dropout}"


class TransformerBlock(Module):
    """x + attention(norm(x)), then x + mlp(norm(x)), on (batch, sequence, features).

    Args:
        features, heads: of the attention.
        hidden: width of the two-layer perceptron; 4 features when not given.
        dropout: after the attention, after the perceptron and on attention weights, while training.
        causal: positions see only earlier ones.
    """

    def __init__(
        self,
        features: int,
        heads: int,
        hidden: int | None = None,
        dropout: float = 0.0,
        causal: bool = False,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__()
        hidden = 4 * features if hidden is None else hidden
        self.causal = causal
        self.norm1 = LayerNorm(features, dtype=dtype)
        self.attention = MultiHeadAttention(features, heads, dropout, dtype=dtype)
        self.norm2 = LayerNorm(features, dtype=dtype)
        self.expand = Linear(features, hidden, dtype=dtype)
        self.gelu = GELU()
        self.shrink = Linear(hidden, features, dtype=dtype)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, mask: Any = None) -> Tensor:
        """mask: as for MultiHeadAttention."""
        x = x + self.dropout(self.attention(self.norm1(x), mask, self.causal))
        return x + self.dropout(self.shrink(self.gelu(self.expand(self.norm2(x)))))
