"""Attention with rotary positions and fewer heads of keys than of queries, its cache for generation, gated MLPs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..tensor import Tensor, concatenate, functional
from .layers import Linear
from .module import Module
from .normalization import RMSNorm
from .positions import positions

__all__ = ["GatedMLP", "GroupedQueryAttention", "KVCache", "LlamaBlock"]


class KVCache:
    """Keys and values of the positions that have been, for one attention: give it to every call of a generation."""

    def __init__(self) -> None:
        self.keys: Tensor | None = None
        self.values: Tensor | None = None

    def __len__(self) -> int:
        """How many positions there are."""
        return 0 if self.keys is None else self.keys.shape[-2]

    def extend(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values, (batch, heads, positions, width), these ones last."""
        if self.keys is not None and self.values is not None:
            keys, values = concatenate([self.keys, keys], -2), concatenate([self.values, values], -2)
        self.keys, self.values = keys, values
        return keys, values


class GroupedQueryAttention(Module):
    """Causal self-attention, (batch, sequence, features) to the same shape, as LLaMA has it: `q`, `k`, `v` and `o` are
    linear maps without bias, queries and keys have rotary positions, and groups of queries share a head of keys.

    Args:
        features: divisible by `heads`.
        heads: of queries.
        kv_heads: of keys and values; it divides heads. All of them when not given.
        base: of the rotary angles.
        causal: positions see only earlier ones.

    Tensor parallelism divides it by a plan of {"*.q": "column", "*.k": "column", "*.v": "column", "*.o": "row"}.
    """

    def __init__(
        self,
        features: int,
        heads: int,
        kv_heads: int | None = None,
        base: float = 10000.0,
        causal: bool = True,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__()
        kv_heads = heads if kv_heads is None else kv_heads
        if heads < 1 or features % heads or kv_heads < 1 or heads % kv_heads:
            raise ValueError(
                f"GroupedQueryAttention: {heads} heads must divide {features} features, and {kv_heads} heads of keys "
                f"must divide {heads}"
            )
        self.features, self.heads, self.kv_heads = features, heads, kv_heads
        self.base, self.causal = base, causal
        shared = features // heads * kv_heads
        self.q = Linear(features, features, False, dtype)
        self.k = Linear(features, shared, False, dtype)
        self.v = Linear(features, shared, False, dtype)
        self.o = Linear(features, features, False, dtype)

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        """cache: of earlier positions, which x follows; it takes x's keys and values too."""
        if x.ndim != 3:
            raise ValueError(f"GroupedQueryAttention takes (batch, sequence, features), got shape {x.shape}")
        q, k, v = (self._in_heads(map_(x)) for map_ in (self.q, self.k, self.v))
        before = 0 if cache is None else len(cache)
        here = positions(x.shape[1]) if before == 0 else np.arange(before, before + x.shape[1])
        q, k = functional.rotary(q, here, self.base), functional.rotary(k, here, self.base)
        if cache is not None:
            k, v = cache.extend(k, v)
        joined = self.attend(q, self._repeated(k, q), self._repeated(v, q))
        batch, heads, length, width = joined.shape
        return self.o(joined.swapaxes(1, 2).reshape(batch, length, heads * width))

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """The heads' weighted values, all (batch, heads, positions, features / heads)."""
        return functional.attention(q, k, v, causal=self.causal)

    def _in_heads(self, x: Tensor) -> Tensor:
        width = self.features // self.heads
        # Ranks that share the heads have some of them here.
        if x.shape[-1] % width:
            raise ValueError(
                f"GroupedQueryAttention: ranks cut heads of {width} features into {x.shape[-1]}: their number must "
                f"divide {self.kv_heads} heads of keys"
            )
        return x.reshape(*x.shape[:2], x.shape[-1] // width, width).swapaxes(1, 2)

    @staticmethod
    def _repeated(x: Tensor, q: Tensor) -> Tensor:
        """A head of keys for every head of queries of its group."""
        batch, heads, length, width = x.shape
        each = q.shape[1] // heads
        if each == 1:
            return x
        return x.unsqueeze(2).expand(batch, heads, each, length, width).reshape(batch, heads * each, length, width)

    def extra_repr(self) -> str:
        return f"{self.features}, heads={self.heads}, kv_heads={self.kv_heads}"


_GATES: dict[str, Callable[[Any], Tensor]] = {
    "silu": functional.silu,
    "gelu": functional.gelu,
    "sigmoid": functional.sigmoid,
    "relu": functional.relu,
}


class GatedMLP(Module):
    """down(gate(x) * up(x)), three linear maps without bias: SwiGLU with "silu", GEGLU with "gelu", GLU with "sigmoid".

    Args:
        features: of x and of the result.
        hidden: between; 8/3 features, rounded up to a multiple of 8, when not given.
        activation: of the gate: "silu", "gelu", "sigmoid" or "relu".

    Tensor parallelism divides it by a plan of {"*.gate": "column", "*.up": "column", "*.down": "row"}.
    """

    def __init__(
        self, features: int, hidden: int | None = None, activation: str = "silu", dtype: Any = np.float32
    ) -> None:
        super().__init__()
        if activation not in _GATES:
            raise ValueError(f"GatedMLP: activation {activation!r} is not known: use one of {', '.join(_GATES)}")
        hidden = 8 * math.ceil(features / 3) if hidden is None else hidden
        self.activation = activation
        self.gate = Linear(features, hidden, False, dtype)
        self.up = Linear(features, hidden, False, dtype)
        self.down = Linear(hidden, features, False, dtype)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(_GATES[self.activation](self.gate(x)) * self.up(x))

    def extra_repr(self) -> str:
        return f"activation={self.activation!r}"


class LlamaBlock(Module):
    """x + attention(norm(x)), then x + mlp(norm(x)), with root-mean-square norms, rotary positions and a gated MLP.

    Args: features, heads, kv_heads, hidden and base as of its parts.
    """

    def __init__(
        self,
        features: int,
        heads: int,
        kv_heads: int | None = None,
        hidden: int | None = None,
        base: float = 10000.0,
        dtype: Any = np.float32,
    ) -> None:
        super().__init__()
        self.norm1 = RMSNorm(features, dtype=dtype)
        self.attention = GroupedQueryAttention(features, heads, kv_heads, base, dtype=dtype)
        self.norm2 = RMSNorm(features, dtype=dtype)
        self.mlp = GatedMLP(features, hidden, dtype=dtype)

    def forward(self, x: Tensor, cache: KVCache | None = None) -> Tensor:
        """cache: as for GroupedQueryAttention."""
        x = x + self.attention(self.norm1(x), cache)
        return x + self.mlp(self.norm2(x))
