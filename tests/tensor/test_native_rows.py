"""Kernels in C++ for rows (softmax, cross entropy, layer norm, attention) and windows of images, against formulas."""

import math
from typing import Any

import numpy as np
import pytest

from qdist.native import kernels
from qdist.tensor.kernels import activation, attention, convolution, normalization

DTYPES = [np.float32, np.float64]


def close(found: Any, expected: Any, dtype: Any) -> None:
    tolerance = 2e-6 if dtype == np.float32 else 5e-15
    assert found.dtype == dtype
    scale = max(1.0, float(np.abs(expected).max())) if expected.size else 1.0
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)


def plain_softmax(a: np.ndarray) -> np.ndarray:
    a = a.astype(np.float64)
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 1), (5, 7), (300, 130), (2, 3, 33)])
def test_softmax_and_its_derivative(shape: tuple[int, ...], dtype: Any) -> None:
    rng = np.random.default_rng(0)
    a, g = (rng.normal(0, 5, shape).astype(dtype) for _ in range(2))
    y, saved = activation.softmax(np, a, -1)
    expected = plain_softmax(a)
    close(y, expected, dtype)
    (gx,) = activation.softmax_vjp(np, g, saved, (True,), axis=-1)
    close(gx, expected * (g - (g * expected).sum(-1, keepdims=True)), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_exponentials_are_exact_to_their_last_digits_and_small_ones_vanish(dtype: Any) -> None:
    """Through the softmax of two numbers, of which one is 0: e^x / (1 + e^x)."""
    x = -np.concatenate([np.geomspace(1e-6, 80, 999), [200.0, 1000.0, np.inf]]).astype(dtype)
    rows = np.stack([x, np.zeros_like(x)], axis=1)
    out = np.empty_like(rows)
    kernels.softmax(rows, 1.0, 0, out)
    exact = np.exp(x.astype(np.float64))
    np.testing.assert_allclose(out[:999, 0], (exact / (1 + exact))[:999], rtol=8 * np.finfo(dtype).eps)
    np.testing.assert_allclose(out[999:, 0], exact[999:], atol=1e-38)
    assert out[-1, 0] == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_softmax_of_rows_that_are_not_finite(dtype: Any) -> None:
    a = np.array([[-np.inf] * 3, [0, -np.inf, 0], [np.nan, 0, 0], [0, 0, np.nan]], dtype)
    y, _ = activation.softmax(np, a, -1)
    np.testing.assert_array_equal(y[:2], [[0, 0, 0], [0.5, 0, 0.5]])
    assert np.isnan(y[2:]).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("m", "n"), [(6, 6), (3, 7), (7, 3), (1, 5)])
