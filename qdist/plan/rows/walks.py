"""Walks: affine subspaces of indices over GF(2), as a base and columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from qdist.plan.rows.frame import parity

__all__ = ["Walk", "independent", "walk"]


class Walk(NamedTuple):
    """All base ^ XOR of columns."""

    base: int
    columns: tuple[int, ...]


def walk(
    bits: int, conditions: Sequence[tuple[int, int]], directions: Sequence[int], functionals: Sequence[int] = ()
) -> Walk | None:
    """One index of each set that the directions mix, among the indices of so many bits that meet the conditions.

    conditions: (mask, parity), which no direction changes. Along the walk no parity of a functional changes; None where
    that cannot be.
    """
    base = _solution(conditions)
    masks = [mask for mask, _ in conditions]
    spanned: dict[int, int] = {}
    for direction in directions:
        _grow(spanned, direction)
    columns = [column for column in _orthogonal(bits, [*masks, *functionals]) if _grow(spanned, column)]
    if len(directions) + len(columns) < bits - len(masks):
        return None
    return Walk(base, tuple(columns))


def independent(vectors: Sequence[int]) -> bool:
    """Whether no XOR of some of them is 0."""
    spanned: dict[int, int] = {}
    return all(_grow(spanned, vector) for vector in vectors)


def _grow(spanned: dict[int, int], vector: int) -> bool:
    """Whether a vector is none of the span's, which it then joins. spanned: {length in bits: vector}."""
    while vector:
        other = spanned.get(vector.bit_length())
        if other is None:
            spanned[vector.bit_length()] = vector
            return True
        vector ^= other
    return False


def _reduced(rows: Sequence[int]) -> dict[int, int]:
    """Row echelon form: {highest bit: row}, each of these bits in its row alone."""
    found: dict[int, int] = {}
    for row in rows:
        for bit, other in found.items():
            if row >> bit & 1:
                row ^= other
        if row:
            high = row.bit_length() - 1
            for bit, other in found.items():
                if other >> high & 1:
                    found[bit] = other ^ row
            found[high] = row
    return found


def _orthogonal(bits: int, rows: Sequence[int]) -> list[int]:
    """A basis of the vectors that have even parity with all rows, those of low bits first."""
    reduced = _reduced(rows)
    free = [b for b in range(bits) if b not in reduced]
    return [1 << b | sum(1 << pivot for pivot, row in reduced.items() if row >> b & 1) for b in free]


def _solution(conditions: Sequence[tuple[int, int]]) -> int:
    """An index that meets independent conditions."""
    # The wanted parity goes along with its row, above all bits.
    above = max((mask.bit_length() for mask, _ in conditions), default=0)
    found = 0
    rows: dict[int, int] = {}
    for mask, value in conditions:
        row = mask << 1 | value
        for bit, other in rows.items():
            if row >> bit & 1:
                row ^= other
        high = row.bit_length() - 1
        assert high > 0, "the conditions are independent"
        for bit, other in rows.items():
            if other >> high & 1:
                rows[bit] = other ^ row
        rows[high] = row
    for bit, row in rows.items():
        if row & 1:
            found |= 1 << bit - 1
    assert all(parity(mask & found) == value for mask, value in conditions), above
    return found
