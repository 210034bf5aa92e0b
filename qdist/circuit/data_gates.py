"""Gates that carry data: any unitary, diagonal, permutation or Pauli rotation, initial states, and barriers.

Each is made by a function that checks its argument; the object keeps a read-only copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from . import matrices as m
from .errors import CircuitError
from .gate import Gate, Params, structure
from .matrices import Matrix, check_matrix
from .parameters import Angle


class UnitaryGate(Gate):
    """A gate given by its matrix."""

    __slots__ = ()

    def __init__(self, matrix: Matrix) -> None:
        num_qubits = matrix.shape[0].bit_length() - 1
        super().__init__("unitary", num_qubits, data=_frozen(matrix), symbol="U", **structure(matrix))

    def matrix(self, *params: Angle) -> Matrix:
        self._floats(params)
        return self.data

    def inverse(self, params: Params = ()) -> tuple[Gate, Params]:
        return UnitaryGate(self.data.conj().T), ()

    def __reduce__(self) -> tuple[Any, ...]:
        return UnitaryGate, (self.data,)


class DiagonalGate(Gate):
    """A diagonal gate given by its diagonal."""

    __slots__ = ()

    def __init__(self, diagonal: np.ndarray) -> None:
        num_qubits = len(diagonal).bit_length() - 1
        super().__init__(
            "diagonal",
            num_qubits,
            data=_frozen(diagonal),
            symbol="D",
            diagonal_qubits=range(num_qubits),
            is_permutation=bool(np.all(diagonal == 1)),
            is_real=not np.any(diagonal.imag),
            is_pure=not np.any(diagonal.real * diagonal.imag),
        )

    def matrix(self, *params: Angle) -> Matrix:
        check_matrix(self.num_qubits)
        return np.diag(self.diagonal(*params))

    def diagonal(self, *params: Angle) -> np.ndarray:
        self._floats(params)
        return self.data

    def inverse(self, params: Params = ()) -> tuple[Gate, Params]:
        return DiagonalGate(self.data.conj()), ()

    def __reduce__(self) -> tuple[Any, ...]:
        return DiagonalGate, (self.data,)


class PermutationGate(Gate):
    """A permutation of basis states: |i> becomes |permutation[i]>."""

    __slots__ = ()

    def __init__(self, permutation: np.ndarray) -> None:
        num_qubits = len(permutation).bit_length() - 1
        mixed = int(np.bitwise_or.reduce(permutation ^ np.arange(len(permutation))))
        super().__init__(
            "permutation",
            num_qubits,
            data=_frozen(permutation),
            symbol="Perm",
            diagonal_qubits=[q for q in range(num_qubits) if not mixed >> q & 1],
            is_permutation=True,
            is_real=True,
            is_pure=True,
        )

    def matrix(self, *params: Angle) -> Matrix:
        self._floats(params)
        check_matrix(self.num_qubits)
        matrix = np.zeros((len(self.data), len(self.data)), dtype=np.complex128)
        matrix[self.data, np.arange(len(self.data))] = 1
        return matrix

    def inverse(self, params: Params = ()) -> tuple[Gate, Params]:
        return PermutationGate(np.argsort(self.data)), ()

    def __reduce__(self) -> tuple[Any, ...]:
        return PermutationGate, (self.data,)


class PauliRotationGate(Gate):
    """exp(-i t/2 P) for a Pauli string P, whose label has the highest qubit first."""

    __slots__ = ()

    def __init__(self, label: str) -> None:
        super().__init__(
            "pauli_rotation",
            len(label),
            1,
            data=label,
            symbol=f"R{label}",
            diagonal_qubits=[q for q, letter in enumerate(reversed(label)) if letter in "IZ"],
            # -i P is real when P is imaginary, which takes an odd number of Y.
            is_real=label.count("Y") % 2 == 1,
            # cos(t/2) I and -i sin(t/2) P share no entry unless P is diagonal.
            is_pure=not set(label) <= set("IZ"),
            pauli=label[::-1],
        )

    @property
    def generator(self) -> Matrix:
        check_matrix(self.num_qubits, 3)
        return m.pauli_matrix(self.data[::-1])

    def matrix(self, *params: Angle) -> Matrix:
        (angle,) = self._floats(params)
        matrix = -1j * math.sin(angle / 2) * self.generator
        matrix[np.diag_indices_from(matrix)] += math.cos(angle / 2)
        return matrix

    def derivative(self, k: int, *params: Angle) -> Matrix:
        self._check_index(k)
        (angle,) = self._floats(params)
        return 0.5 * self.matrix(angle + math.pi)

    def diagonal(self, *params: Angle) -> np.ndarray:
        if not self.is_diagonal:
            return super().diagonal(*params)
        (angle,) = self._floats(params)
        signs: Any = [1]
        for letter in self.data:
            signs = np.kron(signs, m.PAULI[letter].diagonal().real)
        return np.exp(-0.5j * angle * signs)

    def inverse(self, params: Params = ()) -> tuple[Gate, Params]:
        return self, tuple(-param for param in params)

    def __reduce__(self) -> tuple[Any, ...]:
        return pauli_rotation_gate, (self.data,)


class InitializeGate(Gate):
    """Puts its qubits, whatever they were, into a given state.

    `data` is an int (a basis state), an array of shape (n, 2) (one state a qubit, qubit 0 first), or an array
    of 2**n amplitudes.
    """

    __slots__ = ()

    def __init__(self, num_qubits: int, data: int | np.ndarray) -> None:
        data = data if isinstance(data, int) else _frozen(data)
        super().__init__("initialize", num_qubits, kind="initialize", symbol="|ψ⟩", data=data)

    def __reduce__(self) -> tuple[Any, ...]:
        return InitializeGate, (self.num_qubits, self.data)


class BarrierGate(Gate):
    """Keeps what is before it before what is after it."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return barrier_gate, (self.num_qubits,)


