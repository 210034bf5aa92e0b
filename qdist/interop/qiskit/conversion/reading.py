"""Circuits of Qiskit as circuits of ours, instruction by instruction, without a detour over text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from qiskit.circuit import (
    AnnotatedOperation,
    Barrier,
    ControlFlowOp,
    ControlledGate,
    ControlModifier,
    InverseModifier,
    Measure,
    Operation,
    QuantumCircuit,
    Reset,
)
from qiskit.circuit import Gate as QiskitGate
from qiskit.circuit import Parameter as QiskitParameter
from qiskit.circuit.library import CUGate, Initialize, PauliEvolutionGate, PermutationGate, UnitaryGate
from qiskit.circuit.library import DiagonalGate as QiskitDiagonal

from qdist.circuit import Circuit, CircuitError
from qdist.circuit.gate import Gate
from qdist.circuit.gates import (
    GATES,
    MEASURE,
    RESET,
    barrier_gate,
    diagonal_gate,
    initialize_gate,
    pauli_rotation_gate,
    permutation_gate,
    unitary_gate,
)
from qdist.circuit.instruction import Condition
from qdist.circuit.parameters import Angle

from . import control_flow
from .angles import Angles
from .evolution import rotations
from .layouts import in_virtual_order

__all__ = ["Reader", "checked_quantum_circuit", "from_qiskit"]

_NAMES = {**{name: name for name in GATES}, "rcccx": "rc3x", "c3sx": "c3sqrtx", "global_phase": "gphase"}
"""Qiskit's names of gates that our table has."""
_NOTHING = ("delay", "snapshot")
_CLASSICAL = ("break_loop", "continue_loop", "store")
_MOST_MATRIX_QUBITS = 10


def from_qiskit(
    circuit: QuantumCircuit, parameters: Mapping[Any, Angle] | None = None, *, virtual: bool = False
) -> Circuit:
    """The same circuit, with the same numbers of qubits and classical bits, global phase included.

    Gates of our table, also controlled, stay what they are; Pauli evolutions of first order become Pauli rotations;
    what has a definition is taken apart, and what has only a matrix becomes one. If/else, switch and for loops are
    resolved into conditions on each instruction.

    Args:
        parameters: what stands for Qiskit's parameters; by default parameters of the same names.
        virtual: for a transpiled circuit, whether its qubits are numbered as before: the result is then the circuit
            that was transpiled, in other gates. Ancillas come last, as far as they are used. By default qubits are the
            physical ones.

    Raises:
        TypeError: for anything but a circuit of Qiskit.
        CircuitError: for expressions with abs() and other functions that expressions here lack, while loops, break and
            continue, tests other than those of bits and registers for values, and what has neither
            definition nor matrix, by name.
    """
    checked_quantum_circuit(circuit, "from_qiskit")
    result = Circuit(circuit.num_qubits, circuit.num_clbits, circuit.name)
    reader = Reader(result, Angles(parameters))
    reader.read(circuit, range(circuit.num_qubits), range(circuit.num_clbits), ())
    return in_virtual_order(result, circuit.layout) if virtual and circuit.layout is not None else result


def checked_quantum_circuit(given: Any, taker: str) -> None:
    """Raises TypeError where something else is given in place of a circuit of Qiskit, with the way to make one."""
    if isinstance(given, QuantumCircuit):
        return
    way = ""
    if isinstance(given, Circuit):
        way = ": to_qiskit(circuit) makes one"
    elif isinstance(given, str):
        way = ": qdist.Circuit.from_qasm(text) reads OpenQASM"
    elif isinstance(given, Operation):
        way = ": append it to one"
    elif isinstance(given, Sequence):
        way = ", one at a time"
    raise TypeError(f"{taker} takes a qiskit.QuantumCircuit, not {type(given).__name__}{way}")


