"""Hermitian: an observable given by its matrix on a few qubits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CircuitError
from .masks import checked_qubits
from .operators import PauliSum


class Hermitian:
    """An observable that is a Hermitian matrix on given qubits. Immutable.

    Args:
        matrix: 2^k by 2^k, Hermitian to 1e-9 of its largest element.
        qubits: k different qubits; the first is the lowest bit of the matrix's index, as in
            `Circuit.unitary`.

    Raises:
        CircuitError: if the matrix is not Hermitian, not finite, or does not fit the qubits.
        TypeError: if `qubits` is no list of integers.

    >>> Hermitian([[0, 1], [1, 0]], [3]).to_pauli_sum()
    PauliSum({"X3": 1.0})
    """

    __slots__ = ("_matrix", "_qubits")

    def __init__(self, matrix: ArrayLike, qubits: Sequence[int]) -> None:
        try:
            values = np.array(matrix, dtype=np.complex128)
        except (TypeError, ValueError):
            raise CircuitError(f"the matrix must be an array of numbers; got {matrix!r}") from None
        places = tuple(checked_qubits(qubits))
        size = 1 << len(places)
        if values.shape != (size, size):
            raise CircuitError(f"{len(places)} qubits need a {size} by {size} matrix, got one of shape {values.shape}")
        if len(set(places)) != len(places) or any(q < 0 for q in places):
            raise CircuitError(f"qubits must be different and not negative, got {places}")
        if not np.isfinite(values).all():
            raise CircuitError("the matrix has elements that are not finite")
        error = np.abs(values - values.conj().T).max()
        if error > 1e-9 * np.abs(values).max():
            raise CircuitError(
                f"the matrix differs from its adjoint by up to {error:.3g}; an observable must be Hermitian"
            )
        values.flags.writeable = False
        self._matrix = values
        self._qubits = places

    @property
    def matrix(self) -> NDArray[np.complex128]:
        """The matrix, read-only."""
        return self._matrix

    @property
    def qubits(self) -> tuple[int, ...]:
        """The qubits it acts on, lowest bit of the index first."""
        return self._qubits

    @property
    def num_qubits(self) -> int:
        """One more than the highest qubit it acts on."""
        return max(self._qubits, default=-1) + 1

    def to_pauli_sum(self) -> PauliSum:
        """The same observable as a sum of Pauli strings with real coefficients."""
        return PauliSum.from_matrix((self._matrix + self._matrix.conj().T) / 2, self._qubits)

    def to_matrix(self, num_qubits: int | None = None) -> NDArray[np.complex128]:
        """The dense matrix on qubits 0 to num_qubits - 1."""
        return self.to_pauli_sum().to_matrix(self.num_qubits if num_qubits is None else num_qubits)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hermitian):
            return NotImplemented
        return self._qubits == other._qubits and np.array_equal(self._matrix, other._matrix)

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        return Hermitian, (self._matrix, self._qubits)

    def __repr__(self) -> str:
        return f"Hermitian({np.array2string(self._matrix, separator=', ')}, {list(self._qubits)})"
