"""Gates of one's own as gates that the kernels know.

A generator becomes Pauli rotations where its strings commute, and else those of its diagonal form between two constant
matrices. A matrix of angles becomes rotations between pairs of basis states, whose angles are computed from the matrix
at the bound values. Those angles may jump, so the derivative goes another way: behind the gate stand Pauli rotations by
0, and dU = -i/2 sum_P c_P P U says how fast each of them turns. Of second derivatives there is no function; they are
differences of the c_P.
"""

from __future__ import annotations

import cmath
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from .circuit import Circuit
from .data_gates import pauli_rotation_gate, unitary_gate
from .errors import CircuitError
from .functions import Call, Column, call
from .gate import NAMED, Gate
from .gates import GATES
from .instruction import Instruction
from .matrices import Matrix, pauli_matrix
from .own_gates import MOST_QUBITS, CircuitGate
from .parameters import Angle, Expression

__all__ = ["lowered"]

Step: TypeAlias = tuple[Gate, tuple[int, ...], tuple[Angle, ...]]


def lowered(circuit: Circuit) -> Circuit:
    """The same circuit of gates that the kernels know; itself where it has no others."""
    if not any(_is_own(instruction.gate.base) for instruction in circuit):
        return circuit
    result = circuit.with_instructions(list(itertools.chain.from_iterable(map(_lowered, circuit))))
    return result.with_order(circuit.parameters)


def _is_own(base: Gate) -> bool:
    if isinstance(base, CircuitGate):
        return True
    if GATES.get(base.name) is base:
        return False
    known = base.formula or base.pauli or (base.is_diagonal and base.generator is not None)
    return base.is_unitary and base.num_params > 0 and not known


def _lowered(instruction: Instruction) -> Iterator[Instruction]:
    gate, qubits, params, clbits, condition = instruction
    if not _is_own(gate.base):
        yield instruction
        return
    controls, targets = qubits[: gate.num_controls], qubits[gate.num_controls :]
    for step, places, angles in _steps(gate.base, params):
        wires = tuple(targets[k] for k in places)
        if controls:
            step, wires = step.controlled(len(controls), gate.ctrl_state), controls + wires
        yield from _lowered(Instruction(step, wires, angles, clbits, condition))


def _steps(base: Gate, params: tuple[Angle, ...]) -> Iterator[Step]:
    if isinstance(base, CircuitGate):
        values = dict(zip(base.data.parameters, params))
        for gate, qubits, angles, _, _ in base.data:
            if not gate.is_directive:
                yield gate, qubits, tuple(a.bind(values) if isinstance(a, Expression) else a for a in angles)
    elif base.num_qubits > MOST_QUBITS:
        raise CircuitError(
            f"{base.name} is a gate of one's own on {base.num_qubits} qubits; up to {MOST_QUBITS} can run"
        )
    elif base.num_params == 1 and base.generator is not None:
        yield from _generated(base.generator, params[0], base.num_qubits)
    else:
        yield from _rotations(base, params)


# exp(-i t/2 G) -------------------------------------------------------------------------------------------------------


def _generated(generator: Matrix, angle: Angle, n: int) -> Iterator[Step]:
    everywhere = tuple(range(n))
    strings = [(label, c) for label, c in zip(_labels(n), _coefficients(generator, n)) if abs(c) > 1e-14]
    if all(_commute(a, b) for (a, _), (b, _) in itertools.combinations(strings, 2)):
        for label, coefficient in strings:
            yield _rotation(label, coefficient * angle)
        return
    values, vectors = np.linalg.eigh(generator)
    yield unitary_gate(vectors.conj().T), everywhere, ()
    for label, coefficient in zip(_labels(n), _coefficients(np.diag(values).astype(np.complex128), n)):
        if coefficient:
            yield _rotation(label, coefficient * angle)
    yield unitary_gate(vectors), everywhere, ()


def _rotation(label: str, angle: Angle) -> Step:
    """exp(-i angle/2 P); of the identity a phase."""
    if set(label) == {"I"}:
        return GATES["gphase"], (), (-0.5 * angle,)
    places = tuple(k for k, letter in enumerate(reversed(label)) if letter != "I")
    return pauli_rotation_gate("".join(letter for letter in label if letter != "I")), places, (angle,)


def _labels(n: int) -> list[str]:
    return ["".join(letters) for letters in itertools.product("IXYZ", repeat=n)]


def _commute(a: str, b: str) -> bool:
    return sum(p != q and "I" not in (p, q) for p, q in zip(a, b)) % 2 == 0


