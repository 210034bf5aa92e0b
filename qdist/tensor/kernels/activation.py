"""Activation functions, softmax, cross-entropy and dropout, and their derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from qdist.native import kernels

from .. import random
from ..arrays import FLOAT32, FLOAT64, Array, as_rows, flat_alike
from ..threads import num_threads

# x P(x^2) / Q(x^2), fitted to minimise the largest error over |x| <= limit, for float32 only:
# the normal distribution function minus 1/2 (error 4e-9), and the slope of gelu minus 1/2 (error 1.4e-7).
_CDF = (
    5.3,
    (3.9894225e-1, 3.2935905e-2, 4.628001e-3, 1.6033577e-4, 6.379069e-6, 2.4050186e-8),
    (1.0, 2.492243e-1, 2.8138894e-2, 1.8365787e-3, 7.1352727e-5, 1.2371656e-6),
)
_GELU_SLOPE = (
    6.0,
    (7.9788453e-1, -3.0743409e-2, 1.4209171e-2, 2.4184757e-5, 3.5850581e-5, 1.9088492e-7),
    (1.0, 2.9480573e-1, 4.1064716e-2, 3.5287619e-3, 1.9352019e-4, 8.887474e-6),
)
_exact_erf = np.frompyfunc(math.erf, 1, 1)


def _rational(x: Array, fit: Any, out: Array, times: Array) -> None:
    """out = times * (1/2 + x P(x^2) / Q(x^2)), with x kept within the fit's limit."""
    limit, p, q = fit
    kernels.rational(x.reshape(-1), times.reshape(-1), limit, p, q, out.reshape(-1), num_threads())


def erf(xp: Any, a: Array) -> Any:
    if xp is not np:
        import cupyx.scipy.special

        # For half precision its result is double.
        return cupyx.scipy.special.erf(a).astype(a.dtype, copy=False), (a,)
    if a.dtype == FLOAT32:
        y = np.empty(a.shape, a.dtype)
        _rational(np.multiply(a, math.sqrt(2), order="C"), _CDF, y, np.full_like(y, 2))
        y -= 1
        return y, (a,)
    return np.asarray(_exact_erf(a)).astype(a.dtype), (a,)


def erf_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    (a,) = saved
    return (g * (2 / math.sqrt(math.pi)) * xp.exp(-a * a),)


def gelu(xp: Any, a: Array) -> Any:
    """a Phi(a), with Phi the normal distribution function."""
    if xp is np and a.dtype == FLOAT32:
        a = np.asarray(a, order="C")
        y = np.empty(a.shape, a.dtype)
        _rational(a, _CDF, y, a)
        return y, (a,)
    return a * (0.5 + 0.5 * erf(xp, a * math.sqrt(0.5))[0]), (a,)


def gelu_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    (a,) = saved
    if xp is np and a.dtype == FLOAT32:
        out = np.empty(a.shape, a.dtype)
        _rational(a, _GELU_SLOPE, out, np.asarray(g, order="C"))
        return (out,)
    cdf = 0.5 + 0.5 * erf(xp, a * math.sqrt(0.5))[0]
    return (g * (cdf + a * xp.exp(-0.5 * a * a) / math.sqrt(2 * math.pi)),)


def gelu_tanh(xp: Any, a: Array) -> Any:
    """The tanh form of gelu: a (1 + tanh(sqrt(2/pi) (a + 0.044715 a^3))) / 2."""
    t = xp.tanh(math.sqrt(2 / math.pi) * (a + 0.044715 * a * a * a))
    return 0.5 * a * (1 + t), (a, t)


def gelu_tanh_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    a, t = saved
    inner = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * a * a)
    return (g * 0.5 * (1 + t + a * (1 - t * t) * inner),)


def relu(xp: Any, a: Array) -> Any:
    y = xp.empty_like(a)
    flat = flat_alike(xp, a, y)
    if flat is None:
        y = xp.maximum(a, 0)
        return y, (y,)
    kernels.positive(flat[0], flat[1], num_threads())
    return y, (y,)


def relu_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    (y,) = saved
    out = xp.empty_like(y)
    flat = flat_alike(xp, g, y, out)
    if flat is None:
        return (g * (y > 0),)
    kernels.times_positive(flat[0], flat[1], flat[2], num_threads())
    return (out,)