def unitary_gate(matrix: ArrayLike) -> Gate:
    """The gate with this matrix, 2**n by 2**n, whose first qubit is the least significant bit of the index.

    Raises CircuitError for a wrong shape, for nan or infinity, and for a matrix that is not unitary (to 1e-8,
    or 1e-5 where it comes in single precision).
    """
    given, matrix = np.asarray(matrix), _complex(matrix, "the matrix of a unitary gate")
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not _is_power_of_two(matrix.shape[0]):
        raise CircuitError(f"the matrix of a gate on n qubits has shape (2**n, 2**n); got {matrix.shape}")
    excess = float(np.max(np.abs(matrix.conj().T @ matrix - np.eye(matrix.shape[0]))))
    if excess > _tolerance(given):
        raise CircuitError(
            f"the matrix is not unitary: U†U differs from the identity by up to {excess:.3g}; "
            "if it is meant to be, give it to full precision (a QR or polar decomposition repairs rounding)"
        )
    return UnitaryGate(matrix)


def diagonal_gate(diagonal: ArrayLike) -> Gate:
    """The diagonal gate with these 2**n entries, all of modulus 1. Raises CircuitError where they are not."""
    given, diagonal = np.asarray(diagonal), _complex(diagonal, "the diagonal of a gate")
    if diagonal.ndim != 1 or not _is_power_of_two(len(diagonal)):
        raise CircuitError(f"the diagonal of a gate on n qubits has shape (2**n,); got {diagonal.shape}")
    excess = np.abs(np.abs(diagonal) - 1)
    worst = int(np.argmax(excess))
    if excess[worst] > _tolerance(given):
        raise CircuitError(
            f"the diagonal is not unitary: entry {worst} is {diagonal[worst]:.6g}, of modulus "
            f"{abs(diagonal[worst]):.6g} where it must be 1"
        )
    return DiagonalGate(diagonal)


