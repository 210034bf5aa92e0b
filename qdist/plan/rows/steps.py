"""Gates as the steps of a row program: changes of the frame, Pauli rotations, and a few constant matrices.

Any gate with angles is a product of Pauli rotations exp(-i theta/2 P), some of them under conditions; a diagonal is one
of strings of Z alone. Global phases count: they are rotations of the empty string.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from qdist.circuit.gates import GATES
from qdist.plan.operations import Affine, Operation, scaled
from qdist.plan.rows.frame import is_affine

__all__ = ["Change", "Condition", "Matrix", "Rotate", "Step", "scaled", "steps", "unsupported"]

Condition = tuple[int, int]
"""(mask of qubits, the parity of their values)"""

MOST_MATRIX_QUBITS = 4
"""Of a constant matrix that is neither a rotation nor a change of the frame."""
MOST_CONDITIONS = 6
"""Under which a phase is expanded into 2**conditions strings of Z."""
MOST_TABLE_QUBITS = 10
"""Of a constant diagonal, which is 2**qubits strings."""


class Change(NamedTuple):
    """Setting j of the qubits becomes image[j], an affine map over GF(2)."""

    qubits: tuple[int, ...]
    image: tuple[int, ...]


class Rotate(NamedTuple):
    """exp(-i angle/2 P) where all conditions hold: P = i^num_y X^x Z^z."""

    x: int
    z: int
    num_y: int
    angle: Affine
    conditions: tuple[Condition, ...] = ()


class Matrix(NamedTuple):
    """A constant matrix on some qubits, the first the index's lowest bit, where all conditions hold."""

    qubits: tuple[int, ...]
    matrix: Any
    conditions: tuple[Condition, ...]


Step = Change | Rotate | Matrix


def unsupported(operation: Operation) -> str:
    """Why an operation has no steps; empty where it has."""
    controls = len(operation.controls)
    if operation.kind == "table" and len(operation.targets) > MOST_TABLE_QUBITS:
        return f"a diagonal of {len(operation.targets)} qubits"
    wide = [len(conditions) for conditions, _ in operation.wide]
    if max(wide, default=0) > MOST_CONDITIONS or controls > MOST_CONDITIONS:
        return f"a gate under {max([controls, *wide])} conditions"
    if operation.kind == "dense" and not operation.formula and len(operation.targets) > MOST_MATRIX_QUBITS:
        return f"a matrix of {len(operation.targets)} qubits"
    if operation.kind == "permute" and len(operation.targets) > MOST_MATRIX_QUBITS and not _is_affine(operation):
        return f"a permutation of {len(operation.targets)} qubits"
    return ""


def steps(operation: Operation) -> Iterator[Step]:
    """The steps of an operation that is supported, in the order in which they act."""
    conditions = tuple((1 << q, value) for q, value in operation.controls)
    yield from _STEPS[operation.kind](operation, conditions)


def _constant(value: float) -> Affine:
    return value, ()


def _phase(affine: Affine, conditions: tuple[Condition, ...]) -> Rotate:
    """exp(i affine) where all conditions hold."""
    return Rotate(0, 0, 0, scaled(affine, -2.0), conditions)


def _flip(operation: Operation, _: Any) -> Iterator[Step]:
    if operation.controls:
        ((control, value),) = operation.controls
        yield Change((control, operation.targets[0]), (0, 3, 2, 1) if value else (2, 1, 0, 3))
    else:
        yield Change(operation.targets, (1, 0))


def _swap(operation: Operation, _: Any) -> Iterator[Step]:
    yield Change(operation.targets, (0, 2, 1, 3))


