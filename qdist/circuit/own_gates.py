"""Gates of one's own: from a Hermitian generator, from a function that gives the matrix, or from a circuit.

They are gates of a Circuit like any others. What runs is what ``lowered`` makes of them: gates that the kernels know.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from qdist.hints import hinted

from .data_gates import unitary_gate
from .errors import CircuitError
from .gate import Gate, Params
from .matrices import Matrix
from .parameters import Angle

__all__ = ["CircuitGate", "GeneratorGate", "MatrixGate", "generator_gate", "matrix_gate"]

MOST_QUBITS = 5
"""Of a gate that is given by a matrix with angles."""


class GeneratorGate(Gate):
    """exp(-i t/2 G) of one angle t, for a Hermitian matrix G."""

    __slots__ = ("_frequencies", "_vectors")

    _frequencies: np.ndarray
    _vectors: Matrix

    def __init__(self, name: str, generator: Matrix) -> None:
        frequencies, vectors = np.linalg.eigh(generator)
        self._set(_frequencies=frequencies, _vectors=vectors)
        data = np.array(generator)
        data.flags.writeable = False
        super().__init__(name, len(generator).bit_length() - 1, 1, data=data)

    @property
    def generator(self) -> Matrix:
        return self.data

    @property
    def spectrum(self) -> tuple[np.ndarray, Matrix]:
        """The eigenvalues and eigenvectors of G."""
        return self._frequencies, self._vectors

    def matrix(self, *params: Angle) -> Matrix:
        (angle,) = self._floats(params)
        return (self._vectors * np.exp(-0.5j * angle * self._frequencies)) @ self._vectors.conj().T

    def derivative(self, k: int, *params: Angle) -> Matrix:
        self._check_index(k)
        return -0.5j * (self.data @ self.matrix(*params))

    def inverse(self, params: Params = ()) -> tuple[Gate, Params]:
        return self, tuple(-param for param in params)

    def __reduce__(self) -> tuple[Any, ...]:
        return GeneratorGate, (self.name, self.data)


class MatrixGate(Gate):
    """A gate whose matrix, and the derivative of it by each angle, are functions of the angles."""

    __slots__ = ("_derivative", "_is_inverse", "_matrix")

    _matrix: Callable[..., Any]
    _derivative: Callable[..., Any]
    _is_inverse: bool

    def __init__(
        self, name: str, matrix: Callable[..., Any], derivative: Callable[..., Any], num_params: int, is_inverse: bool
    ) -> None:
        self._set(_matrix=matrix, _derivative=derivative, _is_inverse=is_inverse)
        generic = np.asarray(matrix(*(0.3 + 0.4 * k for k in range(num_params))), np.complex128)
        super().__init__(
            f"{name}dg" if is_inverse else name,
            generic.shape[0].bit_length() - 1,
            num_params,
            data=(name, matrix, derivative, is_inverse),
        )

    def matrix(self, *params: Angle) -> Matrix:
        found = unitary_gate(self._matrix(*self._floats(params))).data
        return found.conj().T if self._is_inverse else found

    def derivative(self, k: int, *params: Angle) -> Matrix:
        self._check_index(k)
        size = 1 << self.num_qubits
        found = np.asarray(self._derivative(k, *self._floats(params)), np.complex128)
        if found.shape != (size, size):
            raise CircuitError(f"the derivative of {self.name} has shape {found.shape}, and its matrix {(size, size)}")
        return found.conj().T if self._is_inverse else found

    def inverse(self, params: Params = ()) -> tuple[Gate, Params]:
        name, matrix, derivative, is_inverse = self.data
        return MatrixGate(name, matrix, derivative, self.num_params, not is_inverse), params

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Gate):
            return NotImplemented
        return isinstance(other, MatrixGate) and self.data == other.data

    def __hash__(self) -> int:
        return hash((self.name, self._is_inverse))

    def __reduce__(self) -> tuple[Any, ...]:
        name, matrix, derivative, is_inverse = self.data
        return MatrixGate, (name, matrix, derivative, self.num_params, is_inverse)


class CircuitGate(Gate):
    """A circuit under a name; its parameters, in their order, are the gate's angles."""

    __slots__ = ()

    def __init__(self, name: str, circuit: Any) -> None:
        super().__init__(name, circuit.num_qubits, circuit.num_parameters, data=circuit)

    def matrix(self, *params: Angle) -> Matrix:
        return self.data.to_matrix(self._floats(params))

    def derivative(self, k: int, *params: Angle) -> Matrix:
        """By differences of fourth order, for checks: runs differentiate the gates of the circuit."""
        self._check_index(k)
        angles, step = self._floats(params), 1e-3
        shifted = [[a + m * step * (j == k) for j, a in enumerate(angles)] for m in (1, -1, 2, -2)]
        near, back, far, far_back = (self.data.to_matrix(values) for values in shifted)
        return (8 * (near - back) - (far - far_back)) / (12 * step)

    def inverse(self, params: Params = ()) -> tuple[Gate, Params]:
        name = self.name.removesuffix("dg") if self.name.endswith("dg") else f"{self.name}dg"
        return CircuitGate(name, self.data.inverse().with_order(self.data.parameters)), params

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Gate):
            return NotImplemented
        return isinstance(other, CircuitGate) and self.name == other.name and self.data == other.data

    def __hash__(self) -> int:
        return hash((self.name, self.num_qubits))

    def __reduce__(self) -> tuple[Any, ...]:
        return CircuitGate, (self.name, self.data)


