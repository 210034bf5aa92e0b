"""Attention on a CPU in blocks of queries, whose weights stay in a core's cache from one pass to the next.

Weights of keys that no query of a block may see are neither computed nor kept, which is nearly half of causal
attention. Those that are lie one block behind the other in one array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..arrays import Array
from ..threads import over_rows
from .activation import softmax_back_block, softmax_block
from .products import multiply

__all__ = ["attend", "attend_vjp", "fits"]

_WEIGHTS = 1 << 17
"""Of a block, at most: with as many cotangents they fit in a 1 MiB L2 cache."""
_LEAST = 16
"""Queries of a block, at least: shorter products are slow."""


class _Block(NamedTuple):
    """Some queries of one row of the batch, and the keys that any of them sees, which are the first ones."""

    first: int
    last: int
    """Queries first ... last - 1."""
    keys: int
    place: slice
    """Of its weights among those of the row."""


def fits(q: Array, k: Array, v: Array) -> bool:
    """Whether these NumPy arrays are (batch, heads, positions, features), of one dtype, and none is empty."""
    together = q.ndim == 4 and q.shape[:2] == k.shape[:2] == v.shape[:2]
    return together and q.dtype == k.dtype == v.dtype and 0 not in (q.size, k.size, v.size)


def _blocks(q: Array, k: Array, causal: bool) -> tuple[list[_Block], int]:
    """Of a row of the batch, the last queries first, which see all keys; and how many weights they have."""
    heads, queries, keys = q.shape[1], q.shape[2], k.shape[2]
    count = max(_LEAST, min(_WEIGHTS // (heads * keys), -(-queries // 2) if causal else queries))
    found = []
    total = 0
    for first in reversed(range(0, queries, count)):
        last = min(first + count, queries)
        seen = max(0, last + keys - queries) if causal else keys
        size = heads * (last - first) * seen
        found.append(_Block(first, last, seen, slice(total, total + size)))
        total += size
    return found, total


def _tokens_first(batch: int, heads: int, length: int, width: int, dtype: np.dtype) -> Array:
    """An array (batch, heads, positions, features) whose heads lie side by side in memory, as the reshapes around
    attention want them."""
    return np.empty((batch, length, heads, width), dtype).transpose(0, 2, 1, 3)


def attend(q: Array, k: Array, v: Array, scale: float, causal: bool) -> tuple[Array, Array]:
    """softmax(q k^T scale) v, and the weights."""
    batch, heads, queries, _ = q.shape
    blocks, size = _blocks(q, k, causal)
    weights = np.empty(batch * size, q.dtype)
    out = _tokens_first(batch, heads, queries, v.shape[3], q.dtype)

    def row(at: int, own: Array) -> None:
        for block in blocks:
            rows = slice(block.first, block.last)
            if block.keys == 0:
                out[at, :, rows] = 0
                continue
            part = own[block.place].reshape(heads, block.last - block.first, block.keys)
            multiply(q[at, :, rows], k[at, :, : block.keys].swapaxes(-1, -2), part)
            flat = part.reshape(-1, block.keys)
            # The block's last query sees all of its keys, the one before all but the last.
            softmax_block(flat, flat, scale, block.last - block.first if causal else 0)
            multiply(part, v[at, :, : block.keys], out[at, :, rows])

    _over_batch(row, weights, batch, size)
    return out, weights


def attend_vjp(
    g: Array, q: Array, k: Array, v: Array, weights: Array, scale: float, causal: bool
) -> tuple[Array, Array, Array]:
    """The cotangents of q, k and v for that of what attend() gave."""
    batch, heads = q.shape[:2]
    blocks, size = _blocks(q, k, causal)
    gq, gk, gv = _cotangents(q, k, v)

    def row(at: int, own: Array) -> None:
        for block in blocks:
            rows, seen = slice(block.first, block.last), slice(block.keys)
            if block.keys == 0:
                gq[at, :, rows] = 0
                continue
            part = own[block.place].reshape(heads, block.last - block.first, block.keys)
            cotangent = g[at, :, rows]
            later = block is not blocks[0]
            multiply(part.swapaxes(-1, -2), cotangent, gv[at, :, seen], add=later)
            scores = np.empty_like(part)
            multiply(cotangent, v[at, :, seen].swapaxes(-1, -2), scores)
            flat = scores.reshape(-1, block.keys)
            softmax_back_block(flat, part.reshape(-1, block.keys), flat, scale)
            multiply(scores, k[at, :, seen], gq[at, :, rows])
            multiply(scores.swapaxes(-1, -2), q[at, :, rows], gk[at, :, seen], add=later)

    _over_batch(row, weights, batch, size)
    return gq, gk, gv


def _cotangents(q: Array, k: Array, v: Array) -> tuple[Array, ...]:
    """Arrays like q, k and v, tokens first; parts of one array where those are, as of one linear map to all three."""
    if q.base is not None and q.base is k.base is v.base and q.shape == k.shape == v.shape:
        batch, heads, length, width = q.shape
        together = np.empty((batch, length, 3, heads, width), q.dtype)
        return tuple(together[:, :, i].transpose(0, 2, 1, 3) for i in range(3))
    return tuple(_tokens_first(a.shape[0], a.shape[1], a.shape[2], a.shape[3], a.dtype) for a in (q, k, v))


def _over_batch(row: Callable[[int, Array], None], weights: Array, batch: int, size: int) -> None:
    """row(i, the weights of row i) for all rows of the batch, on all threads."""

    def work(start: int, stop: int) -> None:
        for at in range(start, stop):
            row(at, weights[at * size : (at + 1) * size])

    over_rows(np, work, batch, size)
