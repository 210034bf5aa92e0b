"""Scaled dot-product attention, rotary positions, and their derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import random
from ..arrays import Array
from . import attention_blocks
from .activation import softmax_back_rows, softmax_rows


def attention(
    xp: Any, q: Array, k: Array, v: Array, *mask: Array, scale: float, causal: bool, p: float, ticket: Any
) -> Any:
    """softmax(q k^T scale + mask) v over the last two axes.

    q is (..., m, d), k (..., n, d), v (..., n, e); the mask broadcasts to (..., m, n) and is either bool
    (True may be seen) or added to the scores. With `causal`, query i sees keys up to i + n - m. A query that
    may see nothing gives zeros. Weights are dropped with probability p.
    """
    if xp is np and not mask and p == 0 and attention_blocks.fits(q, k, v):
        out, weights = attention_blocks.attend(q, k, v, scale, causal)
        return out, (q, k, v, weights, None, None, 1.0)
    weights = _scores(xp, q, k)
    factor = scale
    if mask:
        weights *= scale
        factor = 1.0
        if mask[0].dtype == bool:
            masked = xp.where(mask[0], weights, weights.dtype.type(-float("inf")))
        else:
            masked = weights + mask[0]
        weights = xp.ascontiguousarray(masked)  # The mask has a say in their order in memory.
    softmax_rows(xp, weights, weights, factor, causal)
    keep, factor = random.keep_mask(xp, ticket, weights.shape, p) if p > 0 else (None, 1.0)
    dropped = weights if keep is None else weights * keep * factor
    # The heads' outputs lie side by side in memory, as the joining reshape after attention wants them.
    shape = (*dropped.shape[:-1], v.shape[-1])
    if dropped.ndim == 4 and v.shape[:2] == dropped.shape[:2]:
        out = xp.empty((shape[0], shape[2], shape[1], shape[3]), dropped.dtype).transpose(0, 2, 1, 3)
        xp.matmul(dropped, v, out=out)
    else:
        out = xp.matmul(dropped, v)
    return out, (q, k, v, weights, None if keep is None else dropped, keep, factor)


def _scores(xp: Any, a: Array, b: Array) -> Array:
    """a b^T over the last two axes, contiguous, so that its rows can be written to: matmul alone keeps the order in
    which the leading axes of a and b lie in memory."""
    last = b.swapaxes(-1, -2)
    return np.matmul(a, last, order="C") if xp is np else xp.ascontiguousarray(xp.matmul(a, last))


def attention_vjp(xp: Any, g: Array, saved: Any, needs: Any, scale: float, causal: bool, p: float, ticket: Any) -> Any:
    q, k, v, weights, dropped, keep, factor = saved
    if weights.ndim == 1:
        return attention_blocks.attend_vjp(g, q, k, v, weights, scale, causal)
    gv = xp.matmul((weights if dropped is None else dropped).swapaxes(-1, -2), g)
    scores = _scores(xp, g, v)
    if keep is not None:
        scores *= keep
        scores *= factor
    # A mask is added after the scores are scaled, so that its cotangent is not.
    masked = len(needs) > 3
    softmax_back_rows(xp, scores, weights, scores, 1.0 if masked else scale)
    gq = xp.matmul(scores, k) if needs[0] else None
    gk = xp.matmul(scores.swapaxes(-1, -2), q) if needs[1] else None
    if masked:
        gq, gk = (None if a is None else a * scale for a in (gq, gk))
    return (gq, gk, gv, scores)[: len(needs)]


def _turned(xp: Any, x: Array) -> Array:
    """(-x2, x1) for the halves x1, x2 of the last axis."""
    half = x.shape[-1] // 2
    return xp.concatenate([-x[..., half:], x[..., :half]], axis=-1)


def rotary(xp: Any, x: Array, cos: Array, sin: Array) -> Any:
    """Rotate the pairs (i, i + d / 2) of the last axis of x (..., positions, d) by angles whose cosines and sines are
    (positions, d), both halves alike."""
    return x * cos + _turned(xp, x) * sin, (cos, sin)


def rotary_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    cos, sin = saved
    return g * cos - _turned(xp, g * sin), None, None
