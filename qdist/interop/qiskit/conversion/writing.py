"""Circuits of ours as circuits of Qiskit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import methodcaller
from typing import Any

import numpy as np
from qiskit.circuit import CircuitInstruction, QuantumCircuit
from qiskit.circuit import Parameter as QiskitParameter
from qiskit.circuit import ParameterVector as QiskitVector
from qiskit.circuit.classical import expr
from qiskit.circuit.library import (
    DiagonalGate,
    Initialize,
    PauliEvolutionGate,
    UnitaryGate,
    get_standard_gate_name_mapping,
)
from qiskit.circuit.library import RC3XGate as _Rc3x
from qiskit.circuit.library import iSwapGate as _Iswap
from qiskit.quantum_info import Pauli

from qdist.circuit import Circuit, CircuitError
from qdist.circuit.channels import refuse_channels
from qdist.circuit.circuit import checked_circuit
from qdist.circuit.functions import Function
from qdist.circuit.gate import Gate, standard_name
from qdist.circuit.gates import GATES
from qdist.circuit.instruction import Condition
from qdist.circuit.parameters import Expression, ParameterVectorElement

__all__ = ["to_qiskit"]

_STANDARD = {name: type(gate) for name, gate in get_standard_gate_name_mapping().items()}
_STANDARD |= {"rc3x": _Rc3x, "gphase": _STANDARD["global_phase"]}


def to_qiskit(circuit: Circuit, like: QuantumCircuit | None = None) -> QuantumCircuit:
    """The same circuit in Qiskit, its global phase included.

    Parameters keep their names, and elements of a vector stay together. Gates that Qiskit lacks become Pauli
    evolutions, diagonals or matrices; an instruction under a condition becomes an if block.

    Args:
        like: a circuit with as many bits, whose registers and name are taken; by default there is one register of
            each kind, "q" and "c".

    Raises:
        TypeError: for anything but a qdist.Circuit.
        CircuitError: for channels of noise, for a gate that Qiskit lacks and whose angles have no values, by name, and
            where ``like`` has other numbers of bits.
    """
    checked_circuit(circuit, "to_qiskit")
    refuse_channels(circuit, "a circuit of Qiskit")
    if like is None:
        result = QuantumCircuit(circuit.num_qubits, circuit.num_clbits, name=circuit.name)
    else:
        if (like.num_qubits, like.num_clbits) != (circuit.num_qubits, circuit.num_clbits):
            raise CircuitError(
                f"like has {like.num_qubits} qubits and {like.num_clbits} classical bits, the circuit "
                f"{circuit.num_qubits} and {circuit.num_clbits}"
            )
        result = QuantumCircuit(like.qubits, like.clbits, *like.qregs, *like.cregs, name=like.name)
    parameters, wires = _parameters(circuit), result.qubits
    for gate, qubits, params, clbits, condition in circuit:
        kind = _STANDARD.get(standard_name(gate)) if qubits and not condition else None
        if kind is not None and gate.kind == "gate":
            # Ours are checked: what QuantumCircuit.append would check again takes most of its time.
            operation = kind(*[_angle(param, parameters) for param in params])
            result._append(CircuitInstruction(operation, [wires[qubit] for qubit in qubits]))
            continue
        angles = [_angle(param, parameters) for param in params]
        if condition:
            with result.if_test(_test(condition, result)):
                _append(result, gate, qubits, angles, clbits)
        else:
            _append(result, gate, qubits, angles, clbits)
    return result


def _append(
    result: QuantumCircuit, gate: Gate, qubits: Sequence[int], angles: Sequence[Any], clbits: Sequence[int]
) -> None:
    if gate.kind == "measure":
        result.measure(qubits[0], clbits[0])
    elif gate.kind == "reset":
        result.reset(qubits[0])
    elif gate.kind == "barrier":
        result.barrier(*qubits)
    elif gate.kind == "initialize":
        result.append(Initialize(_state(gate)), qubits)
    elif not qubits:
        result.append(_STANDARD["gphase"](_phase(gate, angles)), [])
    else:
        result.append(_operation(gate, angles), qubits)


def _operation(gate: Gate, angles: Sequence[Any]) -> Any:
    kind = _STANDARD.get(standard_name(gate))
    if kind is not None:
        return kind(*angles)
    if gate.num_controls:
        state = gate.ctrl_state
        if not gate.base.num_qubits:
            # A controlled phase is the phase gate of one of its controls under the others; that one has to be 1.
            return _controlled_phase(gate.num_controls, state, _phase(gate.base, angles))
        return _operation(gate.base, angles).control(gate.num_controls, ctrl_state=state)
    if gate is GATES["iswapdg"]:
        return _Iswap().inverse()
    if gate.pauli is not None:
        return PauliEvolutionGate(Pauli(gate.pauli[::-1]), time=0.5 * angles[0])
    if any(isinstance(angle, QiskitParameter) or hasattr(angle, "parameters") for angle in angles):
        raise CircuitError(f"Qiskit has no {gate.name} with parameters: bind the circuit first")
    if gate.is_diagonal:
        return DiagonalGate(list(gate.diagonal(*angles)))
    return UnitaryGate(gate.matrix(*angles), label=gate.name)


def _phase(gate: Gate, angles: Sequence[Any]) -> Any:
    """The angle of a gate on no qubits."""
    return angles[0] if gate is GATES["gphase"] else float(np.angle(gate.matrix(*angles).item()))


def _controlled_phase(count: int, state: int, angle: Any) -> Any:
    inner = QuantumCircuit(count)
    flipped = [k for k in range(count) if not state >> k & 1]
    for k in flipped:
        inner.x(k)
    if count == 1:
        inner.p(angle, 0)
    else:
        inner.mcp(angle, list(range(count - 1)), count - 1)
    for k in flipped:
        inner.x(k)
    return inner.to_gate(label="gphase")


def _state(gate: Gate) -> Any:
    """The 2^n amplitudes of an initialisation."""
    size, state = 1 << gate.num_qubits, gate.data
    if isinstance(state, int | np.integer):
        return np.eye(1, size, int(state)).ravel()
    array = np.asarray(state, complex)
    if array.ndim == 2:
        return reduce(np.kron, array[::-1])
    return array


def _parameters(circuit: Circuit) -> dict[Any, Any]:
    vectors: dict[str, Any] = {}
    found: dict[Any, Any] = {}
    for parameter in circuit.parameters:
        if isinstance(parameter, ParameterVectorElement):
            name = parameter.vector.name
            if name not in vectors:
                vectors[name] = QiskitVector(name, len(parameter.vector))
            found[parameter] = vectors[name][parameter.index]
        else:
            found[parameter] = QiskitParameter(parameter.name)
    return found


def _angle(angle: Any, parameters: dict[Any, Any]) -> Any:
    if not isinstance(angle, Expression):
        return angle
    symbols = [(_symbol(one, parameters), factor) for one, factor in angle.terms.items()]
    terms = [symbol if factor == 1 else factor * symbol for symbol, factor in symbols]
    total = sum(terms[1:], terms[0])
    return total + angle.constant if angle.constant else total


def _symbol(symbol: Any, parameters: dict[Any, Any]) -> Any:
    """A parameter, or a product or function of some."""
    if not isinstance(symbol, Function):
        return parameters[symbol]
    operation, arguments = symbol.call
    write = _FUNCTIONS.get(getattr(operation, "name", ""))
    if write is None:
        raise CircuitError(f"Qiskit's expressions have no {symbol.name}: bind its parameters first")
    return write(*(_angle(argument, parameters) for argument in arguments))


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "product": lambda x, y: x * y,
    "quotient": lambda x, y: x / y,
    "power": lambda x, y: x**y,
    "sqrt": lambda x: x**0.5,
    "tanh": lambda x: 1 - 2 / ((2 * x).exp() + 1),
    **{name: methodcaller(name) for name in ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "exp", "log")},
}


def _test(condition: Sequence[Condition], result: QuantumCircuit) -> Any:
    """One test of a bit as Qiskit's pair, anything else as an expression."""
    if len(condition) == 1 and len(condition[0].clbits) == 1:
        test = condition[0]
        return result.clbits[test.clbits[0]], bool(test.value) == test.equal
    return reduce(expr.logic_and, [_expression(test, result) for test in condition])


def _expression(test: Condition, result: QuantumCircuit) -> Any:
    bits = [
        expr.lift(result.clbits[bit]) if test.value >> k & 1 else expr.logic_not(expr.lift(result.clbits[bit]))
        for k, bit in enumerate(test.clbits)
    ]
    found = reduce(expr.logic_and, bits)
    return found if test.equal else expr.logic_not(found)
