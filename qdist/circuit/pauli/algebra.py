"""The algebra of Pauli strings and sums: + - * / by numbers, the operator product @, the commutator."""

from __future__ import annotations

import numbers
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from . import masks


class Sum(Protocol):
    """What is needed of a PauliSum."""

    @property
    def x(self) -> masks.Words: ...
    @property
    def z(self) -> masks.Words: ...
    @property
    def coefficients(self) -> NDArray[np.complex128]: ...
    @classmethod
    def _of(cls, x: masks.Words, z: masks.Words, coefficients: NDArray[np.complex128]) -> Self: ...
    def simplify(self) -> Self: ...
    def __neg__(self) -> Self: ...
    def __len__(self) -> int: ...


S = TypeVar("S", bound=Sum)


class Operator(Generic[S]):
    """The arithmetic of what `_sum` makes a sum of: strings and sums. Every result is a sum."""

    __slots__ = ()

    # A NumPy scalar on the left then leaves the arithmetic to this class instead of iterating over the terms.
    __array_ufunc__ = None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """One object: numpy.sum and arrays of operators would take a sum apart into its terms and coefficients."""
        whole = np.empty((), dtype=object)
        whole[()] = self
        return whole

    def _sum(self) -> S:
        raise NotImplementedError

    def _operand(self, value: Any) -> S | None:
        """The other side of + or -: a number is a multiple of the identity; None for what cannot be added."""
        if isinstance(value, Operator):
            return value._sum()
        number = _number(value)
        if number is None:
            return None
        identity = masks.pack([0])
        return self._sum()._of(identity, identity, masks.checked_coefficients([number], ["I"]))

    def __add__(self, other: Any) -> S:
        right = self._operand(other)
        return NotImplemented if right is None else _concatenate(self._sum(), right)

    def __radd__(self, other: Any) -> S:
        left = self._operand(other)
        return NotImplemented if left is None else _concatenate(left, self._sum())

    def __sub__(self, other: Any) -> S:
        right = self._operand(other)
        return NotImplemented if right is None else _concatenate(self._sum(), -right)

    def __rsub__(self, other: Any) -> S:
        left = self._operand(other)
        return NotImplemented if left is None else _concatenate(left, -self._sum())

    def __mul__(self, other: Any) -> S:
        if isinstance(other, Operator):
            raise TypeError("* multiplies by a number; the product of two operators is written with @")
        number = _number(other)
        if number is None:
            return NotImplemented
        own = self._sum()
        return own._of(own.x, own.z, own.coefficients * masks.checked_coefficients([number]))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> S:
        number = _number(other)
        return NotImplemented if number is None else self * (1 / number)

    def __neg__(self) -> S:
        return self * -1

    def __matmul__(self, other: Any) -> S:
        if not isinstance(other, Operator):
            return NotImplemented
        return _product(self._sum(), other._sum()).simplify()

    def commutator(self, other: Operator[S]) -> S:
        """self @ other - other @ self, simplified; only pairs of strings that anticommute are multiplied."""
        if not isinstance(other, Operator):
            raise TypeError(f"a commutator is of two operators, such as PauliSum('Z0'), not of {other!r}")
        return _product(self._sum(), other._sum(), commutator=True).simplify()

    def commutes_with(self, other: Operator[S]) -> bool:
        """Whether the commutator vanishes (up to rounding)."""
        return not len(self.commutator(other))


def _number(value: Any) -> Any:
    """A number, or what an array without axes holds; None for anything else."""
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    return value if isinstance(value, numbers.Complex) else None


def _concatenate(left: S, right: S) -> S:
    return left._of(
        masks.stack([left.x, right.x]),
        masks.stack([left.z, right.z]),
        np.concatenate([left.coefficients, right.coefficients]),
    )


def _product(left: S, right: S, commutator: bool = False) -> S:
    """All products of a left and a right term, or, for the commutator, twice those of the anticommuting pairs.

    A row of products at a time: one term of the shorter sum with all of the longer one.
    """
    words = max(left.x.shape[1], right.x.shape[1])
    x1, z1, x2, z2 = (masks.widen(m, words) for m in (left.x, left.z, right.x, right.z))
    c1, c2 = left.coefficients, right.coefficients
    left_is_shorter = len(left) <= len(right)
    rows = []
    for k in range(min(len(left), len(right))):
        one, all_ = slice(k, k + 1), slice(None)
        i, j = (one, all_) if left_is_shorter else (all_, one)
        phase = masks.product_phase(x1[i], z1[i], x2[j], z2[j])
        row = (x1[i] ^ x2[j], z1[i] ^ z2[j], c1[i] * c2[j] * phase)
        if commutator:
            kept = masks.anticommute(x1[i], z1[i], x2[j], z2[j])
            row = (row[0][kept], row[1][kept], 2 * row[2][kept])
        rows.append(row)
    if not rows:
        return left._of(left.x[:0], left.z[:0], left.coefficients[:0])
    x, z, coefficients = (np.concatenate(parts) for parts in zip(*rows))
    return left._of(x, z, coefficients)
