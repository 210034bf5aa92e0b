"""Matrix products of NumPy arrays: by the kernel of this package where it is faster than the library behind NumPy.

That is float32. Beside the time of a product itself counts that the library's threads wait for its next one in a busy
loop, and keep those of this package from their cores. A number that the kernel gives does not depend on threads, nor on
how many rows and columns there are beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qdist.native import kernels, variant

from ..arrays import FLOAT32, FLOAT64, Array
from ..threads import num_threads

__all__ = ["column_sums", "multiply", "product", "products"]

_VARIANTS = ("x86_64_v3", "x86_64_v4")
"""With registers for a tile of sums."""
_LEAST = 8
"""Rows and columns of a product: with fewer, it takes as long to lay out what they are multiplied by."""


def product(a: Array, b: Array, row: Array | None = None) -> Array:
    """a (m, k) times b (k, n), plus `row` (n,) in every row."""
    if not _natively(a, b) or (row is not None and (row.dtype != FLOAT32 or not row.flags.c_contiguous)):
        y = np.matmul(a, b)
        if row is not None:
            y += row
        return y
    out = np.empty((a.shape[0], b.shape[1]), FLOAT32)
    kernels.multiply(a[None], b[None], row, False, num_threads(), out[None])
    return out


def products(xp: Any, a: Array, b: Array) -> Array:
    """a (s, m, k) times b (s, k, n)."""
    if xp is not np or not _natively(a, b):
        return xp.matmul(a, b)
    out = np.empty((*a.shape[:2], b.shape[2]), FLOAT32)
    kernels.multiply(a, b, None, False, num_threads(), out)
    return out


def column_sums(xp: Any, a: Array) -> Array:
    """The sum of the rows of a (m, n)."""
    if xp is not np or a.dtype not in (FLOAT32, FLOAT64) or not a.flags.c_contiguous:
        # A product with ones sums the columns on all cores; a strided sum would use one.
        return xp.matmul(xp.ones(a.shape[0], a.dtype), a)
    out = np.empty(a.shape[1], a.dtype)
    kernels.column_sums(a, out, num_threads())
    return out


def multiply(a: Array, b: Array, out: Array, add: bool = False) -> None:
    """out = a b, or out += a b, for stacks of matrices (s, m, k), (s, k, n), on this thread."""
    if _natively(a, b) and out.strides[-1] == out.itemsize:
        kernels.multiply(a, b, None, add, 1, out)
    elif add:
        out += np.matmul(a, b)
    else:
        np.matmul(a, b, out=out)


def _natively(a: Array, b: Array) -> bool:
    return variant in _VARIANTS and a.dtype == b.dtype == FLOAT32 and min(a.shape[-2], b.shape[-1]) >= _LEAST
