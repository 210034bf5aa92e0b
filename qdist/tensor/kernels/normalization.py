"""Layer norm, root-mean-square norm and batch norm, and their derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from qdist.native import kernels

from ..arrays import Array
from ..threads import num_threads, over_rows
from .activation import natively


def layer_norm(xp: Any, x: Array, *affine: Array, dims: int, eps: float) -> Any:
    """Normalise the last `dims` axes to mean 0 and variance 1, then apply `affine` (weight, bias)."""
    width = math.prod(x.shape[-dims:])
    source = x.reshape(math.prod(x.shape[:-dims]), width)
    hat = xp.empty_like(source)
    out = xp.empty_like(source)
    rstd = xp.empty((source.shape[0], 1), x.dtype)
    weight, bias = (a.reshape(width) for a in affine) if affine else (None, None)
    saved = hat, rstd, weight, tuple(a.shape for a in affine)
    if natively(xp, source, *(a.reshape(width) for a in affine)) and source.size > 0:
        kernels.layer_norm(source, weight, bias, eps, hat, rstd[:, 0], out, num_threads())
        return out.reshape(x.shape), saved

    def work(start: int, stop: int) -> None:
        h = hat[start:stop]
        xp.subtract(source[start:stop], source[start:stop].mean(axis=1, keepdims=True), out=h)
        r = 1 / xp.sqrt(xp.einsum("ij,ij->i", h, h) / width + eps)
        rstd[start:stop, 0] = r
        h *= rstd[start:stop]
        if weight is None:
            out[start:stop] = h
        else:
            xp.multiply(h, weight, out=out[start:stop])
            out[start:stop] += bias

    if source.size:
        over_rows(xp, work, source.shape[0], width)
    return out.reshape(x.shape), saved


def layer_norm_vjp(xp: Any, g: Array, saved: Any, needs: Any, dims: int, eps: float) -> Any:
    hat, rstd, weight, shapes = saved
    width = hat.shape[1]
    rows = g.reshape(hat.shape)
    out = xp.empty_like(hat)
    if needs[0] and hat.size and natively(xp, rows, hat, *(() if weight is None else (weight,))):
        gw, gb = np.zeros((2, width), hat.dtype)
        kernels.layer_norm_back(rows, hat, rstd[:, 0], weight, out, gw, gb, num_threads())
        return tuple(a.reshape(shape) for a, shape in zip((out, gw, gb), (g.shape, *shapes)))

    def work(start: int, stop: int) -> None:
        h, o = hat[start:stop], out[start:stop]
        if weight is None:
            o[...] = rows[start:stop]
        else:
            xp.multiply(rows[start:stop], weight, out=o)
        along = xp.einsum("ij,ij->i", o, h)[:, None] / width
        o -= o.mean(axis=1, keepdims=True)
        o -= h * along
        o *= rstd[start:stop]

    if needs[0] and hat.size:
        over_rows(xp, work, hat.shape[0], width)
    gx = out.reshape(g.shape) if needs[0] else None
    if not shapes:
        return (gx,)
    gw = xp.einsum("ij,ij->j", rows, hat).reshape(shapes[0]) if needs[1] else None
    gb = rows.sum(axis=0).reshape(shapes[1]) if needs[2] else None
    return gx, gw, gb


def rms_norm(xp: Any, x: Array, *weight: Array, dims: int, eps: float) -> Any:
    """Divide the last `dims` axes by their root mean square, then multiply by `weight`."""
    width = math.prod(x.shape[-dims:])
    source = x.reshape(math.prod(x.shape[:-dims]), width)
    hat = xp.empty_like(source)
    rrms = xp.empty((source.shape[0], 1), x.dtype)

    def work(start: int, stop: int) -> None:
        rows = source[start:stop]
        rrms[start:stop, 0] = 1 / xp.sqrt(xp.einsum("ij,ij->i", rows, rows) / width + eps)
        xp.multiply(rows, rrms[start:stop], out=hat[start:stop])

    if source.size:
        over_rows(xp, work, source.shape[0], width)
    out = hat * weight[0].reshape(width) if weight else hat.copy()
    return out.reshape(x.shape), (hat, rrms, weight[0] if weight else None)


def rms_norm_vjp(xp: Any, g: Array, saved: Any, needs: Any, dims: int, eps: float) -> Any:
    hat, rrms, weight = saved
    width = hat.shape[1]
    rows = g.reshape(hat.shape)
    gx = None
    if needs[0]:
        out = rows * weight.reshape(width) if weight is not None else rows.copy()
        out -= hat * (xp.einsum("ij,ij->i", out, hat)[:, None] / max(width, 1))
        out *= rrms
        gx = out.reshape(g.shape)
    if weight is None:
        return (gx,)
    return gx, (xp.einsum("ij,ij->j", rows, hat).reshape(weight.shape) if needs[1] else None)


def _channels(a: Array, ndim: int) -> Array:
    """(channels,) shaped to broadcast along axis 1 of an ndim-dimensional array."""
    return a.reshape(1, -1, *(1,) * (ndim - 2))


def batch_norm(xp: Any, x: Array, weight: Array, bias: Array, eps: float) -> Any:
    """Normalise every channel (axis 1) over all other axes.

    Gives [output, mean, variance]: the statistics, each (channels,), feed running averages.
    """
    axes = (0, *range(2, x.ndim))
    if not x.size:
        # Nothing has no mean, which NumPy would warn of.
        unknown = xp.full(x.shape[1], math.nan, x.dtype)
        return [x.copy(), unknown, unknown.copy()], (x, unknown, weight)
    mean = x.mean(axis=axes)
    centred = x - _channels(mean, x.ndim)
    variance = (centred * centred).mean(axis=axes)
    rstd = 1 / xp.sqrt(variance + eps)
    out = centred * _channels(rstd * weight, x.ndim) + _channels(bias, x.ndim)
    return [out, mean, variance], (centred, rstd, weight)


def batch_norm_vjp(xp: Any, g: Any, saved: Any, needs: Any, eps: float) -> Any:
    centred, rstd, weight = saved
    ndim = centred.ndim
    axes = (0, *range(2, ndim))
    count = math.prod(centred.shape[i] for i in axes)
    g_out, g_mean, g_variance = g
    gx = gw = gb = None
    along = xp.zeros_like(rstd)
    total = xp.zeros_like(rstd)
    if g_out is not None:
        along = (g_out * centred).sum(axis=axes)
        gb = total = g_out.sum(axis=axes)
        # The deviation of an empty batch is not a number, but nothing depends on the weight.
        gw = along * rstd if count else along
    if needs[0]:
        count = max(1, count)  # The gradient of nothing is nothing.
        # d/dx of the output through the variance and the mean, and of the two statistics themselves.
        slope = -along * weight * rstd**3 / count
        shift = -total * weight * rstd / count
        if g_variance is not None:
            slope = slope + 2 * g_variance / count
        if g_mean is not None:
            shift = shift + g_mean / count
        gx = centred * _channels(slope, ndim) + _channels(shift, ndim)
        if g_out is not None:
            gx += g_out * _channels(rstd * weight, ndim)
    return gx, gw, gb
