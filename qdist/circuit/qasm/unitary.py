"""A gate call taken apart: a circuit on its own qubits, a global phase, and what modifiers do to them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..circuit import Circuit
from ..errors import CircuitError
from ..gates import GATES, Gate, unitary_gate
from ..parameters import Angle, Expression

# Larger matrices are not built for a fractional power; what is built takes milliseconds.
MAX_MATRIX_QUBITS = 8
MAX_MATRIX_WORK = 1 << 22
_TOLERANCE = 1e-12


class Unitary(NamedTuple):
    """e^{i phase} times a circuit of gates (and barriers), on qubits 0 .. circuit.num_qubits - 1.

    The phase is kept apart because it is free until the gate is controlled: then it becomes a gate on the
    controls.
    """

    circuit: Circuit
    phase: Angle = 0.0

    @classmethod
    def of(cls, gate: Gate, params: tuple[Angle, ...], phase: Angle = 0.0) -> Unitary:
        circuit = Circuit(gate.num_qubits)
        circuit.append(gate, range(gate.num_qubits), params)
        return cls(circuit, phase)

    @classmethod
    def split(cls, circuit: Circuit, phase: Angle) -> Unitary:
        """A circuit, with the phase of its gphase instructions taken out, times a further phase."""
        if all(instruction.gate is not GATES["gphase"] for instruction in circuit):
            return cls(circuit, phase)
        rest = Circuit(circuit.num_qubits)
        for instruction in circuit:
            if instruction.gate is GATES["gphase"]:
                phase = phase + instruction.params[0]
            else:
                rest.append(*instruction)
        return cls(rest, phase)

    def inverse(self) -> Unitary:
        return Unitary(self.circuit.inverse(), -self.phase)

    def controlled(self, num_controls: int, value: int) -> Unitary:
        """Under controls that must all be `value`; they come before the other qubits."""
        state = (1 << num_controls) - 1 if value else 0
        circuit = self.circuit.controlled(num_controls, state)
        if isinstance(self.phase, Expression) or self.phase != 0.0:
            gate = GATES["gphase"].controlled(num_controls, state)
            circuit.append(gate, range(num_controls), (self.phase,))
        return Unitary(circuit)

    def turned(self, times: int) -> Unitary | None:
        """The integer power of a single rotation, which turns further; None for anything else."""
        if len(self.circuit) != 1:
            return None
        gate, qubits, params, *_ = self.circuit[0]
        if len(params) != 1 or gate.base.generator is None:
            return None
        circuit = Circuit(self.circuit.num_qubits)
        circuit.append(gate, qubits, (times * params[0],))
        return Unitary(circuit, times * self.phase)

    def repeated(self, times: int) -> Unitary:
        """The integer power."""
        return Unitary(self.circuit.power(times), times * self.phase)

    def root(self, exponent: float) -> Unitary:
        """A fractional power, on the principal branch: eigenphases are taken from (-pi, pi].

        Raises CircuitError where parameters are unbound or the matrix would be too wide.
        """
        if len(self.circuit) == 1 and self.phase == 0.0 and self.circuit[0].gate.num_controls:
            # The power of a controlled gate is the controlled power, which keeps the controls visible.
            gate, qubits, params, *_ = self.circuit[0]
            power = Unitary.of(gate.base, params).root(exponent)
            circuit = power.circuit.controlled(gate.num_controls, gate.ctrl_state)
            if power.phase != 0.0:
                phase = GATES["gphase"].controlled(gate.num_controls, gate.ctrl_state)
                circuit.append(phase, range(gate.num_controls), (power.phase,))
            return Unitary(Circuit(self.circuit.num_qubits).compose(circuit, qubits))
        matrix = principal_power(self.matrix(), exponent)
        if matrix.shape == (1, 1):
            return Unitary(Circuit(0), float(np.angle(matrix[0, 0])))
        return Unitary.of(*name_matrix(matrix))

    def matrix(self) -> np.ndarray:
        """The matrix. Raises CircuitError where parameters are unbound or there are too many qubits."""
        if isinstance(self.phase, Expression) or self.circuit.num_parameters:
            raise CircuitError("the power of a gate with unbound parameters must be an integer")
        width = self.circuit.num_qubits
        if width > MAX_MATRIX_QUBITS or len(self.circuit) << 2 * width > MAX_MATRIX_WORK:
            raise CircuitError(
                f"a fractional power of {len(self.circuit)} gates on {width} qubits is too large to compute"
            )
        size = 1 << width
        tensor = np.eye(size, dtype=np.complex128).reshape((2,) * width + (size,))
        for gate, qubits, params, *_ in self.circuit:
            if gate.is_directive:
                continue
            count = gate.num_qubits
            # Axis k of a tensor holds qubit width - 1 - k: the last axis is the least significant bit.
            axes = [width - 1 - qubit for qubit in reversed(qubits)]
            operator = gate.matrix(*params).reshape((2,) * (2 * count))
            tensor = np.tensordot(operator, tensor, axes=(range(count, 2 * count), axes))
            tensor = np.moveaxis(tensor, range(count), axes)
        return np.exp(1j * self.phase) * tensor.reshape(size, size)


def principal_power(matrix: np.ndarray, exponent: float) -> np.ndarray:
    """matrix**exponent for a unitary matrix, with eigenphases in (-pi, pi]."""
    # The Hermitian and anti-Hermitian parts of a unitary commute, so a generic mixture of them has
    # eigenvectors common to both, orthonormal also where eigenvalues repeat.
    hermitian = (matrix + matrix.conj().T) / 2
    antihermitian = (matrix - matrix.conj().T) / 2j
    _, vectors = np.linalg.eigh(hermitian + 0.7548776662466927 * antihermitian)
    values = np.einsum("ij,ik,kj->j", vectors.conj(), matrix, vectors)
    phases = np.angle(values)
    # Rounding must not turn an eigenvalue -1 (phase pi) into one just below the cut (phase -pi).
    phases[phases < -np.pi + 1e-9] += 2 * np.pi
    return (vectors * np.exp(1j * exponent * phases)) @ vectors.conj().T


def name_matrix(matrix: np.ndarray) -> tuple[Gate, tuple[float, ...]]:
    """The one-qubit gate of the table with this matrix, or an arbitrary unitary."""
    if matrix.shape == (2, 2):
        for name in ("id", "x", "y", "z", "h", "s", "sdg", "t", "tdg", "sx", "sxdg"):
            if np.allclose(matrix, GATES[name].matrix(), atol=_TOLERANCE, rtol=0):
                return GATES[name], ()
        phase = float(np.angle(matrix[1, 1]))
        if np.allclose(matrix, GATES["p"].matrix(phase), atol=_TOLERANCE, rtol=0):
            return GATES["p"], (phase,)
    return unitary_gate(matrix), ()