def _diagonal(operation: Operation, _: Any) -> Iterator[Step]:
    """The sum of all phases, as strings of Z. What cancels, such as the single Z in an RZZ, takes no angle."""
    strings: dict[int, tuple[float, dict[int, float]]] = {}
    for tests, (constant, terms) in operation.phases:
        # Where all tests hold: the product of (1 + or - Z) / 2.
        for chosen in range(1 << len(tests)):
            z, factor = 0, 0.5 ** len(tests)
            for k, (q, value) in enumerate(tests):
                if chosen >> k & 1:
                    z, factor = z ^ 1 << q, -factor if value else factor
            before, own = strings.get(z, (0.0, {}))
            for slot, coefficient in terms:
                own[slot] = own.get(slot, 0.0) + factor * coefficient
            strings[z] = before + factor * constant, own
    for z, (constant, own) in strings.items():
        left = tuple((slot, coefficient) for slot, coefficient in own.items() if coefficient)
        if constant or left:
            yield Rotate(0, z, 0, scaled((constant, left), -2.0))


def _table(operation: Operation, conditions: Any) -> Iterator[Step]:
    yield from _phases(operation.targets, np.angle(operation.matrix), conditions)


def _phases(targets: Sequence[int], phases: Any, conditions: Any) -> Iterator[Step]:
    """exp(i phases[j]) for setting j of the targets, as strings of Z: a Walsh-Hadamard transform."""
    values = np.array(phases, np.float64)
    for bit in range(len(targets)):
        low, high = values.reshape(-1, 2, 1 << bit).swapaxes(0, 1)
        values = np.stack([low + high, low - high], axis=1).reshape(-1) / 2
    for mask in np.flatnonzero(values).tolist():
        z = sum(1 << q for k, q in enumerate(targets) if mask >> k & 1)
        yield Rotate(0, z, 0, _constant(-2.0 * values[mask]), conditions)


def _rotation(operation: Operation, conditions: Any) -> Iterator[Step]:
    yield _pauli(operation.letters, operation.targets, (0.0, ((operation.slots[0], operation.sign),)), conditions)


def _pauli(letters: str, targets: Sequence[int], angle: Affine, conditions: Any) -> Rotate:
    x = sum(1 << q for q, letter in zip(targets, letters) if letter in "XY")
    z = sum(1 << q for q, letter in zip(targets, letters) if letter in "YZ")
    return Rotate(x, z, letters.count("Y"), angle, conditions)


def _dense(operation: Operation, conditions: Any) -> Iterator[Step]:
    targets = operation.targets
    angles: list[Affine] = [(0.0, ((slot, 1.0),)) for slot in operation.slots]
    gate = operation.gate
    assert gate is not None, "a dense operation has a row of the gate table"
    if operation.formula:
        if gate.name not in _FORMULAS:
            raise NotImplementedError(f"rows of a batch have no steps for the gate {gate.name}: add them to {__name__}")
        yield from _FORMULAS[gate.name](targets, angles, conditions)
    elif gate is GATES["x"]:
        yield Rotate(1 << targets[0], 0, 0, _constant(math.pi), conditions)
        yield _phase(_constant(math.pi / 2), conditions)
    elif gate is GATES["swap"]:
        differ = ((1 << targets[0] | 1 << targets[1], 1), *conditions)
        yield Rotate(1 << targets[0] | 1 << targets[1], 0, 0, _constant(math.pi), differ)
        yield _phase(_constant(math.pi / 2), differ)
    else:
        yield from _matrix(targets, np.asarray(operation.matrix, np.complex128), conditions)


def _permute(operation: Operation, conditions: Any) -> Iterator[Step]:
    source = operation.matrix
    matrix = np.zeros((len(source), len(source)), np.complex128)
    matrix[np.arange(len(source)), source] = 1
    yield from _matrix(operation.targets, matrix, conditions)


def _is_affine(operation: Operation) -> bool:
    return is_affine(np.argsort(operation.matrix).tolist())


def _matrix(targets: tuple[int, ...], matrix: Any, conditions: Any) -> Iterator[Step]:
    """A constant matrix: of one qubit three rotations and a phase; a change of the frame and phases where it is one."""
    if len(targets) == 1:
        yield from _one_qubit(targets[0], matrix, conditions)
        return
    image = np.argmax(np.abs(matrix), axis=0)
    monomial = np.count_nonzero(matrix) == len(image) == len(set(image.tolist()))
    if monomial and not conditions and is_affine(image.tolist()):
        yield Change(targets, tuple(image.tolist()))
        phases = np.zeros(len(image))
        phases[image] = np.angle(matrix[image, np.arange(len(image))])
        yield from _phases(targets, phases, ())
    else:
        yield Matrix(targets, matrix, conditions)


