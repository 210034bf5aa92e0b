"""The formulas of the standard gates: matrices, and derivatives where they do not follow from a generator.

Matrices are complex128, over the gate's qubits with the first qubit as the least significant bit of the
index. That is the order in which `np.kron(high, low)` puts them.
"""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..native.memory import check_array

Matrix = NDArray[np.complex128]


def check_matrix(num_qubits: int, copies: float = 1) -> None:
    """Raises MemoryError where a dense matrix of so many qubits, ``copies`` times, does not fit into memory."""
    what = f"dense matrices of {num_qubits} qubits, {16 << 2 * num_qubits} bytes each,"
    check_array(int(copies * (16 << 2 * num_qubits)), what, "keep to fewer qubits, or to gates and Pauli sums")


def constant(rows: Any) -> Matrix:
    """`rows` as a read-only complex128 matrix."""
    matrix = np.array(rows, dtype=np.complex128)
    matrix.flags.writeable = False
    return matrix


_ROOT = math.sqrt(0.5)

I = constant([[1, 0], [0, 1]])
X = constant([[0, 1], [1, 0]])
Y = constant([[0, -1j], [1j, 0]])
Z = constant([[1, 0], [0, -1]])
H = constant([[_ROOT, _ROOT], [_ROOT, -_ROOT]])
S = constant([[1, 0], [0, 1j]])
SDG = constant([[1, 0], [0, -1j]])
T = constant([[1, 0], [0, complex(_ROOT, _ROOT)]])
TDG = constant([[1, 0], [0, complex(_ROOT, -_ROOT)]])
SX = constant([[0.5 + 0.5j, 0.5 - 0.5j], [0.5 - 0.5j, 0.5 + 0.5j]])
SXDG = constant(SX.conj())
ONE = constant([[0, 0], [0, 1]])  # the projector |1><1|
PAULI = {"I": I, "X": X, "Y": Y, "Z": Z}


def pauli_matrix(letters: str) -> Matrix:
    """The matrix of a Pauli string whose first letter is on the first qubit."""
    matrix: Any = [[1]]
    for letter in letters:
        matrix = np.kron(PAULI[letter], matrix)
    return constant(matrix)


