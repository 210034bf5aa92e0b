"""What the tests of states share: random states, layouts and observables, and a look at amplitudes on any device."""

from functools import lru_cache
from typing import Any

import numpy as np

from qdist.circuit import PauliSum
from qdist.circuit.library.molecules import Molecule
from qdist.plan import Layout

DTYPES = ["complex64", "complex128"]
TOLERANCE = {"complex64": 2e-5, "complex128": 1e-11}


def address(array: Any) -> int:
    """Where an array's memory begins, on whichever device."""
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


def random_ket(n: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    ket = rng.normal(size=1 << n) + 1j * rng.normal(size=1 << n)
    return ket / np.linalg.norm(ket)


def random_layout(n: int, seed: int = 0) -> Layout:
    return Layout(np.random.default_rng(seed).permutation(n))


def random_sum(n: int, terms: int, seed: int = 0, flips: int | None = None) -> PauliSum:
    """A sum of random strings; with `flips` their x masks are among that many."""
    rng = np.random.default_rng(seed)
    masks = rng.integers(0, 1 << n, terms if flips is None else flips, dtype=np.uint64)
    x = masks if flips is None else rng.choice(masks, terms)
    return PauliSum.from_masks(x, rng.integers(0, 1 << n, terms, dtype=np.uint64), rng.normal(size=terms))


def molecule_like(representations: tuple[int, ...], seed: int = 0) -> PauliSum:
    """The Hamiltonian of a molecule with random integrals, zero where the orbitals' representations (bits, xor is the
    product) do not multiply to the identity."""
    rng = np.random.default_rng(seed)
    labels = np.array(representations)
    one_body, two_body = rng.normal(size=(len(labels),) * 2), rng.normal(size=(len(labels),) * 4)
    one_body = one_body + one_body.T
    for axes in ((1, 0, 2, 3), (0, 1, 3, 2), (2, 3, 0, 1)):
        two_body = two_body + two_body.transpose(axes)
    pairs = labels[:, None] ^ labels
    return Molecule(2, 0.3, one_body * (pairs == 0), two_body * (pairs[:, :, None, None] == pairs)).hamiltonian()


def applied(observable: PauliSum, ket: np.ndarray) -> np.ndarray:
    """O |ket>, string by string: |i> becomes i^|x & z| (-1)^|z & i| |i ^ x>."""
    terms = tuple((string.x, string.z, coefficient) for string, coefficient in observable)
    return _applied(terms, ket.dtype, ket.tobytes())


@lru_cache(32)
def _applied(terms: tuple[tuple[int, int, complex], ...], dtype: np.dtype, numbers: bytes) -> np.ndarray:
    """Of the same sum and state, whatever layouts and threads they are tried with."""
    ket = np.frombuffer(numbers, dtype)
    index = np.arange(len(ket))
    result = np.zeros(len(ket), np.complex128)
    for x, z, coefficient in terms:
        parity = index & z
        for shift in (16, 8, 4, 2, 1):
            parity ^= parity >> shift
        factor = coefficient * 1j ** (x & z).bit_count()
        result[index ^ x] += factor * np.where(parity & 1, -ket, ket)
    return result