def sigmoid(xp: Any, a: Array) -> Any:
    # tanh neither overflows nor loses the small side's sign.
    y = xp.tanh(a * 0.5)
    y = 0.5 * y + 0.5
    return y, (y,)


def sigmoid_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    (y,) = saved
    return (g * (y * (1 - y)),)


def silu(xp: Any, a: Array) -> Any:
    s = sigmoid(xp, a)[0]
    return a * s, (a, s)


def silu_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    a, s = saved
    return (g * (s * (1 + a * (1 - s))),)


def softplus(xp: Any, a: Array) -> Any:
    return xp.logaddexp(a, a.dtype.type(0)), (a,)


def softplus_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    return (g * sigmoid(xp, saved[0])[0],)


def natively(xp: Any, *arrays: Array) -> bool:
    """Whether kernels of rows take the arrays: contiguous in memory, of float32 or float64 alone."""
    return xp is np and all(
        a.dtype == arrays[0].dtype and a.dtype in (FLOAT32, FLOAT64) and a.flags.c_contiguous for a in arrays
    )


def softmax_rows(xp: Any, a: Array, out: Array, scale: float = 1.0, causal: bool = False) -> None:
    """Softmax of scale * a over the last axis of arrays contiguous in C's order: in another, what is written to their
    rows would be lost with a copy. out may be a. A row of -inf alone becomes zeros.

    causal: row i of the last two axes (m, n) is zero beyond column i + n - m.
    """
    if not a.size:
        return
    rows_a, rows_out = as_rows(a), as_rows(out)
    queries = a.shape[-2] if causal else 0
    if xp is np:
        softmax_block(rows_a, rows_out, scale, queries, num_threads())
    else:
        _softmax(xp, rows_a, rows_out, scale, queries)


def softmax_block(block: Array, result: Array, scale: float = 1.0, queries: int = 0, threads: int = 1) -> None:
    """Softmax of scale * each row of a NumPy array; result may be block. A row of -inf alone becomes zeros. queries:
    where rows are queries (row % queries) that see keys up to themselves + keys - queries; 0 where they see all."""
    if natively(np, block, result):
        kernels.softmax(block, scale, queries, result, threads)
    else:
        _softmax(np, block, result, scale, queries)


def _softmax(xp: Any, a: Array, out: Array, scale: float, queries: int) -> None:
    a = a if scale == 1.0 else a * a.dtype.type(scale)
    if queries:
        rows, width = a.shape
        last = xp.arange(rows) % queries + width - queries
        a = xp.where(xp.arange(width) <= last[:, None], a, a.dtype.type(-float("inf")))
    top = xp.max(a, axis=-1, keepdims=True)
    # NaNs stay, for the whole row to be one.
    top = xp.where(top == -float("inf"), a.dtype.type(0), top)
    xp.exp(a - top, out=out)
    total = xp.sum(out, axis=-1, keepdims=True)
    out /= xp.where(total == 0, a.dtype.type(1), total)


def softmax(xp: Any, a: Array, axis: int) -> Any:
    moved = xp.ascontiguousarray(xp.moveaxis(a, axis, -1))
    y = xp.empty_like(moved)
    softmax_rows(xp, moved, y)
    y = xp.moveaxis(y, -1, axis)
    return y, (y,)


def softmax_back_rows(xp: Any, g: Array, y: Array, out: Array, scale: float = 1.0) -> None:
    """out = scale y (g - <g, y>) over the last axis, for a softmax y with the cotangent g; out, which may be g, is
    contiguous in C's order."""
    if not y.size:
        return
    if xp is np:
        softmax_back_block(as_rows(g), as_rows(y), as_rows(out), scale, num_threads())
    else:
        _softmax_back(xp, g, y, out, scale)


def softmax_back_block(g: Array, y: Array, out: Array, scale: float, threads: int = 1) -> None:
    """The same for rows of NumPy arrays."""
    if natively(np, g, y, out):
        kernels.softmax_back(g, y, scale, out, threads)
    else:
        _softmax_back(np, g, y, out, scale)