SWAP = constant([[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
ISWAP = constant([[1, 0, 0, 0], [0, 0, 1j, 0], [0, 1j, 0, 0], [0, 0, 0, 1]])
ISWAPDG = constant(ISWAP.conj())
DCX = constant([[1, 0, 0, 0], [0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 1, 0]])
DCXDG = constant(DCX.T)
ECR = constant(_ROOT * (np.kron(I, X) - np.kron(X, Y)))


def _relative_phase(size: int, entries: dict[tuple[int, int], complex]) -> Matrix:
    """The identity, but for the rows that `entries` fills."""
    matrix = np.eye(size, dtype=np.complex128)
    for (row, _), _value in entries.items():
        matrix[row, row] = 0
    for (row, column), value in entries.items():
        matrix[row, column] = value
    return constant(matrix)


# Margolus' simplified Toffoli gates: right up to relative phases, with fewer CX. The last qubit is the
# target.
RCCX = _relative_phase(8, {(3, 7): -1j, (7, 3): 1j, (5, 5): -1})
RC3X = _relative_phase(16, {(3, 3): 1j, (7, 15): 1, (11, 11): -1j, (15, 7): -1})
RC3XDG = constant(RC3X.conj().T)


def gphase(angle: float) -> Matrix:
    return np.array([[cmath.exp(1j * angle)]])


def rx(theta: float) -> Matrix:
    c, s = math.cos(theta / 2), math.sin(theta / 2)
    return np.array([[c, -1j * s], [-1j * s, c]])


def ry(theta: float) -> Matrix:
    c, s = math.cos(theta / 2), math.sin(theta / 2)
    return np.array([[c, -s], [s, c]], dtype=np.complex128)


def rz(theta: float) -> Matrix:
    return np.array([[cmath.exp(-0.5j * theta), 0], [0, cmath.exp(0.5j * theta)]])


def p(lam: float) -> Matrix:
    return np.array([[1, 0], [0, cmath.exp(1j * lam)]])


def u(theta: float, phi: float, lam: float) -> Matrix:
    c, s = math.cos(theta / 2), math.sin(theta / 2)
    # The product of two phases, not the phase of the sum, which is rounded to the last place of the larger angle.
    first, second = cmath.exp(1j * phi), cmath.exp(1j * lam)
    return np.array([[c, -s * second], [s * first, c * (first * second)]])


def u_derivative(k: int, theta: float, phi: float, lam: float) -> Matrix:
    if k == 0:
        # Every entry holds theta as cos(theta/2) or sin(theta/2): half a turn further is twice the
        # derivative.
        return 0.5 * u(theta + math.pi, phi, lam)
    if k == 1:
        return 1j * ONE @ u(theta, phi, lam)
    return 1j * u(theta, phi, lam) @ ONE


def u2(phi: float, lam: float) -> Matrix:
    return u(math.pi / 2, phi, lam)


def u2_derivative(k: int, phi: float, lam: float) -> Matrix:
    return u_derivative(k + 1, math.pi / 2, phi, lam)


def phased_u(theta: float, phi: float, lam: float, gamma: float) -> Matrix:
    return cmath.exp(1j * gamma) * u(theta, phi, lam)


def phased_u_derivative(k: int, theta: float, phi: float, lam: float, gamma: float) -> Matrix:
    inner = 1j * u(theta, phi, lam) if k == 3 else u_derivative(k, theta, phi, lam)
    return cmath.exp(1j * gamma) * inner


def u0(_gamma: float) -> Matrix:
    return I


def u0_derivative(_k: int, _gamma: float) -> Matrix:
    return np.zeros((2, 2), dtype=np.complex128)


def r(theta: float, phi: float) -> Matrix:
    c, s = math.cos(theta / 2), math.sin(theta / 2)
    return np.array([[c, -1j * s * cmath.exp(-1j * phi)], [-1j * s * cmath.exp(1j * phi), c]])


def r_derivative(k: int, theta: float, phi: float) -> Matrix:
    if k == 0:
        return 0.5 * r(theta + math.pi, phi)
    # r(theta, phi) = rz(phi) rx(theta) rz(-phi), so the derivative is a commutator with the generator of rz.
    matrix = r(theta, phi)
    return -0.5j * (Z @ matrix - matrix @ Z)


def rxx(theta: float) -> Matrix:
    c, s = math.cos(theta / 2), -1j * math.sin(theta / 2)
    return np.array([[c, 0, 0, s], [0, c, s, 0], [0, s, c, 0], [s, 0, 0, c]])


def ryy(theta: float) -> Matrix:
    c, s = math.cos(theta / 2), 1j * math.sin(theta / 2)
    return np.array([[c, 0, 0, s], [0, c, -s, 0], [0, -s, c, 0], [s, 0, 0, c]])


def rzz(theta: float) -> Matrix:
    even, odd = cmath.exp(-0.5j * theta), cmath.exp(0.5j * theta)
    return np.diag([even, odd, odd, even])


def rzx(theta: float) -> Matrix:
    c, s = math.cos(theta / 2), 1j * math.sin(theta / 2)
    return np.array([[c, 0, -s, 0], [0, c, 0, s], [-s, 0, c, 0], [0, s, 0, c]])


def xx_plus_yy(theta: float, beta: float) -> Matrix:
    c, s = math.cos(theta / 2), -1j * math.sin(theta / 2)
    low, high = s * cmath.exp(-1j * beta), s * cmath.exp(1j * beta)
    return np.array([[1, 0, 0, 0], [0, c, low, 0], [0, high, c, 0], [0, 0, 0, 1]])


def xx_plus_yy_derivative(k: int, theta: float, beta: float) -> Matrix:
    if k == 0:
        turned = 0.5 * xx_plus_yy(theta + math.pi, beta)
        turned[0, 0] = turned[3, 3] = 0
        return turned
    s = -1j * math.sin(theta / 2)
    low, high = -1j * s * cmath.exp(-1j * beta), 1j * s * cmath.exp(1j * beta)
    return np.array([[0, 0, 0, 0], [0, 0, low, 0], [0, high, 0, 0], [0, 0, 0, 0]])


def fsim(theta: float, phi: float) -> Matrix:
    c, s = math.cos(theta), -1j * math.sin(theta)
    return np.array([[1, 0, 0, 0], [0, c, s, 0], [0, s, c, 0], [0, 0, 0, cmath.exp(-1j * phi)]])


def fsim_derivative(k: int, theta: float, phi: float) -> Matrix:
    if k == 0:
        c, s = -math.sin(theta), -1j * math.cos(theta)
        return np.array([[0, 0, 0, 0], [0, c, s, 0], [0, s, c, 0], [0, 0, 0, 0]])
    return np.diag([0, 0, 0, -1j * cmath.exp(-1j * phi)])