def test_causal_attention_and_its_derivatives(m: int, n: int, dtype: Any) -> None:
    """Query i sees keys up to i + n - m; one that sees nothing gives zeros. Derivatives against differences."""
    rng = np.random.default_rng(1)
    q, k, v = (rng.normal(size=(2, 2, size, 4)).astype(dtype) for size in (m, n, n))
    options: dict[str, Any] = {"scale": 0.7, "causal": True, "p": 0.0, "ticket": None}

    def plain(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
        scores = 0.7 * np.einsum("...id,...jd->...ij", *(a.astype(np.float64) for a in (q, k)))
        seen = np.arange(n) <= np.arange(m)[:, None] + n - m
        e = np.where(seen, np.exp(scores), 0)
        total = e.sum(-1, keepdims=True)
        return (e / np.where(total == 0, 1, total)) @ v

    out, saved = attention.attention(np, q, k, v, **options)
    close(out, plain(q, k, v), dtype)
    g = rng.normal(size=out.shape).astype(dtype)
    found = attention.attention_vjp(np, g, saved, (True, True, True), **options)
    for which, derivative in enumerate(found):
        given = [a.astype(np.float64) for a in (q, k, v)]
        direction = rng.normal(size=given[which].shape)
        ahead, behind = ([*given[:which], given[which] + s * direction, *given[which + 1 :]] for s in (1e-6, -1e-6))
        slope = ((plain(*ahead) - plain(*behind)) * g).sum() / 2e-6
        assert (derivative * direction).sum() == pytest.approx(slope, rel=1e-4, abs=1e-4)
        assert derivative.dtype == dtype


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(1, 2), (64, 10), (3000, 37)])
def test_cross_entropy_and_its_derivative(shape: tuple[int, int], dtype: Any) -> None:
    rng = np.random.default_rng(2)
    logits = rng.normal(0, 30, shape).astype(dtype)
    targets = rng.integers(0, shape[1], shape[0])
    loss, saved = activation.cross_entropy(np, logits, targets)
    each = np.arange(shape[0])
    a = logits.astype(np.float64)
    top = a.max(-1)
    expected = np.log(np.exp(a - top[:, None]).sum(-1)) + top - a[each, targets]
    close(loss, expected, dtype)
    g = rng.normal(size=shape[0]).astype(dtype)
    found, nothing = activation.cross_entropy_vjp(np, g, saved, (True, False))
    p = plain_softmax(logits)
    p[each, targets] -= 1
    close(found, p * g[:, None], dtype)
    assert nothing is None


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("affine", [False, True])
@pytest.mark.parametrize("shape", [(1, 3), (700, 96)])
def test_layer_norm_and_its_derivatives(shape: tuple[int, int], affine: bool, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    x, g = (rng.normal(2, 3, shape).astype(dtype) for _ in range(2))
    weight, bias = (rng.normal(size=shape[1]).astype(dtype) for _ in range(2))
    given = (weight, bias) if affine else ()
    out, saved = normalization.layer_norm(np, x, *given, dims=1, eps=1e-5)
    exact = x.astype(np.float64)
    rstd = 1 / np.sqrt(exact.var(-1, keepdims=True) + 1e-5)
    hat = (exact - exact.mean(-1, keepdims=True)) * rstd
    close(out, hat * weight + bias if affine else hat, dtype)
    found = normalization.layer_norm_vjp(np, g, saved, (True,) * (1 + len(given)), dims=1, eps=1e-5)
    o = g * weight if affine else g.astype(np.float64)
    expected = [(o - o.mean(-1, keepdims=True) - hat * (o * hat).mean(-1, keepdims=True)) * rstd]
    expected += [(g * hat).sum(0), g.astype(np.float64).sum(0)] if affine else []
    assert len(found) == len(expected)
    for own, wanted in zip(found, expected):
        close(own, wanted, dtype)


def test_sums_over_rows_do_not_depend_on_who_is_first() -> None:
    """Derivatives by weight and bias, from many blocks on several threads, are the same bits every time."""
    rng = np.random.default_rng(4)
    x, g = (rng.normal(size=(5000, 64)).astype(np.float32) for _ in range(2))
    _, saved = normalization.layer_norm(np, x, *np.ones((2, 64), np.float32), dims=1, eps=1e-5)
    first, *others = (normalization.layer_norm_vjp(np, g, saved, (True,) * 3, dims=1, eps=1e-5) for _ in range(4))
    for other in others:
        for a, b in zip(first, other):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 0, 2, 3), (2, 3, 1, 0)])