def _softmax_back(xp: Any, g: Array, y: Array, out: Array, scale: float) -> None:
    xp.multiply(y * y.dtype.type(scale), g - xp.sum(g * y, axis=-1, keepdims=True), out=out)


def softmax_vjp(xp: Any, g: Array, saved: Any, needs: Any, axis: int) -> Any:
    (y,) = saved
    last_g, last_y = xp.moveaxis(g, axis, -1), xp.moveaxis(y, axis, -1)
    out = xp.empty(last_y.shape, y.dtype)
    softmax_back_rows(xp, xp.ascontiguousarray(last_g), last_y, out)
    return (xp.moveaxis(out, -1, axis),)


def log_softmax(xp: Any, a: Array, axis: int) -> Any:
    if not a.size:
        y = a.copy()
        return y, (y,)
    shifted = a - xp.max(a, axis=axis, keepdims=True)
    y = shifted - xp.log(xp.sum(xp.exp(shifted), axis=axis, keepdims=True))
    return y, (y,)


def log_softmax_vjp(xp: Any, g: Array, saved: Any, needs: Any, axis: int) -> Any:
    (y,) = saved
    return (g - xp.exp(y) * xp.sum(g, axis=axis, keepdims=True),)


def cross_entropy(xp: Any, logits: Array, targets: Array) -> Any:
    """-log softmax(logits)[target] for logits (n, classes) and integer targets (n,); gives (n,)."""
    if natively(xp, logits) and logits.size:
        p, loss = np.empty_like(logits), np.empty(targets.size, logits.dtype)
        places = np.ascontiguousarray(targets, np.int64)
        kernels.cross_entropy(logits, places, p, loss, num_threads())
        return loss, (p, places)
    logp = log_softmax(xp, logits, -1)[0]
    return -logp[xp.arange(targets.size), targets], (xp.exp(logp), targets)


def cross_entropy_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    p, targets = saved
    if natively(xp, p, g) and targets.dtype == np.int64 and p.size:
        out = np.empty_like(p)
        kernels.cross_entropy_back(g, p, targets, out, num_threads())
        return out, None
    grad = p.copy()
    grad[xp.arange(targets.size), targets] -= 1
    grad *= g[:, None]
    return grad, None


def binary_cross_entropy_logits(xp: Any, logits: Array, targets: Array) -> Any:
    """-(t log s + (1 - t) log(1 - s)) with s = sigmoid(logits), elementwise, for targets in [0, 1]."""
    loss = xp.maximum(logits, 0) - logits * targets + xp.log1p(xp.exp(-xp.abs(logits)))
    return loss, (logits, targets)


def binary_cross_entropy_logits_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    logits, targets = saved
    gx = g * (sigmoid(xp, logits)[0] - targets) if needs[0] else None
    return gx, (-g * logits if needs[1] else None)


def _held_logs(xp: Any, p: Array) -> tuple[Array, Array]:
    """log p and log(1 - p), held above -100 so that certainty stays finite."""
    with np.errstate(divide="ignore"):
        return xp.maximum(xp.log(p), -100), xp.maximum(xp.log1p(-p), -100)


def binary_cross_entropy(xp: Any, p: Array, targets: Array) -> Any:
    """-(t log p + (1 - t) log(1 - p)), elementwise, for p and t in [0, 1]."""
    yes, no = _held_logs(xp, p)
    return -(targets * yes + (1 - targets) * no), (p, targets)


def binary_cross_entropy_vjp(xp: Any, g: Array, saved: Any, needs: Any) -> Any:
    p, targets = saved
    gp = g * (p - targets) / xp.maximum(p * (1 - p), 1e-12)
    if not needs[1]:
        return gp, None
    yes, no = _held_logs(xp, p)
    return gp, g * (no - yes)


def dropout(xp: Any, a: Array, p: float, ticket: random.Ticket) -> Any:
    """Zero each element with probability p and scale the others; the same ticket gives the same mask."""
    keep, scale = random.keep_mask(xp, ticket, a.shape, p)
    y = a * keep
    y *= scale
    return y, (keep, scale)


def dropout_vjp(xp: Any, g: Array, saved: Any, needs: Any, p: float, ticket: random.Ticket) -> Any:
    keep, scale = saved
    ga = g * keep
    ga *= scale
    return (ga,)