def permutation_gate(permutation: ArrayLike) -> Gate:
    """The gate that takes basis state |i> to |permutation[i]>, given 0 .. 2**n - 1 in any order.

    Raises CircuitError where it is no permutation.
    """
    given = np.asarray(permutation)
    if given.ndim != 1 or not _is_power_of_two(len(given)) or given.dtype.kind not in "iu":
        raise CircuitError(f"a permutation gate on n qubits takes 2**n ints; got shape {given.shape} of {given.dtype}")
    if not np.array_equal(np.sort(given), np.arange(len(given))):
        raise CircuitError(
            f"a permutation of {len(given)} basis states holds each of 0 .. {len(given) - 1} once; "
            "this one repeats or leaves out some"
        )
    return PermutationGate(given.astype(np.int64))


@lru_cache(maxsize=4096)
def pauli_rotation_gate(label: str) -> Gate:
    """The gate exp(-i t/2 P) of one angle t, for a label such as "XZY", highest qubit first.

    Raises CircuitError unless the label is made of the letters I, X, Y and Z.
    """
    if not isinstance(label, str) or not label or set(label) - set("IXYZ"):
        raise CircuitError(f"a Pauli label is made of the letters I, X, Y and Z, one a qubit; got {label!r}")
    return PauliRotationGate(label)


def initialize_gate(state: int | str | Sequence[Any] | np.ndarray, num_qubits: int) -> Gate:
    """The instruction that prepares `num_qubits` qubits, whatever state they were in.

    `state` is a basis state (an int, or a bit string with the highest qubit first), a product state
    (`num_qubits` pairs of amplitudes, qubit 0 first), or the 2**num_qubits amplitudes. Amplitudes must be
    normalised. Raises CircuitError.
    """
    if isinstance(state, str):
        if len(state) != num_qubits or set(state) - {"0", "1"}:
            raise CircuitError(
                f"the bit string {state!r} must be {num_qubits} characters 0 or 1, one a qubit to prepare"
            )
        return InitializeGate(num_qubits, int(state or "0", 2))
    if isinstance(state, int | np.integer):
        if not 0 <= state < 1 << num_qubits:
            raise CircuitError(
                f"basis state {state} is out of range: {num_qubits} qubits have states 0 to {(1 << num_qubits) - 1}"
            )
        return InitializeGate(num_qubits, int(state))
    given, amplitudes = np.asarray(state), _complex(state, "an initial state")
    if amplitudes.shape not in ((num_qubits, 2), (1 << num_qubits,)):
        raise CircuitError(
            f"the state of {num_qubits} qubits is {1 << num_qubits} amplitudes, or {num_qubits} pairs of "
            f"amplitudes; got shape {amplitudes.shape}"
        )
    for norm in np.atleast_1d(np.linalg.norm(amplitudes, axis=-1)):
        if abs(norm - 1) > _tolerance(given):
            raise CircuitError(f"the initial state is not normalised: its norm is {norm:.8g}; divide by it")
    return InitializeGate(num_qubits, amplitudes)


@lru_cache(maxsize=256)
def barrier_gate(num_qubits: int) -> Gate:
    """The barrier over `num_qubits` qubits."""
    return BarrierGate("barrier", num_qubits, kind="barrier", symbol="░")


def _frozen(array: np.ndarray) -> np.ndarray:
    array = np.array(array)
    array.flags.writeable = False
    return array


def _complex(values: Any, what: str) -> np.ndarray:
    try:
        array = np.asarray(values, dtype=np.complex128)
    except (TypeError, ValueError):
        raise CircuitError(f"{what} must be an array of numbers; got {values!r}") from None
    if not np.all(np.isfinite(array)):
        raise CircuitError(f"{what} holds nan or infinity")
    return array


def _is_power_of_two(size: int) -> bool:
    return size > 0 and size & (size - 1) == 0


def _tolerance(given: np.ndarray) -> float:
    return 1e-5 if given.dtype in (np.complex64, np.float32, np.float16) else 1e-8
