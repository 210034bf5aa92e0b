"""Circuits as plain lists of gates, which every simulator of compare_cpu.py builds in its own way.

Names of gates are those of qdist's methods. What a library has no gate for is replaced by what it has (`rewritten`): a
matrix of two qubits, or, for Pauli rotations, the textbook's chain of CX around an RZ.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Term = tuple[float, str, tuple[int, ...]]
"""A coefficient, Pauli letters and their qubits."""


class Gate(NamedTuple):
    """One gate; "unitary" has a matrix alone, "pauli_rotation" letters, "mcp" (a phase of the last qubit) controls."""

    name: str
    qubits: tuple[int, ...]
    angles: tuple[float, ...] = ()
    parameters: tuple[tuple[int, float] | None, ...] = ()
    """For each angle the parameter that it is and by how much that is multiplied; None for a number."""
    matrix: NDArray[np.complex128] | None = None
    """Of gates on one or two qubits, qubits[0] as bit 0."""
    letters: str = ""
    """That of qubits[0] first."""
    controls: str = ""
    """For each control the value, 0 or 1, that it acts on."""

    @property
    def angle(self) -> float:
        (angle,) = self.angles
        return angle


class Work(NamedTuple):
    """A circuit to run, and the observable of its energy."""

    num_qubits: int
    gates: list[Gate]
    observable: Sequence[Term] = ()

    @property
    def num_parameters(self) -> int:
        return max((1 + p[0] for gate in self.gates for p in gate.parameters if p is not None), default=0)


def angles(work: Work, theta: NDArray[np.float64]) -> list[float]:
    """The one angle of every gate for these parameters; 0.0 for gates without one."""
    values = theta.tolist()
    found = []
    for gate in work.gates:
        parameter = gate.parameters[0] if gate.parameters else None
        found.append(parameter[1] * values[parameter[0]] if parameter else gate.angles[0] if gate.angles else 0.0)
    return found


def by_parameters(count: int, gates: Sequence[Gate], derivatives: Sequence[float]) -> NDArray[np.float64]:
    """Derivatives by the parameters, given those by every angle of the gates that is one."""
    found = np.zeros(count)
    angles = [parameter for gate in gates for parameter in gate.parameters if parameter is not None]
    for (parameter, factor), derivative in zip(angles, derivatives, strict=True):
        found[parameter] += factor * float(derivative)
    return found


def from_qdist(circuit: Any, theta: NDArray[np.float64], observable: Any = None, each_angle: bool = False) -> Work:
    """A circuit of qdist as a list of gates, its parameters with the values theta.

    With `each_angle` every angle is a parameter of its own, whatever the circuit's are.
    """
    position = {parameter: k for k, parameter in enumerate(circuit.parameters)}
    count = 0
    gates = []
    for symbolic, bound in zip(circuit, circuit.bind(theta)):
        gate, values = bound.gate, tuple(float(p) for p in bound.params)
        if each_angle:
            parameters: tuple[tuple[int, float] | None, ...] = tuple((count + k, 1.0) for k in range(len(values)))
            count += len(values)
        else:
            parameters = tuple(_multiple(p, position) for p in symbolic.params)
        name, controls, matrix, letters = gate.name, "", None, ""
        if gate.num_controls and len(bound.qubits) > 2:
            if gate.base.name != "p":
                raise ValueError(f"of gates on three and more qubits these lists have phases alone; got {gate.name}")
            name, controls = "mcp", format(gate.ctrl_state, f"0{gate.num_controls}b")[::-1]
        elif gate.name == "pauli_rotation":
            letters = gate.pauli
        else:
            matrix = np.array(gate.matrix(*values))
        gates.append(Gate(name, tuple(bound.qubits), values, parameters, matrix, letters, controls))
    terms = [
        (complex(c).real, "".join(string.letter(q) for q in string.qubits), tuple(string.qubits))
        for string, c in observable or ()
    ]
    return Work(circuit.num_qubits, gates, terms)


def _multiple(value: Any, position: dict[Any, int]) -> tuple[int, float] | None:
    terms = getattr(value, "terms", {})
    return next(((position[p], float(factor)) for p, factor in terms.items()), None)


def to_qdist(work: Work) -> tuple[Any, NDArray[np.float64]]:
    """The circuit of qdist for a list of gates, and the values of its parameters."""
    import qdist

    theta = qdist.ParameterVector("theta", work.num_parameters)
    values = np.zeros(len(theta))
    circuit = qdist.Circuit(work.num_qubits)
    for gate in work.gates:
        given: list[Any] = list(gate.angles)
        for k, parameter in enumerate(gate.parameters):
            if parameter is not None:
                index, factor = parameter
                given[k] = theta[index] if factor == 1.0 else factor * theta[index]
                values[index] = gate.angles[k] / factor
        if gate.name == "unitary":
            circuit.unitary(gate.matrix, list(gate.qubits))
        elif gate.letters:
            circuit.pauli_rotation(given[0], gate.letters[::-1], list(gate.qubits))
        elif gate.controls:
            *controls, target = gate.qubits
            circuit.mcp(given[0], controls, target, ctrl_state=int(gate.controls[::-1], 2))
        else:
            getattr(circuit, gate.name)(*given, *gate.qubits)
    return circuit, values


def rewritten(work: Work, known: Collection[str], matrices: bool = True) -> list[Gate]:
    """The gates with those of unknown names replaced, by matrices where that is possible and allowed."""
    return [part for gate in work.gates for part in _replaced(gate, known, matrices)]


def _replaced(gate: Gate, known: Collection[str], matrices: bool) -> Iterator[Gate]:
    if gate.name in known:
        yield gate
    elif gate.matrix is not None and matrices:
        yield gate._replace(name="unitary", angles=(), parameters=())
    elif gate.name == "fsim":
        for name, which, factor in (("rxx", 0, 1.0), ("ryy", 0, 1.0), ("cp", 1, -1.0)):
            yield from _replaced(_multiplied(name, gate.qubits, gate, which, factor), known, matrices)
    elif gate.name == "p":
        # RZ, and a global phase that no energy depends on.
        yield gate._replace(name="rz")
    elif gate.name == "cp":
        for q in gate.qubits:
            yield _multiplied("rz", (q,), gate, 0, 0.5)
        yield from _replaced(_multiplied("rzz", gate.qubits, gate, 0, -0.5), known, matrices)
    elif gate.name in ("rxx", "ryy", "rzz"):
        rotation = gate._replace(name="pauli_rotation", letters=gate.name[1:].upper(), matrix=None)
        yield from _replaced(rotation, known, matrices)
    elif gate.letters:
        yield from _ladder(gate)
    elif gate.controls:
        flipped = [Gate("x", (q,)) for q, value in zip(gate.qubits, gate.controls) if value == "0"]
        yield from flipped
        yield gate._replace(controls="1" * len(gate.controls), name="mcp")
        yield from flipped
    else:
        raise NotImplementedError(f"no gate {gate.name}")


def _multiplied(name: str, qubits: tuple[int, ...], gate: Gate, which: int, factor: float) -> Gate:
    """A gate whose one angle is a multiple of one of another gate's."""
    parameter = gate.parameters[which] if gate.parameters else None
    scaled = None if parameter is None else (parameter[0], factor * parameter[1])
    return Gate(name, qubits, (factor * gate.angles[which],), (scaled,))


def _ladder(gate: Gate) -> Iterator[Gate]:
    """A Pauli rotation as RZ of the parity, with each letter turned to Z before."""
    turns = {"X": ("h", (), ()), "Y": ("rx", (math.pi / 2,), (-math.pi / 2,))}
    chain = [Gate("cx", pair) for pair in zip(gate.qubits, gate.qubits[1:])]
    for which in (1, 2):
        if which == 2:
            yield Gate("rz", gate.qubits[-1:], gate.angles, gate.parameters)
            yield from reversed(chain)
        for letter, q in zip(gate.letters, gate.qubits):
            if letter in turns:
                yield Gate(turns[letter][0], (q,), turns[letter][which])
        if which == 1:
            yield from chain
