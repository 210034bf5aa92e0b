"""Matrix products by the native kernel, beside NumPy's in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from qdist.native import kernels
from qdist.tensor.kernels import products

RNG = np.random.default_rng(5)
SIZES = [(1, 1, 1), (3, 40, 7), (12, 32, 512), (13, 33, 513), (100, 1100, 30), (205, 64, 1030), (64, 128, 32)]
# Few rows and more steps than are laid out at once, the same with many rows; few columns; few numbers of many steps.
SIZES += [(20, 500, 2100), (220, 40, 2100), (300, 9, 100), (9, 16, 2900), (40, 20, 2900)]
SIZES += [(m, 70, 40) for m in (14, 16, 20, 22, 34)]  # Last rows that are a third of a panel, two thirds, and between.


def numbers(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def in_orders(a: np.ndarray) -> list[np.ndarray]:
    """The same numbers along rows, along columns, and with gaps between them."""
    apart = np.zeros((a.shape[0], 2 * a.shape[1]), a.dtype)
    apart[:, ::2] = a
    return [a, np.asfortranarray(a), apart[:, ::2]]


def close(got: np.ndarray, a: np.ndarray, b: np.ndarray, plus: Any = 0.0) -> None:
    want = a.astype(np.float64) @ b + plus
    np.testing.assert_allclose(got, want, atol=1e-6 * np.sqrt(a.shape[-1]) * 10)


@pytest.mark.parametrize(("m", "n", "k"), SIZES)
def test_products_of_any_size_and_order_of_numbers(m: int, n: int, k: int) -> None:
    a, b, row = numbers(m, k), numbers(k, n), numbers(n)
    for left in in_orders(a):
        for right in in_orders(b):
            for threads in (1, 3):
                wide = np.full((m, n + 5), np.nan, np.float32)
                out = wide[:, :n]
                kernels.multiply(left[None], right[None], row, False, threads, out[None])
                close(out, a, b, row)
                assert np.isnan(wide[:, n:]).all()  # Nothing is written beside it.
                before = out.copy()
                kernels.multiply(left[None], right[None], None, True, threads, out[None])
                close(out - before, a, b)


def test_stacks_of_strided_matrices() -> None:
    a, b = numbers(2, 40, 3, 20), numbers(2, 3, 20, 50)
    out = np.empty((40, 3, 50), np.float32).transpose(1, 0, 2)
    kernels.multiply(a[1].transpose(1, 0, 2), b[1], None, False, 1, out)
    close(out, a[1].transpose(1, 0, 2), b[1])


def test_a_number_depends_neither_on_threads_nor_on_what_is_beside_it() -> None:
    a, b = numbers(301, 2100), numbers(2100, 77)
    whole = np.empty((301, 77), np.float32)
    kernels.multiply(a[None], b[None], None, False, 1, whole[None])
    for threads, rows, columns in ((2, 301, 77), (4, 33, 77), (1, 100, 5), (3, 16, 9)):
        part = np.empty((rows, columns), np.float32)
        kernels.multiply(a[None, :rows], b[None, :, :columns], None, False, threads, part[None])
        np.testing.assert_array_equal(part, whole[:rows, :columns])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("m", "n"), [(0, 5), (1, 1), (130, 3), (65, 64), (1000, 517)])
def test_sums_of_columns(dtype: str, m: int, n: int) -> None:
    a = numbers(m, n).astype(dtype)
    want = a.sum(axis=0, dtype=np.float64)
    found = []
    for threads in (1, 3):
        found.append(np.full(n, np.nan, dtype))
        kernels.column_sums(a, found[-1], threads)
        np.testing.assert_allclose(found[-1], want, atol=8 * np.sqrt(m + 1) * np.finfo(dtype).eps)
    np.testing.assert_array_equal(*found)
    np.testing.assert_array_equal(products.column_sums(np, a), found[0])
    np.testing.assert_allclose(products.column_sums(np, a.T), a.sum(axis=1, dtype=np.float64), atol=1e-4)


def test_what_is_not_finite_stays_in_its_row_or_column() -> None:
    a, b = numbers(40, 20), numbers(20, 45)
    a[7, 3], b[4, 11] = np.nan, np.inf
    got = products.product(a, b)
    assert np.isnan(got[7]).all()
    assert np.isinf(np.delete(got[:, 11], 7)).all()
    assert np.isfinite(np.delete(np.delete(got, 7, 0), 11, 1)).all()


def test_no_steps_give_what_is_added() -> None:
    a, b, row = numbers(35, 0), numbers(0, 9), numbers(9)
    np.testing.assert_array_equal(products.product(a, b, row), np.broadcast_to(row, (35, 9)))
    np.testing.assert_array_equal(products.product(a, b), np.zeros((35, 9)))


@pytest.mark.parametrize("dtype", [np.float64, np.complex64, np.complex128])
def test_other_numbers_are_multiplied_by_numpy(dtype: Any) -> None:
    a, b, row = (numbers(*shape).astype(dtype) for shape in ((40, 6), (6, 5), (5,)))
    got = products.product(a, b, row)
    assert got.dtype == dtype
    np.testing.assert_allclose(got, a @ b + row, rtol=1e-6)
    out = np.ones((1, 40, 5), dtype)
    products.multiply(a[None], b[None], out, add=True)
    np.testing.assert_allclose(out[0], a @ b + 1, rtol=1e-5)


@pytest.mark.parametrize("shapes", [((1, 4, 3), (1, 2, 5), (1, 4, 5)), ((2, 4, 3), (1, 3, 5), (2, 4, 5))])
def test_sizes_that_do_not_fit_are_refused(shapes: Any) -> None:
    a, b, out = (numbers(*shape) for shape in shapes)
    with pytest.raises(ValueError):
        kernels.multiply(a, b, None, False, 1, out)


def test_an_output_with_gaps_or_no_threads_is_refused() -> None:
    a, b = numbers(1, 4, 3), numbers(1, 3, 5)
    with pytest.raises(ValueError, match="contiguous"):
        kernels.multiply(a, b, None, False, 1, np.empty((1, 4, 10), np.float32)[:, :, ::2])
    with pytest.raises(ValueError, match="threads"):
        kernels.multiply(a, b, None, False, 0, np.empty((1, 4, 5), np.float32))