def _coefficients(matrix: Matrix, n: int) -> list[float]:
    """Of the Pauli strings of a Hermitian matrix, in the order of ``_labels``."""
    return [float(np.sum(p.T * matrix).real) / (1 << n) for p in _paulis(n)]


@lru_cache(maxsize=8)
def _paulis(n: int) -> list[Matrix]:
    return [pauli_matrix(label[::-1]) for label in _labels(n)]


# U(t0, t1, ...) ------------------------------------------------------------------------------------------------------


class _Turns(Call):
    """The angles of the rotations that make up a gate's matrix, four each, then a phase. They have no derivative."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def values(self, xp: Any, arguments: Sequence[Column]) -> list[Column]:
        return _each_row(xp, arguments, lambda angles: _angles(self.gate.matrix(*angles)))

    def pull_back(self, xp: Any, arguments: Sequence[Column], cotangents: Mapping[int, Column]) -> list[Column]:
        return [0.0] * len(arguments)

    def change(self, arguments: Sequence[Angle], changes: Sequence[Angle], output: int) -> Angle:
        return 0.0

    def text(self, arguments: Sequence[str], output: int) -> str:
        return f"{self.gate.name}({', '.join(arguments)})[{output}]"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self.gate == other.gate  # type: ignore[attr-defined]

    def __hash__(self) -> int:
        return hash((type(self), self.gate))


class _Tangents(_Turns):
    """Zeros, one a Pauli string P, that change as fast as c_P in dU = -i/2 sum_P c_P P U."""

    def values(self, xp: Any, arguments: Sequence[Column]) -> list[Column]:
        zero = sum(arguments) * 0.0
        return [zero] * 4**self.gate.num_qubits

    def pull_back(self, xp: Any, arguments: Sequence[Column], cotangents: Mapping[int, Column]) -> list[Column]:
        n, count = self.gate.num_qubits, len(arguments)
        table = _each_row(xp, arguments, lambda angles: _rates(self.gate, angles).reshape(-1))
        return [sum(g * table[k * 4**n + p] for p, g in cotangents.items()) for k in range(count)]

    def change(self, arguments: Sequence[Angle], changes: Sequence[Angle], output: int) -> Angle:
        return call(_Changes(self.gate), (*arguments, *changes), output)

    def text(self, arguments: Sequence[str], output: int) -> str:
        return f"d {self.gate.name}({', '.join(arguments)})[{output}]"


class _Changes(_Turns):
    """sum_k c_Pk dt_k for each Pauli string P, of the angles t and then their changes dt."""

    def values(self, xp: Any, arguments: Sequence[Column]) -> list[Column]:
        return _each_row(xp, arguments, lambda given: given[self._count :] @ _rates(self.gate, given[: self._count]))

    def pull_back(self, xp: Any, arguments: Sequence[Column], cotangents: Mapping[int, Column]) -> list[Column]:
        strings, count = 4**self.gate.num_qubits, self._count

        def partials(given: NDArray[np.float64]) -> NDArray[np.float64]:
            angles, changes = given[:count], given[count:]
            by_angles = [changes @ _slope(self.gate, angles, k) for k in range(count)]
            return np.concatenate([*by_angles, *_rates(self.gate, angles)])

        table = _each_row(xp, arguments, partials)
        return [sum(g * table[k * strings + p] for p, g in cotangents.items()) for k in range(2 * count)]

    def text(self, arguments: Sequence[str], output: int) -> str:
        return f"change of {self.gate.name}({', '.join(arguments)})[{output}]"

    @property
    def _count(self) -> int:
        return self.gate.num_params


def _rates(gate: Gate, angles: NDArray[np.float64]) -> NDArray[np.float64]:
    """c_kP in dU = -i/2 sum_P c_kP P U dt_k: (angles, Pauli strings)."""
    back = gate.matrix(*angles).conj().T
    found = [_coefficients(2j * (gate.derivative(k, *angles) @ back), gate.num_qubits) for k in range(len(angles))]
    return np.array(found)


def _slope(gate: Gate, angles: NDArray[np.float64], k: int) -> NDArray[np.float64]:
    """The derivative of ``_rates`` by angle k, by differences of sixth order: right to about 1e-13 where the matrix
    turns as fast as its angles, 1e-11 where ten times as fast."""
    step = 0.004 * np.eye(len(angles))[k]
    near, middle, far = (_rates(gate, angles + m * step) - _rates(gate, angles - m * step) for m in (1, 2, 3))
    return (45 * near - 9 * middle + far) / (60 * 0.004)


def _each_row(xp: Any, arguments: Sequence[Column], function: Any) -> list[Column]:
    """A function of an array of numbers, which gives several, for each row: on the host, whose matrix the gate has. Nan
    where a number is not finite, which Functions refuses by name."""
    there = [a.get() if hasattr(a, "get") else np.asarray(a, np.float64) for a in arguments]
    columns = np.broadcast_arrays(*there)
    given, usual = np.stack([c.reshape(-1) for c in columns], axis=1), 0.3 + 0.4 * np.arange(len(arguments))
    finite = np.isfinite(given).all(axis=1)
    rows = np.array([function(row) for row in np.where(finite[:, None], given, usual)])
    if not len(rows):
        rows = np.zeros((0, len(function(usual))))
    rows[~finite] = np.nan
    return [xp.asarray(column.reshape(columns[0].shape)) for column in rows.T]


def _rotations(base: Gate, params: tuple[Angle, ...]) -> Iterator[Step]:
    n = base.num_qubits
    turns = _Turns(base)
    steps = _pattern(n)
    everywhere = tuple(range(n))
    phase = call(turns, params, 4 * len(steps))
    yield GATES["gphase"].controlled(n, _gray(n)[-1]), everywhere, (phase,)
    for number, (upper, lower) in reversed(list(enumerate(steps))):
        target = (upper ^ lower).bit_length() - 1
        others = [q for q in range(n) if q != target]
        pattern = sum((upper >> q & 1) << k for k, q in enumerate(others))
        gate = NAMED["phased_u"].controlled(n - 1, pattern)
        yield gate, (*others, target), tuple(call(turns, params, 4 * number + k) for k in range(4))
    tangents = _Tangents(base)
    for output, label in enumerate(_labels(n)):
        angle = call(tangents, params, output)
        if isinstance(angle, Expression):
            yield _rotation(label, angle)


def _gray(n: int) -> list[int]:
    return [k ^ k >> 1 for k in range(1 << n)]


@lru_cache(maxsize=8)
def _pattern(n: int) -> list[tuple[int, int]]:
    """The pairs of basis states that are rotated, in the order in which they bring a matrix to the identity."""
    gray, size = _gray(n), 1 << n
    return [(gray[place - 1], gray[place]) for column in range(size - 1) for place in range(size - 1, column, -1)]


def _angles(matrix: Matrix) -> list[float]:
    """(theta, phi, lambda, gamma) of every rotation of ``_pattern``, then the phase that is left."""
    n = len(matrix).bit_length() - 1
    gray, size = _gray(n), 1 << n
    left = matrix.copy()
    found: list[float] = []
    for column in range(size - 1):
        for place in range(size - 1, column, -1):
            upper, lower = gray[place - 1], gray[place]
            a, b = left[upper, gray[column]], left[lower, gray[column]]
            length = math.hypot(abs(a), abs(b))
            rotation: Any = np.eye(2, dtype=np.complex128)
            # The last of a column leaves exactly 1 above; the others need not turn where nothing is left below.
            if length > 1e-15 and (abs(b) > 1e-15 or place == column + 1):
                rotation = np.array([[a.conjugate(), b.conjugate()], [-b, a]]) / length
            left[[upper, lower]] = rotation @ left[[upper, lower]]
            back = rotation.conj().T
            target = (upper ^ lower).bit_length() - 1
            found += _turn(back[::-1, ::-1] if upper >> target & 1 else back)
    return [*found, cmath.phase(left[gray[-1], gray[-1]])]


def _turn(matrix: Matrix) -> tuple[float, float, float, float]:
    """The angles (theta, phi, lambda, gamma) of a one-qubit unitary e^{i gamma} u(theta, phi, lambda)."""
    theta = 2 * math.atan2(abs(matrix[1, 0]), abs(matrix[0, 0]))
    if abs(matrix[0, 0]) > abs(matrix[1, 0]):
        gamma = cmath.phase(matrix[0, 0])
        phi = cmath.phase(matrix[1, 0]) - gamma if abs(matrix[1, 0]) > 1e-15 else 0.0
        return theta, phi, cmath.phase(matrix[1, 1]) - gamma - phi, gamma
    gamma = cmath.phase(matrix[0, 0]) if abs(matrix[0, 0]) > 1e-15 else cmath.phase(-matrix[0, 1])
    return theta, cmath.phase(matrix[1, 0]) - gamma, cmath.phase(-matrix[0, 1]) - gamma, gamma
