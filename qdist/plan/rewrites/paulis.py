"""Signed Pauli strings, and what Clifford gates make of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from qdist.circuit.gates import GATES

__all__ = ["Axes", "Frame", "String", "axes_of", "inverse_axes"]

_ROUNDING = 1e-12

Axes = tuple[tuple[str, int], ...]
"""What X, Y and Z become: a letter and a sign each."""


def axes_of(matrix: NDArray[np.complex128]) -> Axes | None:
    """C^+ P C for each Pauli matrix P, if the matrix C of one qubit is a Clifford gate."""
    # Rounded, so that products which differ in their last digits alone are looked for once.
    return _axes_of(tuple(complex(round(e.real, 13) + 0.0, round(e.imag, 13) + 0.0) for e in matrix.ravel().tolist()))


def inverse_axes(axes: Axes) -> Axes:
    """C P C^+"""
    back = {letter: (own, sign) for own, (letter, sign) in zip("XYZ", axes)}
    return back["X"], back["Y"], back["Z"]


@lru_cache(maxsize=1024)
def _axes_of(entries: tuple[complex, ...]) -> Axes | None:
    matrix = np.array(entries).reshape(2, 2)
    paulis = {letter: np.array(GATES[letter.lower()].matrix()) for letter in "XYZ"}
    found = []
    for own in paulis.values():
        turned = matrix.conj().T @ own @ matrix
        for letter, pauli in paulis.items():
            overlap = np.trace(pauli @ turned).real / 2
            if abs(abs(overlap) - 1) < _ROUNDING and np.allclose(turned, overlap * pauli, atol=_ROUNDING):
                found.append((letter, round(overlap)))
    return tuple(found) if len(found) == 3 else None


@dataclass(frozen=True, slots=True)
class String:
    """i**power times X on the qubits of x, times Z on those of z; Y is i X Z."""

    x: int = 0
    z: int = 0
    power: int = 0

    def __mul__(self, other: String) -> String:
        # Z passes X with a sign.
        power = self.power + other.power + 2 * (self.z & other.x).bit_count()
        return String(self.x ^ other.x, self.z ^ other.z, power % 4)

    def signed(self, sign: int) -> String:
        return self if sign > 0 else String(self.x, self.z, (self.power + 2) % 4)

    @property
    def sign(self) -> int:
        """Of the product of letters, where it is Hermitian."""
        power = (self.power - (self.x & self.z).bit_count()) % 4
        assert power in (0, 2), "a string without a real sign"
        return 1 - power

    @property
    def qubits(self) -> list[int]:
        mask = self.x | self.z
        return [q for q in range(mask.bit_length()) if mask >> q & 1]

    @property
    def letters(self) -> str:
        """By qubit, lowest first."""
        return "".join("IXZY"[(self.x >> q & 1) + 2 * (self.z >> q & 1)] for q in self.qubits)


class Frame:
    """C^+ P C of Pauli strings P, where C is the product of the Clifford gates that were added."""

    def __init__(self) -> None:
        self._x: dict[int, String] = {}
        self._z: dict[int, String] = {}

    def of(self, string: String) -> String:
        """C^+ string C"""
        found = String(power=string.power)
        for q in string.qubits:
            if string.x >> q & 1:
                found = found * self._of_x(q)
        for q in string.qubits:
            if string.z >> q & 1:
                found = found * self._of_z(q)
        return found

    def keeps_z(self, qubits: Iterable[int]) -> bool:
        """Whether Z of each of these qubits is what it becomes."""
        return all(q not in self._z or self._z[q] == String(z=1 << q) for q in qubits)

    def add_matrix(self, qubit: int, axes: Axes) -> None:
        """axes: of the gate's matrix (``axes_of``)."""
        x, z = self._of_x(qubit), self._of_z(qubit)
        own = {"X": x, "Z": z, "Y": String(power=1) * x * z}
        (letter_x, sign_x), _, (letter_z, sign_z) = axes
        self._x[qubit] = own[letter_x].signed(sign_x)
        self._z[qubit] = own[letter_z].signed(sign_z)

    def add_cx(self, control: int, value: int, target: int) -> None:
        self._x[control] = self._of_x(control) * self._of_x(target)
        self._z[target] = (self._of_z(control) * self._of_z(target)).signed(1 if value else -1)

    def add_cz(self, a: int, b: int) -> None:
        self._x[a], self._x[b] = self._of_x(a) * self._of_z(b), self._of_z(a) * self._of_x(b)

    def add_swap(self, a: int, b: int) -> None:
        for images, of in ((self._x, self._of_x), (self._z, self._of_z)):
            images[a], images[b] = of(b), of(a)

    def _of_x(self, q: int) -> String:
        return self._x.get(q) or String(x=1 << q)

    def _of_z(self, q: int) -> String:
        return self._z.get(q) or String(z=1 << q)