class Reader:
    """Appends circuits of Qiskit to one of ours."""

    def __init__(self, result: Circuit, angles: Angles) -> None:
        self.result, self.angles = result, angles

    def read(
        self,
        circuit: QuantumCircuit,
        qubits: Sequence[int],
        clbits: Sequence[int],
        condition: tuple[Condition, ...],
    ) -> None:
        """A circuit whose bits are these of the result, under a condition."""
        place = {bit: qubits[k] for k, bit in enumerate(circuit.qubits)}
        classical = {bit: clbits[k] for k, bit in enumerate(circuit.clbits)}
        phase = self.angles(circuit.global_phase)
        if not isinstance(phase, float) or phase:
            self.append(GATES["gphase"], (), (phase,), condition)
        angles, append, under = self.angles, self.result.append, condition or None
        for item in circuit.data:
            wires = tuple([place[bit] for bit in item.qubits])
            if item.is_standard_gate():
                # Qiskit makes its Python object only when it is asked for it.
                params = item.params
                gate = _standard(item.name, len(params))
                if gate is not None:
                    append(gate, wires, [angles(param) for param in params] if params else (), (), under)
                    continue
            operation = item.operation
            if isinstance(operation, ControlFlowOp):
                control_flow.read(self, operation, wires, [classical[bit] for bit in item.clbits], classical, condition)
            elif isinstance(operation, Measure):
                self.result.append(MEASURE, wires, (), (classical[item.clbits[0]],), condition or None)
            else:
                self.operation(operation, wires, condition)

    def append(
        self, gate: Gate, qubits: Sequence[int], params: Sequence[Any] = (), condition: tuple[Condition, ...] = ()
    ) -> None:
        self.result.append(gate, tuple(qubits), params, (), condition or None)

    def operation(self, operation: Any, qubits: tuple[int, ...], condition: tuple[Condition, ...]) -> None:
        """Anything without classical bits."""
        name = operation.name
        if isinstance(operation, Barrier):
            self.append(barrier_gate(len(qubits)), qubits, (), condition)
        elif isinstance(operation, Reset):
            self.append(RESET, qubits, (), condition)
        elif isinstance(operation, Initialize):
            self.append(initialize_gate(_amplitudes(operation), len(qubits)), qubits, (), condition)
        elif not isinstance(operation, QiskitGate) and name in _CLASSICAL:
            raise CircuitError(
                f"{name}: circuits of qdist have if/else, switch and for loops, without jumps out of loops and without "
                "classical variables; write it with if_test, or run it in parts"
            )
        elif isinstance(operation, QiskitGate) or name not in _NOTHING:
            for gate, wires, params in self.parts(operation, qubits):
                self.append(gate, wires, params, condition)

    def parts(self, operation: Any, qubits: tuple[int, ...]) -> list[tuple[Gate, tuple[int, ...], tuple[Any, ...]]]:
        """A unitary operation as gates of ours, with their qubits and angles."""
        table = _in_table(operation)
        if table is not None:
            wires = () if table.num_qubits == 0 else qubits
            return [(table, wires, tuple([self.angles(param) for param in operation.params]))]
        if isinstance(operation, AnnotatedOperation):
            return self._annotated(operation, qubits)
        if isinstance(operation, ControlledGate):
            return self._under_controls(operation, qubits)
        if isinstance(operation, UnitaryGate):
            return [_unitary(np.asarray(operation.params[0]), qubits)]
        if isinstance(operation, PermutationGate):
            return [(permutation_gate(_permutation(operation)), qubits, ())]
        if isinstance(operation, QiskitDiagonal):
            return [(diagonal_gate(np.asarray(operation.params, complex)), qubits, ())]
        if isinstance(operation, PauliEvolutionGate):
            found = rotations(operation, self.angles)
            if found is not None:
                return [
                    (
                        pauli_rotation_gate(letters[::-1]) if letters else GATES["gphase"],
                        tuple(qubits[q] for q in on),
                        (angle,),
                    )
                    for letters, on, angle in found
                ]
        return self._defined(operation, qubits)

    def _under_controls(self, operation: Any, qubits: tuple[int, ...]) -> list[Any]:
        count, base = operation.num_ctrl_qubits, operation.base_gate
        if isinstance(operation, CUGate):
            # Its base gate lacks the fourth angle.
            inner = [(GATES["cu"].base, qubits[count:], tuple([self.angles(param) for param in operation.params]))]
        elif len(qubits) != count + base.num_qubits or _is_outdated(base):
            # With more qubits the base gate is applied to several targets, or some are there to help.
            return self._defined(operation, qubits)
        else:
            inner = self.parts(base, qubits[count:])
        return [_controlled(part, qubits[:count], operation.ctrl_state) for part in inner]

    def _annotated(self, operation: Any, qubits: tuple[int, ...]) -> list[Any]:
        count = operation.num_qubits - operation.base_op.num_qubits
        controls, found = list(qubits[:count]), self.parts(operation.base_op, qubits[count:])
        for modifier in operation.modifiers:
            if isinstance(modifier, InverseModifier):
                found = [_inverse(part) for part in reversed(found)]
            elif isinstance(modifier, ControlModifier):
                # The last modifier's controls come first.
                own = controls[-modifier.num_ctrl_qubits :]
                del controls[-modifier.num_ctrl_qubits :]
                found = [_controlled(part, tuple(own), modifier.ctrl_state) for part in found]
            elif float(modifier.power).is_integer():
                times = int(modifier.power)
                base = found if times >= 0 else [_inverse(part) for part in reversed(found)]
                found = base * abs(times)
            else:
                return [_unitary(_matrix(operation), qubits)]
        return found

    def _defined(self, operation: Any, qubits: tuple[int, ...]) -> list[Any]:
        definition = getattr(operation, "definition", None)
        if definition is None:
            return [_unitary(_matrix(operation), qubits)]
        inner = Circuit(definition.num_qubits)
        Reader(inner, self.angles).read(definition, range(definition.num_qubits), (), ())
        for instruction in inner:
            if instruction.gate.kind not in ("gate", "barrier"):
                raise CircuitError(f"{operation.name} has a {instruction.gate.name} inside, which no gate may have")
        return [(i.gate, tuple([qubits[q] for q in i.qubits]), i.params) for i in inner if i.gate.kind == "gate"]


