"""The tangent circuit: a circuit on one more qubit whose state holds that of the circuit and its derivative.

Behind every gate exp(-i t/2 G) stands exp(-i s/2 X G), where X is on the added qubit a and s = h dt is the tangent of
the angle times a small number h. It takes |0>|psi> + h |1>|phi> to |0>|psi> + h |1>(|phi> - i/2 dt G |psi>), up to
h^2: after the circuit |phi> is the derivative of |psi> along the tangents. No difference of large numbers is taken, so
h can be as small as a complex step's, and the error h^2 lies below rounding. Being a circuit of plain rotations, it is
planned, run and differentiated on every device and on ranks as any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from qdist.circuit import Circuit, CircuitError, Parameter, PauliSum
from qdist.circuit.data_gates import pauli_rotation_gate
from qdist.circuit.functions import Elementary, Function
from qdist.circuit.gate import Gate
from qdist.circuit.gates import GATES
from qdist.circuit.instruction import Instruction
from qdist.circuit.measurements import split_final_measurements
from qdist.circuit.parameters import Angle, Expression
from qdist.program.tangent.symbols import Tangents

__all__ = ["TangentCircuit", "tangent_circuit"]

Step: TypeAlias = tuple[Gate, tuple[int, ...], tuple[Angle, ...]]


@dataclass(frozen=True)
class TangentCircuit:
    """Parameters are those of the circuit, in their order, then as many tangents of them."""

    circuit: Circuit
    slots: np.ndarray
    """Which angles, in the order of ``circuit.affine``, are those of added rotations."""


def tangent_circuit(circuit: Circuit) -> TangentCircuit:
    """Of a circuit of gates that the kernels know (``circuit.lowered``); measurements at its end are left out."""
    body, _ = split_final_measurements(circuit.instructions)
    tangents = Tangents(circuit.parameters)
    extra = circuit.num_qubits
    made = _Instructions()
    for gate, qubits, params, clbits, condition in body:
        made.enter(_together(params))
        if not any(isinstance(param, Expression) for param in params):
            made.append(Instruction(gate, qubits, params, clbits, condition))
            continue
        for step, places, angles in _steps(gate, qubits, params):
            made.append(Instruction(step, places, angles))
            for angle in angles:
                change = tangents.of(angle)
                if isinstance(change, Expression):
                    for added, where, factor in _added(step, places, extra):
                        made.add(Instruction(added, where, (factor * change,)))
    made.enter(None)
    result = Circuit(extra + 1, circuit.num_clbits, circuit.name).with_instructions(made.instructions)
    symbols: Sequence[Parameter] = (*circuit.parameters, *tangents.parameters)
    return TangentCircuit(result.with_order(symbols), np.array(made.slots, np.intp))


class _Instructions:
    """Those of a tangent circuit, with the places of the added ones' angles.

    Added rotations stand directly behind their gate, but those of a gate that is given by its matrix behind all of the
    rotations by 0 that have its derivative: in dU = -i/2 sum_P c_P P U they act at once, whether they commute or not.
    """

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.slots: list[int] = []
        self._count = 0
        self._group: Any = None
        self._waiting: list[Instruction] = []

    def enter(self, group: Any) -> None:
        """What follows is of this group, or with None of none."""
        if group is None or group != self._group:
            waiting, self._waiting, self._group = self._waiting, [], None
            for instruction in waiting:
                self.add(instruction)
        self._group = group

    def append(self, instruction: Instruction) -> None:
        self.instructions.append(instruction)
        self._count += len(instruction.params)

    def add(self, instruction: Instruction) -> None:
        """An added rotation, of one angle."""
        if self._group is not None:
            self._waiting.append(instruction)
            return
        self.slots.append(self._count)
        self.append(instruction)


def _together(params: tuple[Angle, ...]) -> Any:
    """The call that the angle of a rotation by 0 comes from, which has the derivative of a gate's matrix; else None."""
    for param in params:
        for symbol in param.terms if isinstance(param, Expression) else ():
            if isinstance(symbol, Function) and not isinstance(symbol.call[0], Elementary):
                return symbol.call
    return None


def _steps(gate: Gate, qubits: tuple[int, ...], params: tuple[Angle, ...]) -> Iterator[Step]:
    """A gate with angles as gates of one angle each, or of none."""
    base = gate.base
    if base.name == "pauli_rotation" or (base.num_params == 1 and base.generator is not None):
        yield gate, qubits, params
        return
    controls, targets = qubits[: gate.num_controls], qubits[gate.num_controls :]
    for inner, angles, wires in _factors(base, params):
        places = tuple(targets[k] for k in wires)
        if controls:
            inner, places = inner.controlled(len(controls), gate.ctrl_state), controls + places
        yield from _steps(inner, places, angles) if angles else [(inner, places, angles)]


def _factors(base: Gate, params: tuple[Angle, ...]) -> list[tuple[Gate, tuple[Angle, ...], tuple[int, ...]]]:
    if base.name in ("u", "u2"):
        theta, phi, lam = params if base.name == "u" else (np.pi / 2, *params)
        return [(GATES["p"], (lam,), (0,)), (GATES["ry"], (theta,), (0,)), (GATES["p"], (phi,), (0,))]
    # Few gates come here, and with it comes the reader of OpenQASM: a third of the time to import programs.
    from qdist.circuit.qasm.decompose import decompose

    return decompose(base, params)


def _added(gate: Gate, qubits: tuple[int, ...], extra: int) -> Iterator[tuple[Gate, tuple[int, ...], float]]:
    """exp(-i s/2 X G) for a gate of one angle, as gates with the factors of s that are their angles."""
    base = gate.base
    controls, targets = qubits[: gate.num_controls], qubits[gate.num_controls :]
    if base.name == "gphase" or base.name == "p":
        # exp(i s) where all its qubits are 1: a rotation of the added qubit by -2 s on the same condition.
        state = gate.ctrl_state | ((1 << len(targets)) - 1) << len(controls)
        yield (GATES["rx"].controlled(len(qubits), state) if qubits else GATES["rx"]), (*qubits, extra), -2.0
        return
    for letters, factor in _strings(base):
        places = [k for k, letter in enumerate(letters) if letter != "I"]
        label = "X" + "".join(letters[k] for k in reversed(places))
        added = pauli_rotation_gate(label) if len(label) > 1 else GATES["rx"]
        if controls:
            added = added.controlled(len(controls), gate.ctrl_state)
        yield added, (*controls, *(targets[k] for k in places), extra), factor


def _strings(base: Gate) -> list[tuple[str, float]]:
    """The Pauli strings of the generator, whose first letter is on the first qubit, and their coefficients."""
    if base.name == "pauli_rotation":
        return [(base.data[::-1], 1.0)]
    if base.pauli is not None:
        return [(base.pauli, 1.0)]
    assert base.generator is not None, "a gate of one angle has a generator"
    found: Any = PauliSum.from_matrix(base.generator)
    if not found.is_commuting():
        raise CircuitError(f"the generator of {base.name} is a sum of Pauli strings that do not commute")
    return [(string.label(base.num_qubits)[::-1], float(factor.real)) for string, factor in found]
