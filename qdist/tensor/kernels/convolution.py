"""2-D convolution and pooling over (n, channels, height, width), and their derivatives.

Convolution copies every kernel window into one matrix ("im2col") and multiplies once for each group. The
matrix is laid out (channels, window, n, out height, out width), so its product is (filters, n, ...) in memory
and is handed on as a transposed view: the next layer reads it just as well and no pass is spent on
reordering.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from qdist.native import kernels

from ..arrays import FLOAT32, FLOAT64, Array
from ..threads import num_threads
from .products import products

Pair = tuple[int, int]


def output_size(size: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
    """Positions of a kernel along one axis.

    Raises:
        ValueError: when the kernel is larger than the padded input, and for sizes and steps that are none.
    """
    _check_steps(kernel, stride, padding, dilation)
    span = dilation * (kernel - 1) + 1
    if size + 2 * padding < span:
        raise ValueError(f"a kernel that spans {span} does not fit an input of {size} with padding {padding}")
    return (size + 2 * padding - span) // stride + 1


def transposed_size(size: int, kernel: int, stride: int, padding: int, dilation: int, extra: int) -> int:
    """Length that a transposed convolution gives along one axis.

    Raises:
        ValueError: when the padding takes all of it away, and for sizes and steps that are none.
    """
    _check_steps(kernel, stride, padding, dilation)
    length = (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + 1 + extra
    if length < 1:
        raise ValueError(f"a transposed kernel of {kernel} with padding {padding} leaves nothing of an input of {size}")
    return length


def _check_steps(kernel: int, stride: int, padding: int, dilation: int) -> None:
    if kernel < 1 or stride < 1 or dilation < 1 or padding < 0:
        raise ValueError(
            f"a kernel of {kernel} with stride {stride}, dilation {dilation} and padding {padding}: the first three "
            "are at least 1, and the padding is not negative"
        )


def _pad(xp: Any, x: Array, padding: Pair, value: float = 0.0) -> Array:
    if padding == (0, 0):
        return x
    n, c, h, w = x.shape
    # Channels outermost in memory, as the products come out.
    out = xp.full((c, n, h + 2 * padding[0], w + 2 * padding[1]), value, x.dtype).transpose(1, 0, 2, 3)
    out[:, :, padding[0] : padding[0] + h, padding[1] : padding[1] + w] = x
    return out


def _windows(xp: Any, x: Array, kernel: Pair, stride: Pair, dilation: Pair) -> Array:
    """A view (n, c, kernel height, kernel width, out height, out width) of all windows of a padded x."""
    n, c, h, w = x.shape
    oh = output_size(h, kernel[0], stride[0], 0, dilation[0])
    ow = output_size(w, kernel[1], stride[1], 0, dilation[1])
    sn, sc, sh, sw = x.strides
    return xp.lib.stride_tricks.as_strided(
        x,
        (n, c, *kernel, oh, ow),
        (sn, sc, sh * dilation[0], sw * dilation[1], sh * stride[0], sw * stride[1]),
    )


def _add_windows(grad: Array, parts: Array, stride: Pair, dilation: Pair) -> None:
    """Add window cotangents (n, c, kh, kw, oh, ow) back onto the padded input's, the reverse of _windows."""
    kh, kw, oh, ow = parts.shape[2:]
    for i in range(kh):
        top = i * dilation[0]
        for j in range(kw):
            left = j * dilation[1]
            grad[:, :, top : top + stride[0] * oh : stride[0], left : left + stride[1] * ow : stride[1]] += parts[
                :, :, i, j
            ]


def _crop(grad: Array, padding: Pair) -> Array:
    h, w = grad.shape[2:]
    return grad[:, :, padding[0] : h - padding[0], padding[1] : w - padding[1]]


def _windows_natively(xp: Any, x: Array) -> bool:
    return xp is np and x.dtype in (FLOAT32, FLOAT64) and x.size > 0


def _columns(xp: Any, x: Array, kernel: Pair, stride: Pair, padding: Pair, dilation: Pair) -> tuple[Array, Pair]:
    """The matrix (channels * window, n * outputs) of all windows, and the numbers of outputs."""
    if not _windows_natively(xp, x):
        windows = _windows(xp, _pad(xp, x, padding), kernel, stride, dilation)
        n, c, kh, kw, oh, ow = windows.shape
        return xp.ascontiguousarray(windows.transpose(1, 2, 3, 0, 4, 5)).reshape(c * kh * kw, n * oh * ow), (oh, ow)
    images = x.transpose(1, 0, 2, 3)
    if images.strides[3] != images.itemsize and images.shape[3] > 1:
        images = np.ascontiguousarray(images)
    c, n, h, w = images.shape
    oh, ow = (output_size(m, k, s, p, d) for m, k, s, p, d in zip((h, w), kernel, stride, padding, dilation))
    columns = np.empty((c * kernel[0] * kernel[1], n * oh * ow), x.dtype)
    kernels.gather_windows(images, kernel, stride, padding, dilation, columns, num_threads())
    return columns, (oh, ow)