@hinted
def generator_gate(name: str, generator: ArrayLike) -> Gate:
    """The gate exp(-i t/2 G) of one angle t, for a Hermitian matrix G of 2**n by 2**n numbers.

    The first qubit is the lowest bit of the matrix's index. Append it with
    ``circuit.append(gate, qubits, [t])``; gradients by t are exact. Raises CircuitError for what is not Hermitian.

    >>> swap_like = generator_gate("heisenberg", np.diag([1, -1, -1, 1]) + 2 * np.eye(4)[::-1] * [0, 1, 1, 0])
    >>> swap_like.num_qubits
    2
    """
    matrix = _matrix(generator, f"the generator of {name}")
    excess = float(np.abs(matrix - matrix.conj().T).max())
    if excess > 1e-8 * max(1.0, float(np.abs(matrix).max())):
        raise CircuitError(
            f"the generator of {name} is not Hermitian: it differs from its adjoint by up to {excess:.3g}"
        )
    return GeneratorGate(_name(name), (matrix + matrix.conj().T) / 2)


@hinted
def matrix_gate(
    name: str, matrix: Callable[..., ArrayLike], derivative: Callable[..., ArrayLike], num_params: int = 1
) -> Gate:
    """A gate given by functions of its angles.

    Args:
        name: what drawings and errors call it.
        matrix: matrix(t0, t1, ...), a unitary of 2**n by 2**n numbers; the first qubit is the lowest bit of its index.
        derivative: derivative(k, t0, t1, ...), of the matrix by angle k.
        num_params: how many angles there are.

    Gradients, ``Program.jvp`` and the metric are exact; second derivatives (``Program.hvp``) are differences of sixth
    order of `derivative`, right to about 1e-12.
    Raises CircuitError where they do not fit each other at some angles: not unitary, or another derivative.

    >>> change = lambda k, t: np.diag([0, 1j * np.exp(1j * t)])
    >>> phase = matrix_gate("phase", lambda t: np.diag([1, np.exp(1j * t)]), change)
    >>> Circuit(1).append(phase, 0, [0.3]).size
    1
    """
    if not isinstance(num_params, int) or num_params < 1:
        raise CircuitError(f"num_params={num_params!r}: a gate without angles is unitary(matrix, qubits)")
    angles = [0.3 + 0.4 * k for k in range(num_params)]
    _matrix(matrix(*angles), f"the matrix of {name}")
    gate = MatrixGate(_name(name), matrix, derivative, num_params, False)
    step = 1e-4
    for k in range(num_params):
        shifted = [[a + s * (j == k) for j, a in enumerate(angles)] for s in (step, -step)]
        difference = (gate.matrix(*shifted[0]) - gate.matrix(*shifted[1])) / (2 * step)
        excess = float(np.abs(difference - gate.derivative(k, *angles)).max())
        if excess > 1e-4 * max(1.0, float(np.abs(difference).max())):
            raise CircuitError(
                f"derivative({k}, {', '.join(f'{a:g}' for a in angles)}) of {name} is not that of its matrix: "
                f"differences of the matrix are up to {excess:.3g} away"
            )
    return gate


def _matrix(given: Any, what: str) -> Matrix:
    try:
        matrix = np.asarray(given, np.complex128)
    except (TypeError, ValueError):
        raise CircuitError(f"{what} must be an array of numbers; got {given!r}") from None
    size = matrix.shape[0] if matrix.ndim == 2 else 0
    if matrix.shape != (size, size) or size < 2 or size & size - 1 or size > 1 << MOST_QUBITS:
        raise CircuitError(
            f"{what} has shape {matrix.shape}; that of n qubits is (2**n, 2**n), with n from 1 to {MOST_QUBITS}"
        )
    if not np.isfinite(matrix).all():
        raise CircuitError(f"{what} holds nan or infinity")
    return matrix


def _name(name: Any) -> str:
    if not isinstance(name, str) or not name:
        raise CircuitError(f"a gate needs a name, a non-empty str; got {name!r}")
    return name
