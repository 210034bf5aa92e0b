"""Reductions over axes and their derivatives. `axis` is a tuple of non-negative axes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..arrays import Array, expanded
from . import small_on_gpu

Axes = tuple[int, ...]


def _restore(xp: Any, g: Array, axis: Axes, keepdims: bool) -> Array:
    """Put reduced axes back as length one, so that g broadcasts against the input."""
    return g if keepdims or not axis or not g.ndim else xp.expand_dims(g, axis)


def sum_(xp: Any, a: Array, axis: Axes, keepdims: bool) -> Any:
    found = None if xp is np or keepdims or len(axis) < a.ndim else small_on_gpu.total(a)
    return (a.sum(axis=axis, keepdims=keepdims) if found is None else found), a.shape


def sum_vjp(xp: Any, g: Array, saved: Any, needs: Any, axis: Axes, keepdims: bool) -> Any:
    return (_spread(xp, g, saved, axis, keepdims),)


def _spread(xp: Any, g: Array, shape: tuple[int, ...], axis: Axes, keepdims: bool) -> Array:
    """The same number for all that were summed up."""
    if g.ndim == 0:
        return expanded(xp, g, shape)
    return xp.broadcast_to(_restore(xp, g, axis, keepdims), shape)


def mean(xp: Any, a: Array, axis: Axes, keepdims: bool) -> Any:
    if not a.size:
        return _mean_of_nothing(a, axis, keepdims), a.shape
    found = None if xp is np or keepdims or len(axis) < a.ndim else small_on_gpu.total(a, a.size)
    return (a.mean(axis=axis, keepdims=keepdims) if found is None else found), a.shape


def _mean_of_nothing(a: Array, axis: Axes, keepdims: bool) -> Array:
    """Not a number, without a word: a rank may have no rows of a batch."""
    with np.errstate(invalid="ignore"):
        quotient: Array = a.sum(axis=axis, keepdims=keepdims) / math.prod(a.shape[i] for i in axis)
    return quotient


def mean_vjp(xp: Any, g: Array, saved: Any, needs: Any, axis: Axes, keepdims: bool) -> Any:
    count = math.prod(saved[i] for i in axis) or 1
    return (_spread(xp, g / count, saved, axis, keepdims),)


def prod(xp: Any, a: Array, axis: Axes, keepdims: bool) -> Any:
    return xp.prod(a, axis=axis, keepdims=keepdims), (a,)


def prod_vjp(xp: Any, g: Array, saved: Any, needs: Any, axis: Axes, keepdims: bool) -> Any:
    """The product of all the others, from products before and after, so that zeros are exact."""
    (a,) = saved
    rest = tuple(i for i in range(a.ndim) if i not in axis)
    flat = a.transpose(rest + axis).reshape(*(a.shape[i] for i in rest), math.prod(a.shape[i] for i in axis))
    before = xp.ones_like(flat)
    after = xp.ones_like(flat)
    xp.cumprod(flat[..., :-1], axis=-1, out=before[..., 1:])
    xp.cumprod(flat[..., :0:-1], axis=-1, out=after[..., -2::-1])
    others = (before * after).reshape([a.shape[i] for i in rest + axis])
    order = rest + axis
    others = others.transpose([order.index(i) for i in range(a.ndim)])
    return (_restore(xp, g, axis, keepdims) * xp.conj(others),)


def _extreme(function: str) -> Any:
    def forward(xp: Any, a: Array, axis: Axes, keepdims: bool) -> Any:
        y = getattr(xp, function)(a, axis=axis, keepdims=keepdims)
        return y, (a, y)

    return forward


max_ = _extreme("max")
min_ = _extreme("min")


def extreme_vjp(xp: Any, g: Array, saved: Any, needs: Any, axis: Axes, keepdims: bool) -> Any:
    """max and min; equal extremes share the cotangent equally."""
    a, y = saved
    hit = a == _restore(xp, y, axis, keepdims)
    count = xp.sum(hit, axis=axis, keepdims=True, dtype=g.dtype)
    return (hit * (_restore(xp, g, axis, keepdims) / count),)


def logsumexp(xp: Any, a: Array, axis: Axes, keepdims: bool) -> Any:
    # Of nothing at all there is no largest number, but a sum.
    top = (xp.max if a.size else xp.sum)(a, axis=axis, keepdims=True)
    # A row of -inf has the logarithm -inf, not NaN.
    top = xp.where(xp.isfinite(top), top, a.dtype.type(0))
    y = xp.log(xp.sum(xp.exp(a - top), axis=axis, keepdims=True)) + top
    return (y if keepdims else xp.squeeze(y, axis)), (a, y)


def logsumexp_vjp(xp: Any, g: Array, saved: Any, needs: Any, axis: Axes, keepdims: bool) -> Any:
    a, y = saved
    return (_restore(xp, g, axis, keepdims) * xp.exp(a - y),)


def cumsum(xp: Any, a: Array, axis: int) -> Any:
    # Of integers in 64 bits, as their sum.
    return xp.cumsum(a, axis=axis), ()


def cumsum_vjp(xp: Any, g: Array, saved: Any, needs: Any, axis: int) -> Any:
    return (xp.flip(xp.cumsum(xp.flip(g, axis), axis=axis, dtype=g.dtype), axis),)


def argmax(xp: Any, a: Array, axis: int | None) -> Any:
    return xp.argmax(a, axis=axis), ()


def argmin(xp: Any, a: Array, axis: int | None) -> Any:
    return xp.argmin(a, axis=axis), ()