def _in_table(operation: Any) -> Gate | None:
    """The gate of our table that has Qiskit's name, if the operation is Qiskit's own with all controls at one."""
    # A user's own gate may have any name.
    if not getattr(operation, "base_class", object).__module__.startswith("qiskit.circuit.library"):
        return None
    return _standard(operation.name, len(operation.params))


def _standard(name: str, angles: int) -> Gate | None:
    """The gate of our table that Qiskit gives this name and so many angles."""
    own = _NAMES.get(name)
    if own is None:
        return None
    # Qiskit's cu is a controlled u with a fourth angle, the phase.
    gate = GATES["cu"].base if own == "u" and angles == 4 else GATES[own]
    return gate if gate.num_params == angles else None


def _is_outdated(gate: Any) -> bool:
    """Whether a base gate's definition may have parameters for which others, or values, were assigned.

    Qiskit assigns them in the definition of the controlled gate and in ``params``, which it shares with its base gate,
    but not in the base gate's definition. (One that was not asked for yet will be made from ``params``.)
    """
    definition = getattr(gate, "_definition", None)
    if definition is None or not definition.num_parameters or _in_table(gate) is not None:
        return False
    params = list(gate.params)
    return not all(isinstance(param, QiskitParameter) for param in params) or params != list(definition.parameters)


def _unitary(matrix: np.ndarray, qubits: tuple[int, ...]) -> Any:
    """A matrix as a gate; that of no qubits is a phase."""
    if qubits:
        return unitary_gate(matrix), qubits, ()
    return GATES["gphase"], (), (float(np.angle(matrix.item())),)


def _controlled(part: Any, controls: tuple[int, ...], state: int | None) -> Any:
    gate, wires, params = part
    return gate.controlled(len(controls), state), controls + tuple(wires), params


def _inverse(part: Any) -> Any:
    gate, wires, params = part
    undone, turned = gate.inverse(params)
    return undone, wires, tuple(turned)


def _permutation(operation: Any) -> list[int]:
    """Qiskit's pattern says where each qubit's state comes from; ours what index becomes of each basis state."""
    pattern = [int(k) for k in operation.params[0]]
    return [sum((index >> source & 1) << k for k, source in enumerate(pattern)) for index in range(1 << len(pattern))]


def _amplitudes(operation: Any) -> Any:
    """The state that an Initialize gives: amplitudes, or the number of a basis state."""
    params = list(operation.params)
    if isinstance(params[0], str):
        return reduce(np.kron, [_LETTERS[letter] for letter in params])
    return int(np.real(params[0])) if len(params) == 1 else np.asarray(params, complex)


_LETTERS = {
    "0": np.array([1, 0]),
    "1": np.array([0, 1]),
    "+": np.array([1, 1]) / math.sqrt(2),
    "-": np.array([1, -1]) / math.sqrt(2),
    "r": np.array([1, 1j]) / math.sqrt(2),
    "l": np.array([1, -1j]) / math.sqrt(2),
}


def _matrix(operation: Any) -> np.ndarray:
    if operation.num_qubits > _MOST_MATRIX_QUBITS or not hasattr(operation, "to_matrix"):
        raise CircuitError(
            f"{operation.name} on {operation.num_qubits} qubits has no definition, and no matrix of up to "
            f"{_MOST_MATRIX_QUBITS} qubits: decompose it or give it one"
        )
    try:
        return np.asarray(operation.to_matrix())
    except Exception as error:
        raise CircuitError(f"{operation.name} has no definition and no matrix: {error}") from error
