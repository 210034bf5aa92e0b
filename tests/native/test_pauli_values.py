"""The value of one observable by the tables of its product: every kind of pass, against NumPy and the sums by slots."""

from typing import Any

import numpy as np
import pytest

from qdist.native import kernels

BITS, FAR = 11, 2
"""Of a shard, and of the indices above it."""


def parities(masks: np.ndarray, index: np.ndarray) -> np.ndarray:
    overlap = masks & index
    for shift in (16, 8, 4, 2, 1):
        overlap = overlap ^ overlap >> np.uint64(shift)
    return 1.0 - 2.0 * (overlap & np.uint64(1))


def excitations(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Strings of random double excitations: each acts on two of the sixteen patterns of four bits, with the sign of the
    bits between them; and of single excitations, each with a Z on every other bit, also of those beyond the shard."""
    x, z, c = [], [], []
    for k in range(count):
        bits = sorted(rng.choice(BITS, 2 + 2 * (k % 2), replace=False).tolist())
        chain = sum(1 << b for p, q in zip(bits[::2], bits[1::2]) for b in range(p + 1, q))
        flips = sum(1 << b for b in bits)
        pattern = int(rng.integers(1 << len(bits)))
        # The projector onto a pattern and its opposite is a sum over all even subsets of Z's, with signs.
        subsets = [s for s in range(1 << len(bits)) if s.bit_count() % 2 == 0]
        others = [0] if len(bits) == 4 else [0, *(1 << b for b in range(BITS + FAR) if b not in bits)]
        weight = rng.normal(size=len(others)) / len(subsets)
        for other, coefficient in zip(others, weight):
            for s in subsets:
                x.append(flips)
                z.append(chain ^ other ^ sum(1 << b for j, b in enumerate(bits) if s >> j & 1))
                c.append(coefficient * (-1) ** (s & pattern).bit_count())
    return np.array(x, np.uint64), np.array(z, np.uint64), np.array(c)


def random_strings(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    masks = rng.integers(0, 1 << BITS, 8, dtype=np.uint64)
    x = rng.choice(np.append(masks, np.uint64(0)), 300)
    return x, rng.integers(0, 1 << BITS + FAR, 300, dtype=np.uint64), rng.normal(size=300)


def value(x: np.ndarray, z: np.ndarray, factors: np.ndarray, ket: np.ndarray, first: int) -> float:
    """<ket| sum_k factors[k] X^x[k] Z^z[k] |ket>, by strings; the index of the ket's first amplitude is ``first``."""
    index = np.arange(len(ket), dtype=np.uint64)
    total = 0j
    for flips, signs, factor in zip(x, z, factors):
        flipped = np.empty_like(ket)
        flipped[index ^ flips] = parities(signs, index + np.uint64(first)) * ket
        total += factor * np.vdot(ket, flipped)
    return total.real


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("tile_bits", [6, 8, 12])
@pytest.mark.parametrize("kind", ["excitations", "random"])
def test_values_equal_the_sums_of_their_strings(kind: str, tile_bits: int, dtype: Any) -> None:
    rng = np.random.default_rng(tile_bits)
    x, z, factors = excitations(rng, 24) if kind == "excitations" else random_strings(rng)
    # Coefficients belong to products of X, Y and Z: i^|x & z| of each makes a Hermitian sum of them.
    number_of_y = np.array([int(v).bit_count() for v in x & z])
    if kind == "excitations":
        assert not (number_of_y % 2).any()
        coefficients = factors * (1j**number_of_y).real.round()
    else:
        coefficients, factors = factors, factors * 1j**number_of_y
    ket = (rng.normal(size=1 << BITS) + 1j * rng.normal(size=1 << BITS)).astype(dtype)
    ket /= np.linalg.norm(ket)
    strings = x, z, coefficients.astype(complex), np.zeros(len(x), np.int64), 1
    plans = [kernels.PauliPlan(BITS, *strings, tile_bits, as_product) for as_product in (False, True)]
    tolerance = (1e-5 if dtype == np.complex64 else 1e-12) * (1 + np.abs(factors).sum())
    for shard in range(1 << FAR):
        first = shard << BITS
        expected = value(x, z, factors, ket.astype(np.complex128), first)
        for plan in plans:
            found = np.zeros(1)
            plan.add_expectations(ket, first, found)
            assert found[0] == pytest.approx(expected, abs=tolerance)
        product, found = np.empty_like(ket), np.zeros(1)
        plans[0].apply(ket, first, np.array([2.0]), product, False, found)
        assert found[0] == pytest.approx(expected, abs=tolerance)
        assert np.vdot(ket, product).real == pytest.approx(2 * expected, abs=2 * tolerance)