@pytest.mark.parametrize("size", [(7, 6), (270, 4)])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation", "groups"),
    [
        ((3, 3), (1, 1), (1, 1), (1, 1), 1),
        ((3, 5), (1, 1), (0, 4), (1, 2), 1),
        ((3, 2), (2, 3), (2, 0), (1, 2), 2),
        ((1, 1), (1, 1), (0, 0), (1, 1), 4),
        ((2, 5), (3, 1), (1, 4), (3, 1), 1),
    ],
)
def test_convolution_and_its_derivatives(
    kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int, size: Any, order: Any, dtype: Any
) -> None:
    """Windows that lie partly or wholly in the padding, in every order of memory, against a sum over all places."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=(3, 4, *size)).astype(dtype)
    x = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
    weight = rng.normal(size=(8, 4 // groups, *kernel)).astype(dtype)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    y, saved = convolution.conv2d(np, x, weight, **options)
    g = rng.normal(size=y.shape).astype(dtype)
    gx, gw = convolution.conv2d_vjp(np, g, saved, (True, True), **options)
    wanted_y, wanted_x, wanted_w = (np.zeros(a.shape) for a in (y, x, weight))
    for oy, ox in np.ndindex(y.shape[2:]):
        for i, j in np.ndindex(*kernel):
            row, column = oy * stride[0] + i * dilation[0] - padding[0], ox * stride[1] + j * dilation[1] - padding[1]
            if not (0 <= row < size[0] and 0 <= column < size[1]):
                continue
            for group in range(groups):
                ins = slice(group * 4 // groups, (group + 1) * 4 // groups)
                outs = slice(group * 8 // groups, (group + 1) * 8 // groups)
                pixel, filters = x[:, ins, row, column].astype(np.float64), weight[outs, :, i, j]
                wanted_y[:, outs, oy, ox] += pixel @ filters.T
                wanted_x[:, ins, row, column] += g[:, outs, oy, ox] @ filters
                wanted_w[outs, :, i, j] += g[:, outs, oy, ox].T @ pixel
    for found, wanted in ((y, wanted_y), (gx, wanted_x), (gw, wanted_w)):
        close(found, wanted, dtype)


def test_what_kernels_refuse() -> None:
    rows, out = np.zeros((2, 3), np.float32), np.zeros((2, 3), np.float32)
    with pytest.raises(ValueError, match=r"out must have 2 numbers; got 1"):
        kernels.softmax(rows, 1.0, 0, out[:1])
    with pytest.raises(ValueError, match=r"a target must be from 0 to 2; got 3"):
        kernels.cross_entropy(rows, np.array([0, 3]), out, np.zeros(2, np.float32))
    with pytest.raises(ValueError, match=r"weight and bias come together"):
        kernels.layer_norm(rows, np.ones(3, np.float32), None, 1e-5, out, np.zeros(2, np.float32), out.copy())
    images = np.zeros((1, 1, 4, 4), np.float32)
    with pytest.raises(ValueError, match=r"a window that spans 5 does not fit 4 numbers"):
        kernels.gather_windows(images, (5, 1), (1, 1), (0, 0), (1, 1), np.zeros((5, 0), np.float32))
    with pytest.raises(ValueError, match=r"a row of out must have 9 numbers"):
        kernels.gather_windows(images, (2, 2), (1, 1), (0, 0), (1, 1), np.zeros((4, 8), np.float32))
    assert math.isclose(float(rows.sum()), 0.0)


@pytest.mark.parametrize(("rows", "width"), [(0, 3), (1, 512), (7, 5), (13, 512)])
def test_sums_of_words_along_rows_and_columns(rows: int, width: int) -> None:
    a = np.random.default_rng(1).integers(0, 1 << 64, (rows, width), np.uint64)
    along, across = np.ones(rows, np.uint64), np.ones(width, np.uint64)
    kernels.word_sums(a, along, across)
    np.testing.assert_array_equal(along, a.sum(axis=1))
    np.testing.assert_array_equal(across, a.sum(axis=0))


def each_on(threads: int) -> list[np.ndarray]:
    """What kernels give for arrays of several blocks, on so many threads."""
    rng = np.random.default_rng(2)
    found = []

    def new(*shape: int) -> np.ndarray:
        found.append(np.zeros(shape, np.float32))
        return found[-1]

    flat, rows = rng.normal(size=(4, 100_003)).astype("f"), rng.normal(size=(2, 500, 300)).astype("f")
    weight, targets = rng.normal(size=300).astype("f"), rng.integers(0, 300, 500)
    kernels.positive(flat[0], new(100_003), threads)
    kernels.times_positive(flat[0], flat[1], new(100_003), threads)
    state = [new(100_003) for _ in range(3)]
    kernels.adam(state[0], flat[1], state[1], state[2], 0.9, 0.99, 1.0, 1e-8, 0.1, 1.0, 0.01, threads)
    kernels.softmax(rows[0], 0.5, 250, new(500, 300), threads)
    kernels.softmax_back(rows[0], rows[1], 0.5, new(500, 300), threads)
    kernels.cross_entropy(rows[0], targets, new(500, 300), new(500), threads)
    kernels.cross_entropy_back(flat[0, :500].copy(), rows[1], targets, new(500, 300), threads)
    kernels.layer_norm(rows[0], weight, weight, 1e-5, new(500, 300), new(500), new(500, 300), threads)
    kernels.layer_norm_back(rows[0], rows[1], flat[0, :500].copy(), weight, new(500, 300), new(300), new(300), threads)
    images = rng.normal(size=(3, 40, 30, 32)).astype("f")
    kernels.gather_windows(images, (3, 2), (2, 1), (1, 0), (1, 2), new(18, 40 * 15 * 30), threads)
    kernels.add_windows(found[-1], (3, 2), (2, 1), (1, 0), (1, 2), new(3, 40, 30, 32), threads)
    places = np.zeros((3, 40, 15, 16), np.uint8)
    kernels.max_pool(images, (2, 2), (2, 2), new(3, 40, 15, 16), places, threads)
    kernels.max_pool_back(found[-1], places, (2, 2), (2, 2), new(3, 40, 30, 32), threads)
    return found


def test_threads_change_no_bit() -> None:
    alone = each_on(1)
    assert all(a.any() for a in alone)
    for threads in (2, 5):
        for a, b in zip(alone, each_on(threads), strict=True):
            np.testing.assert_array_equal(a, b)
