"""Pauli errors as signs of angles: the circuit that all trajectories share.

A Pauli error behind a Clifford gate is another Pauli error before it, and before a Pauli rotation it only changes the
sign of the rotation's angle, where the two anticommute. So errors are carried to the end of the circuit as a frame (X
and Z bits a qubit), and a trajectory is a set of signs: the parameters of one circuit, for which a plan is made once.
Before a gate that is neither, the part of the frame that does not commute with it is put in, as rotations by 0 or pi.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np

from qdist.circuit import Circuit, Gate, Parameter, ParameterVector, pauli_rotation_gate
from qdist.circuit.channels import Channel, as_pauli
from qdist.circuit.gate import standard_name
from qdist.circuit.gates import GATES
from qdist.circuit.instruction import Instruction
from qdist.circuit.matrices import pauli_matrix
from qdist.circuit.parameters import Angle, Expression
from qdist.noise.noisy import Noisy

__all__ = ["Errors", "FrameCircuit", "Mapped", "Put", "Turned"]

_MOST_CLIFFORD = 3
"""Qubits of a gate up to which it is looked at whether it is a Clifford gate."""


class Errors(NamedTuple):
    """A channel: which Pauli string happens. The first is the identity."""

    qubits: tuple[int, ...]
    bounds: np.ndarray
    """Sums of the probabilities."""
    x: list[int]
    z: list[int]


class Mapped(NamedTuple):
    """A Clifford gate: what becomes of X and of Z on each of its qubits, as masks (x, z) over them."""

    qubits: tuple[int, ...]
    of_x: list[tuple[int, int]]
    of_z: list[tuple[int, int]]


class Turned(NamedTuple):
    """A rotation about a Pauli string: the sign of an angle, as column of the parameters."""

    qubits: tuple[int, ...]
    letters: str
    column: int


class Put(NamedTuple):
    """An error that is put into the circuit: a rotation by 0 or pi about X or Z, as column of the parameters."""

    qubit: int
    is_x: bool
    column: int


FrameStep: TypeAlias = Errors | Mapped | Turned | Put


class FrameCircuit:
    """A circuit of Pauli channels without them.

    ideal: its gates with their angles. signed: the same with a parameter in the place of each angle that may change
    sign or depends on parameters, and what is put in. steps: what happens to frames. angles: for each parameter of
    ``signed`` the number of its angle in ``ideal``, -1 for what is put in.
    """

    def __init__(self, noisy: Noisy) -> None:
        self.steps: list[FrameStep] = []
        self.angles: list[int] = []
        self._noisy: set[int] = set()
        self._known: dict[Gate, Mapped | None] = {}
        ideal: list[Instruction] = []
        signed: list[tuple[Instruction, list[int | float]]] = []
        slot = 0
        for given in noisy.circuit:
            if isinstance(given.gate, Channel):
                self._channel(given)
                continue
            for instruction in _rotations(given):
                for place in self._carried(instruction):
                    column = self._column(-1)
                    self.steps.append(Put(*place, column))
                    rotation = GATES["rx" if place[1] else "rz"]
                    signed.append((Instruction(rotation, (place[0],), (0.0,)), [column]))
                flips = self._turns(instruction)
                columns: list[int | float] = []
                for k, angle in enumerate(instruction.params):
                    columns.append(self._column(slot + k) if flips or isinstance(angle, Expression) else angle)
                if flips and isinstance(columns[0], int):
                    letters = instruction.gate.pauli
                    assert letters is not None, "only Pauli rotations turn"
                    self.steps.append(Turned(instruction.qubits, letters, columns[0]))
                ideal.append(instruction)
                signed.append((instruction, columns))
                slot += len(instruction.params)
        self.ideal = noisy.circuit.with_instructions(ideal).with_order(noisy.parameters)
        own: list[Parameter] = list(ParameterVector("angle", len(self.angles))) if self.angles else []
        self.signed = Circuit(noisy.circuit.num_qubits).with_instructions(
            [i._replace(params=tuple(own[c] if isinstance(c, int) else c for c in columns)) for i, columns in signed]
        )
        self.signed = self.signed.with_order(own)

    def _column(self, angle: int) -> int:
        self.angles.append(angle)
        return len(self.angles) - 1

    def _channel(self, instruction: Instruction) -> None:
        assert isinstance(instruction.gate, Channel)
        strings = instruction.gate.paulis
        assert strings is not None, "frames are for Pauli channels"
        if any(x or z for p, x, z in strings if p):
            if any(strings[0][1:]):
                strings.insert(0, (0.0, 0, 0))
            bounds = np.cumsum([p for p, _, _ in strings])
            self.steps.append(Errors(instruction.qubits, bounds, [s[1] for s in strings], [s[2] for s in strings]))
            self._noisy.update(instruction.qubits)

    def _turns(self, instruction: Instruction) -> bool:
        gate = instruction.gate
        return gate.pauli is not None and not gate.num_controls and not self._noisy.isdisjoint(instruction.qubits)

    def _carried(self, instruction: Instruction) -> Iterator[tuple[int, bool]]:
        """Carries frames over a gate; yields (qubit, whether X) of what has to be put in before it."""
        gate, qubits = instruction.gate, instruction.qubits
        if self._noisy.isdisjoint(qubits) or (gate.pauli is not None and not gate.num_controls):
            return
        mapped = self._clifford(gate)
        if mapped is not None:
            self.steps.append(mapped._replace(qubits=qubits))
            self._noisy.update(qubits)
            return
        for k, qubit in enumerate(qubits):
            if qubit in self._noisy and k not in gate.diagonal_qubits:
                yield qubit, False
            if qubit in self._noisy and k not in gate.x_like_qubits:
                yield qubit, True

    def _clifford(self, gate: Gate) -> Mapped | None:
        if gate.num_params or gate.num_qubits > _MOST_CLIFFORD:
            return None
        if gate not in self._known:
            self._known[gate] = _mapped(gate)
        return self._known[gate]


def _mapped(gate: Gate) -> Mapped | None:
    n, matrix = gate.num_qubits, gate.matrix()
    images: list[list[tuple[int, int]]] = [[], []]
    for k in range(n):
        for letter, found in zip("XZ", images):
            pauli = pauli_matrix("I" * k + letter + "I" * (n - 1 - k))
            image = as_pauli(matrix @ pauli @ matrix.conj().T, n)
            if image is None:
                return None
            found.append(image[1:])
    return Mapped((), *images)


def _rotations(instruction: Instruction) -> Iterator[Instruction]:
    """A gate as Pauli rotations, up to a global phase, where it is a few of them; else as it is."""
    gate, qubits, params, _, _ = instruction
    base = gate.base
    if not qubits:
        return
    name = standard_name(base)
    steps: list[tuple[str, Angle]] = []  # letters, the first qubit's first
    if gate.num_controls == 0:
        if name == "p":
            steps = [("Z", params[0])]
        elif name in ("t", "tdg"):
            steps = [("Z", math.pi / 4 if name == "t" else -math.pi / 4)]
        elif name in ("u", "u2"):
            theta, phi, lam = params if name == "u" else (math.pi / 2, *params)
            steps = [("Z", lam), ("Y", theta), ("Z", phi)]
        elif name == "r":
            steps = [("Z", -params[1]), ("X", params[0]), ("Z", params[1])]
    elif gate.num_controls == 1 and gate.ctrl_state == 1 and base.num_params == 1:
        # exp(-i t/2 |1><1| P) = exp(-i t/4 P) exp(i t/4 Z P), and p is a Z rotation with a phase of its own.
        half = 0.5 * params[0]
        if base.pauli is not None:
            steps = [("I" + base.pauli, half), ("Z" + base.pauli, -half)]
        elif name == "p":
            steps = [("IZ", half), ("ZI", half), ("ZZ", -half)]
    if not steps:
        yield instruction
    for letters, angle in steps:
        places = [k for k, letter in enumerate(letters) if letter != "I"]
        yield _rotation("".join(letters[k] for k in places), tuple(qubits[k] for k in places), angle)


def _rotation(letters: str, qubits: tuple[int, ...], angle: Angle) -> Instruction:
    row = GATES.get("r" + letters.lower()) if letters in ("X", "Y", "Z", "XX", "YY", "ZZ", "ZX") else None
    return Instruction(row or pauli_rotation_gate(letters[::-1]), qubits, (angle,))
