"""Kernels in C++ for what NumPy would do in several passes: against plain formulas, in every order of memory."""

import math
from typing import Any

import numpy as np
import pytest

from qdist.native import kernels
from qdist.tensor.kernels import activation, convolution
from qdist.tensor.kernels.optimizing import adam_step

DTYPES = [np.float32, np.float64]


def windows(x: np.ndarray, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]) -> Any:
    """Each window's place in the output, and the indices of its numbers in x, row by row."""
    h, w = x.shape[2:]
    for oy in range((h + 2 * padding[0] - kernel[0]) // stride[0] + 1):
        for ox in range((w + 2 * padding[1] - kernel[1]) // stride[1] + 1):
            top, left = oy * stride[0] - padding[0], ox * stride[1] - padding[1]
            places = [(top + i, left + j) for i in range(kernel[0]) for j in range(kernel[1])]
            yield oy, ox, [(y, x) for y, x in places if 0 <= y < h and 0 <= x < w]


def in_order(array: np.ndarray, order: tuple[int, ...]) -> np.ndarray:
    """The same array with its axes in another order of memory."""
    return np.ascontiguousarray(array.transpose(order)).transpose(np.argsort(order))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (1, 0, 2, 3), (2, 3, 1, 0)])
@pytest.mark.parametrize("size", [(9, 8), (4, 71)])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding"),
    [
        ((2, 2), (2, 2), (0, 0)),
        ((2, 2), (1, 2), (0, 0)),
        ((3, 3), (2, 2), (1, 1)),
        ((3, 2), (1, 3), (1, 0)),
        ((1, 1), (2, 1), (0, 0)),
    ],
)
def test_max_pooling_takes_the_first_largest_and_gives_it_the_cotangent(
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    size: tuple[int, int],
    order: tuple[int, ...],
    dtype: Any,
) -> None:
    rng = np.random.default_rng(0)
    x = in_order(
        rng.integers(-4, 4, (3, 2, *size)).astype(dtype), order
    )  # few different numbers, so that there are ties
    y, saved = convolution.max_pool2d(np, x, kernel, stride, padding)
    g = in_order(rng.normal(size=y.shape).astype(dtype), order)
    (gx,) = convolution.max_pool2d_vjp(np, g, saved, (True,), kernel, stride, padding)
    expected, cotangent = np.empty_like(y), np.zeros_like(x)
    for image in np.ndindex(x.shape[:2]):
        for oy, ox, places in windows(x, kernel, stride, padding):
            best = max(places, key=lambda place: x[image][place])
            expected[image][oy, ox] = x[image][best]
            cotangent[image][best] += g[image][oy, ox]
    np.testing.assert_array_equal(y, expected)
    np.testing.assert_allclose(gx, cotangent, rtol=1e-6)
    assert y.dtype == gx.dtype == dtype


def test_max_pooling_hands_on_what_is_not_a_number() -> None:
    x = np.zeros((1, 1, 4, 4), np.float32)
    x[0, 0, 1, 1] = x[0, 0, 2, 2] = np.nan
    y, _ = convolution.max_pool2d(np, x, (2, 2), (2, 2), (0, 0))
    np.testing.assert_array_equal(np.isnan(y[0, 0]), [[True, False], [False, True]])
    x = np.random.default_rng(3).normal(size=(1, 1, 2, 90))
    x[0, 0, 0, 6:60:7] = x[0, 0, 1, 15:80:9] = np.nan
    for dtype in DTYPES:
        y, _ = convolution.max_pool2d(np, x.astype(dtype), (2, 2), (2, 2), (0, 0))
        np.testing.assert_array_equal(y[0, 0, 0], x[0, 0].reshape(2, 45, 2).max(axis=(0, 2)).astype(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("orders", [((0, 1, 2), (0, 1, 2)), ((1, 0, 2), (1, 0, 2)), ((1, 0, 2), (2, 1, 0))])
def test_the_derivative_of_relu_in_every_order_of_memory(orders: tuple[Any, Any], dtype: Any) -> None:
    rng = np.random.default_rng(1)
    y, g = (in_order(rng.normal(size=(70, 80, 9)).astype(dtype), order) for order in orders)
    y = activation.relu(np, y)[0]
    g[0, 0, :3] = np.nan, np.inf, -np.inf
    with np.errstate(invalid="ignore"):
        expected = g * (y > 0)
    (found,) = activation.relu_vjp(np, g, (y,), (True,))
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_adam_in_one_pass(dtype: Any) -> None:
    rng = np.random.default_rng(2)
    p, g, m, v = rng.normal(size=(4, 1001)).astype(dtype)
    v = v * v
    before = [a.astype(np.float64) for a in (p, g, m, v)]
    adam_step(p, g, m, v, betas=(0.9, 0.999), root_scale=1.7, eps=1e-8, rate=0.02, keep=0.9, decay=0.3)
    slope = before[1] + 0.3 * before[0]
    mean, square = 0.9 * before[2] + 0.1 * slope, 0.999 * before[3] + 0.001 * slope**2
    tolerance = 100 * np.finfo(dtype).eps
    after = 0.9 * before[0] - 0.02 * mean / (1.7 * np.sqrt(square) + 1e-8)
    for found, expected in ((m, mean), (v, square), (p, after), (g, before[1])):
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_gelu_of_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    rational = kernels.rational
    monkeypatch.setattr(kernels, "rational", lambda x, *rest: calls.append(len(x)) or rational(x, *rest))
    a = np.concatenate([np.linspace(-12, 12, 50001), [np.inf, -np.inf, np.nan]]).astype(np.float32)
    y, saved = activation.gelu(np, a)
    exact = [x * 0.5 * (1 + math.erf(x / math.sqrt(2))) for x in a[:-3].astype(float)]
    np.testing.assert_allclose(y[:-3], exact, atol=2e-6)
    assert y[-3] == np.inf
    assert np.isnan(y[-1])
    (slope,) = activation.gelu_vjp(np, np.full_like(a, 2), saved, (True,))
    by_differences = np.gradient(np.array(exact), a[:-3].astype(float))
    np.testing.assert_allclose(slope[1:-4], 2 * by_differences[1:-1], atol=1e-3)
    assert sum(calls) == 2 * len(a)