def _one_qubit(qubit: int, matrix: Any, conditions: Any) -> Iterator[Step]:
    """exp(i phase) RZ(phi) RY(theta) RZ(lam)"""
    phase = float(np.angle(matrix[0, 0] * matrix[1, 1] - matrix[0, 1] * matrix[1, 0])) / 2
    special = matrix * np.exp(-1j * phase)
    theta = 2 * math.atan2(abs(special[1, 0]), abs(special[0, 0]))
    both = 2 * float(np.angle(special[1, 1])) if abs(special[1, 1]) > 1e-12 else 0.0
    apart = 2 * float(np.angle(special[1, 0])) if abs(special[1, 0]) > 1e-12 else 0.0
    for letter, angle in (("Z", (both - apart) / 2), ("Y", theta), ("Z", (both + apart) / 2)):
        if angle:
            yield _pauli(letter, (qubit,), _constant(angle), conditions)
    if phase:
        yield _phase(_constant(phase), conditions)


def _u(theta: Affine, phi: Affine, lam: Affine, gamma: Affine, qubit: int, conditions: Any) -> Iterator[Step]:
    is_one = ((1 << qubit, 1), *conditions)
    yield _phase(lam, is_one)
    yield _pauli("Y", (qubit,), theta, conditions)
    yield _phase(phi, is_one)
    if gamma != (0.0, ()):
        yield _phase(gamma, conditions)


def _r(targets: Any, angles: list[Affine], conditions: Any) -> Iterator[Step]:
    is_one = ((1 << targets[0], 1), *conditions)
    yield _phase(scaled(angles[1], -1.0), is_one)
    yield _pauli("X", targets, angles[0], conditions)
    yield _phase(angles[1], is_one)


def _exchange(targets: Any, theta: Affine, conditions: Any) -> Rotate:
    """RX(theta) between 01 and 10."""
    both = 1 << targets[0] | 1 << targets[1]
    return Rotate(both, 0, 0, theta, ((both, 1), *conditions))


def _xx_plus_yy(targets: Any, angles: list[Affine], conditions: Any) -> Iterator[Step]:
    is_one = ((1 << targets[1], 1), *conditions)
    yield _phase(scaled(angles[1], -1.0), is_one)
    yield _exchange(targets, angles[0], conditions)
    yield _phase(angles[1], is_one)


def _fsim(targets: Any, angles: list[Affine], conditions: Any) -> Iterator[Step]:
    yield _exchange(targets, scaled(angles[0], 2.0), conditions)
    yield _phase(scaled(angles[1], -1.0), ((1 << targets[0], 1), (1 << targets[1], 1), *conditions))


_ZERO: Affine = (0.0, ())

_FORMULAS: dict[str, Any] = {
    "rx": lambda t, a, c: iter([_pauli("X", t, a[0], c)]),
    "ry": lambda t, a, c: iter([_pauli("Y", t, a[0], c)]),
    "rxx": lambda t, a, c: iter([_pauli("XX", t, a[0], c)]),
    "ryy": lambda t, a, c: iter([_pauli("YY", t, a[0], c)]),
    "u": lambda t, a, c: _u(a[0], a[1], a[2], _ZERO, t[0], c),
    "u2": lambda t, a, c: _u(_constant(math.pi / 2), a[0], a[1], _ZERO, t[0], c),
    "phased_u": lambda t, a, c: _u(a[0], a[1], a[2], a[3], t[0], c),
    "r": _r,
    "xx_plus_yy": _xx_plus_yy,
    "fsim": _fsim,
}

_STEPS: dict[str, Any] = {
    "flip": _flip,
    "swap": _swap,
    "diagonal": _diagonal,
    "table": _table,
    "rotation": _rotation,
    "dense": _dense,
    "permute": _permute,
}
