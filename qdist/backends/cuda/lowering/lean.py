"""Which matrices that keep parities are turns about XX and YY, then phases: for these the kernel has fewer
multiplications (native/src/program/lean_numbers.hpp)."""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from qdist.backends.in_tile import Factors, constant_matrix, dense_targets, factors_of
from qdist.plan.fuse import Block

__all__ = ["is_lean"]

_Factors = tuple[tuple[int, tuple[int, ...], tuple[int, ...], tuple[complex, ...]], ...]
"""As ``Factors``, with the angles numbered from 0: the same of all gates of a layer."""
_ROUNDING = 1e-13
_TRIED = 2
"""Sets of angles: what holds at two that have nothing in common holds at all."""


def is_lean(block: Block) -> bool:
    """Whether a matrix that keeps parities is one, whatever its angles are."""
    numbers: dict[int, int] = {}
    return _is_lean(
        tuple(
            (formula, tuple(numbers.setdefault(slot, len(numbers)) for slot in slots), tuple(bits), tuple(constant))
            for formula, slots, bits, constant in factors_of(block, dense_targets(block))
        )
    )


@lru_cache(maxsize=256)
def _is_lean(factors: _Factors) -> bool:
    size = sum(len(slots) for _, slots, _, _ in factors)
    given: Factors = [(formula, list(slots), list(bits), list(constant)) for formula, slots, bits, constant in factors]
    return all(_is_turn(constant_matrix(given, (0, 1), _angles(size, k))) for k in range(_TRIED))


@cache
def _angles(size: int, number: int) -> NDArray[np.float64]:
    return np.random.default_rng(number).uniform(0.3, 2.8, size)


def _is_turn(matrix: NDArray[np.complex128]) -> bool:
    """Whether it is unitary, and the entries of each row are a real and an imaginary number times a phase."""
    if np.abs(matrix @ matrix.conj().T - np.eye(4)).max() > _ROUNDING:
        return False
    products = [matrix[row, row].conj() * matrix[row, 3 - row] for row in range(4)]
    return bool(np.abs(np.real(products)).max() < _ROUNDING)
