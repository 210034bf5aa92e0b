"""Matrix products and einsum, and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array, as_rows
from .arithmetic import conj
from .products import column_sums, product


def matmul(xp: Any, a: Array, b: Array) -> Any:
    if b.ndim == 2 and a.ndim > 1:
        # One large product instead of a batch of small ones.
        y = _product(xp, as_rows(a), b).reshape(*a.shape[:-1], b.shape[1])
        return y, (a, b)
    return xp.matmul(a, b), (a, b)


def matmul_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    a, b = saved
    ga = gb = None
    if a.ndim == 1 and b.ndim == 1:
        return g * conj(b), g * conj(a)
    if a.ndim == 1:
        g = xp.expand_dims(g, -2)
    elif b.ndim == 1:
        g = xp.expand_dims(g, -1)
    a2 = a[None, :] if a.ndim == 1 else a
    b2 = b[:, None] if b.ndim == 1 else b
    if needs[0]:
        if b2.ndim == 2:
            ga = _product(xp, as_rows(g), conj(b2).T).reshape(*g.shape[:-1], b2.shape[0])
        else:
            ga = xp.matmul(g, conj(b2).swapaxes(-1, -2))
        if a.ndim == 1:
            ga = ga[..., 0, :]
    if needs[1]:
        if b2.ndim == 2:
            gb = _product(xp, as_rows(conj(a2)).T, as_rows(g))
        else:
            gb = xp.matmul(conj(a2).swapaxes(-1, -2), g)
        if b.ndim == 1:
            gb = gb[..., 0]
    return ga, gb


def linear(xp: Any, x: Array, weight: Array, *bias: Array) -> Any:
    """x @ weight.T + bias for x (..., in), weight (out, in) and an optional bias (out,)."""
    y = _product(xp, as_rows(x), weight.T, *bias)
    return y.reshape(*x.shape[:-1], weight.shape[0]), (x, weight)


def linear_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    x, weight = saved
    g2 = as_rows(g)
    gx = _product(xp, g2, conj(weight)).reshape(x.shape) if needs[0] else None
    gw = _product(xp, g2.T, as_rows(conj(x))) if needs[1] else None
    if len(needs) == 2:
        return gx, gw
    return gx, gw, column_sums(xp, g2) if needs[2] else None


def _product(xp: Any, a: Array, b: Array, *row: Array) -> Array:
    """a (m, k) times b (k, n), plus a row in every row."""
    if xp is np:
        return product(a, b, *row)
    y = xp.matmul(a, b)
    if row:
        y += row[0]
    return y


def einsum(xp: Any, *operands: Array, subscripts: str) -> Any:
    """`subscripts` is explicit ("ij,jk->ik"), without ellipsis: `functional.einsum` expands those."""
    return xp.einsum(subscripts, *operands, optimize=True), operands


def einsum_vjp(xp: Any, g: Array, saved: Any, needs: Any, subscripts: str) -> Any:
    left, output = subscripts.split("->")
    terms = left.split(",")
    grads: list[Array | None] = []
    for i, (term, a) in enumerate(zip(terms, saved)):
        if not needs[i]:
            grads.append(None)
            continue
        sizes = dict(zip(term, a.shape))
        unique = "".join(dict.fromkeys(term))
        others = [conj(b) for j, b in enumerate(saved) if j != i]
        sources = [output] + [t for j, t in enumerate(terms) if j != i]
        # Letters that only this operand has were summed away: their cotangent is the same for every value.
        known = "".join(c for c in unique if any(c in source for source in sources))
        part = xp.einsum(",".join(sources) + "->" + known, g, *others, optimize=True)
        part = part.reshape([sizes[c] if c in known else 1 for c in unique])
        part = xp.broadcast_to(part, [sizes[c] for c in unique])
        if len(unique) < len(term):
            full = xp.zeros(a.shape, part.dtype)
            full[_diagonal_index(xp, term, unique, sizes)] = part
            part = full
        grads.append(part)
    return tuple(grads)


def _diagonal_index(xp: Any, term: str, unique: str, sizes: dict[str, int]) -> tuple:
    """Index arrays for the entries of an array labelled `term` where equal letters have equal values."""
    grids = dict(zip(unique, xp.ix_(*(xp.arange(sizes[c]) for c in unique))))
    return tuple(grids[c] for c in term)