def _images(
    xp: Any,
    parts: Array,
    shape: tuple[int, ...],
    kernel: Pair,
    outputs: Pair,
    stride: Pair,
    padding: Pair,
    dilation: Pair,
) -> Array:
    """The sum of windows' cotangents, a matrix as of ``_columns``, over images of a shape (n, c, h, w)."""
    n, c, h, w = shape
    if _windows_natively(xp, parts):
        images = np.zeros((c, n, h, w), parts.dtype)
        kernels.add_windows(parts, kernel, stride, padding, dilation, images, num_threads())
        return images.transpose(1, 0, 2, 3)
    padded = xp.zeros((c, n, h + 2 * padding[0], w + 2 * padding[1]), parts.dtype).transpose(1, 0, 2, 3)
    windows = parts.reshape(c, *kernel, n, *outputs).transpose(3, 0, 1, 2, 4, 5)
    _add_windows(padded, windows, stride, dilation)
    return _crop(padded, padding)


def _matrices(weight: Array, groups: int) -> Array:
    """A matrix for each group, of any sizes, which may be 0: a row for each filter, or channel of a transpose."""
    return weight.reshape(groups, weight.shape[0] // groups, math.prod(weight.shape[1:]))


def conv2d(
    xp: Any, x: Array, weight: Array, *bias: Array, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Any:
    """x (n, c, h, w) with weight (filters, c / groups, kh, kw) gives (n, filters, oh, ow)."""
    n = x.shape[0]
    columns, (oh, ow) = _columns(xp, x, weight.shape[2:], stride, padding, dilation)
    columns = columns.reshape(groups, columns.shape[0] // groups, columns.shape[1])
    y = products(xp, _matrices(weight, groups), columns)
    y = y.reshape(weight.shape[0], n, oh, ow)
    if bias:
        y += bias[0][:, None, None, None]
    return y.transpose(1, 0, 2, 3), (x.shape, weight, columns)


def conv2d_vjp(
    xp: Any, g: Array, saved: Any, needs: Any, stride: Pair, padding: Pair, dilation: Pair, groups: int
) -> Any:
    (n, c, h, w), weight, columns = saved
    filters, _, kh, kw = weight.shape
    oh, ow = g.shape[2:]
    rows = xp.ascontiguousarray(g.transpose(1, 0, 2, 3)).reshape(groups, filters // groups, n * oh * ow)
    gx = gw = None
    if needs[0]:
        parts = products(xp, _matrices(weight, groups).conj().swapaxes(1, 2), rows)
        parts = parts.reshape(c * kh * kw, n * oh * ow)
        gx = _images(xp, parts, (n, c, h, w), (kh, kw), (oh, ow), stride, padding, dilation)
    if needs[1]:
        gw = products(xp, rows, columns.conj().swapaxes(1, 2)).reshape(weight.shape)
    if len(needs) == 2:
        return gx, gw
    return gx, gw, (rows.sum(axis=-1).reshape(filters) if needs[2] else None)


def conv_transpose2d(
    xp: Any,
    x: Array,
    weight: Array,
    *bias: Array,
    stride: Pair,
    padding: Pair,
    extra: Pair,
    dilation: Pair,
    groups: int,
) -> Any:
    """x (n, c, h, w) with weight (c, filters / groups, kh, kw) gives (n, filters, oh, ow): what conv2d's derivative
    does to a cotangent. extra: rows and columns more at the end."""
    n, c, h, w = x.shape
    _, each, kh, kw = weight.shape
    rows = xp.ascontiguousarray(x.transpose(1, 0, 2, 3)).reshape(groups, c // groups, n * h * w)
    parts = products(xp, _matrices(weight, groups).swapaxes(1, 2), rows)
    parts = parts.reshape(groups * each, kh, kw, n, h, w).transpose(3, 0, 1, 2, 4, 5)
    size = [(m - 1) * s + d * (k - 1) + 1 + e for m, s, d, k, e in zip((h, w), stride, dilation, (kh, kw), extra)]
    padded = xp.zeros((groups * each, n, *size), x.dtype).transpose(1, 0, 2, 3)
    _add_windows(padded, parts, stride, dilation)
    y = _crop(padded, padding)
    if bias:
        y = y + bias[0][:, None, None]
    return y, (rows, weight, x.shape)


def conv_transpose2d_vjp(
    xp: Any,
    g: Array,
    saved: Any,
    needs: Any,
    stride: Pair,
    padding: Pair,
    extra: Pair,
    dilation: Pair,
    groups: int,
) -> Any:
    rows, weight, (n, c, h, w) = saved
    size = groups, math.prod(weight.shape[1:]), n * h * w
    if rows.size:
        windows = _windows(xp, _pad(xp, g, padding), weight.shape[2:], stride, dilation)[..., :h, :w]
        columns = xp.ascontiguousarray(windows.transpose(1, 2, 3, 0, 4, 5)).reshape(size)
    else:
        columns = xp.zeros(size, g.dtype)  # A kernel need not fit what no input was spread over.
    gx = gw = None
    if needs[0]:
        gx = products(xp, _matrices(weight, groups).conj(), columns)
        gx = gx.reshape(c, n, h, w).transpose(1, 0, 2, 3)
    if needs[1]:
        gw = products(xp, rows.conj(), columns.swapaxes(1, 2)).reshape(weight.shape)
    if len(needs) == 2:
        return gx, gw
    return gx, gw, (g.sum(axis=(0, 2, 3)) if needs[2] else None)


def _natively(xp: Any, x: Array, kernel: Pair) -> bool:
    """Whether the native kernels of max_pool2d take it: places in a window are bytes."""
    return _windows_natively(xp, x) and kernel[0] * kernel[1] <= 256


def max_pool2d(xp: Any, x: Array, kernel: Pair, stride: Pair, padding: Pair) -> Any:
    padded = _pad(xp, x, padding, -float("inf"))
    if _natively(xp, padded, kernel):
        # Channels outermost in memory, as the products come out.
        images = padded.transpose(1, 0, 2, 3)
        if images.strides[3] != images.itemsize:
            images = np.ascontiguousarray(images)
        c, n, h, w = images.shape
        size = output_size(h, kernel[0], stride[0], 0), output_size(w, kernel[1], stride[1], 0)
        largest, places = np.empty((c, n, *size), x.dtype), np.empty((c, n, *size), np.uint8)
        kernels.max_pool(images, kernel, stride, largest, places, num_threads())
        return largest.transpose(1, 0, 2, 3), (x.shape, places.transpose(1, 0, 2, 3))
    windows = _windows(xp, padded, kernel, stride, (1, 1))
    best = windows[:, :, 0, 0].copy(order="K")
    positions = kernel[0] * kernel[1]
    small = xp.uint8 if positions <= 256 else xp.int32
    winner = xp.zeros_like(best, dtype=small)
    for index in range(1, positions):
        candidate = windows[:, :, index // kernel[1], index % kernel[1]]
        # Positions only grow, so the larger one is the later winner; much faster than a masked assignment.
        xp.maximum(winner, (candidate > best) * small(index), out=winner)
        xp.maximum(best, candidate, out=best)
    return best, (x.shape, winner)


def max_pool2d_vjp(xp: Any, g: Array, saved: Any, needs: Any, kernel: Pair, stride: Pair, padding: Pair) -> Any:
    (n, c, h, w), winner = saved
    padded = xp.zeros((c, n, h + 2 * padding[0], w + 2 * padding[1]), g.dtype).transpose(1, 0, 2, 3)
    if _natively(xp, g, kernel):
        images, outputs, places = (a.transpose(1, 0, 2, 3) for a in (padded, g, winner))
        if outputs.strides[3] != outputs.itemsize:
            outputs = np.ascontiguousarray(outputs)
        kernels.max_pool_back(outputs, places, kernel, stride, images, num_threads())
        return (_crop(padded, padding),)
    oh, ow = g.shape[2:]
    apart = stride[0] >= kernel[0] and stride[1] >= kernel[1]
    for index in range(kernel[0] * kernel[1]):
        i, j = divmod(index, kernel[1])
        place = padded[:, :, i : i + stride[0] * oh : stride[0], j : j + stride[1] * ow : stride[1]]
        if apart:
            xp.multiply(g, winner == index, out=place)
        else:
            place += g * (winner == index)
    return (_crop(padded, padding),)


def avg_pool2d(xp: Any, x: Array, kernel: Pair, stride: Pair, padding: Pair) -> Any:
    windows = _windows(xp, _pad(xp, x, padding), kernel, stride, (1, 1))
    total = windows[:, :, 0, 0].copy(order="K")
    for index in range(1, kernel[0] * kernel[1]):
        total += windows[:, :, index // kernel[1], index % kernel[1]]
    total *= 1 / (kernel[0] * kernel[1])
    return total, x.shape


def avg_pool2d_vjp(xp: Any, g: Array, saved: Any, needs: Any, kernel: Pair, stride: Pair, padding: Pair) -> Any:
    n, c, h, w = saved
    padded = xp.zeros((c, n, h + 2 * padding[0], w + 2 * padding[1]), g.dtype).transpose(1, 0, 2, 3)
    share = g * (1 / (kernel[0] * kernel[1]))
    parts = xp.broadcast_to(share[:, :, None, None], (n, c, *kernel, *g.shape[2:]))
    _add_windows(padded, parts, stride, (1, 1))
    return (_crop(padded, padding),)
