"""Gates of one qubit in a row, with its Clifford gates behind its rotations.

A Clifford gate turns the axis of every rotation behind it into another axis, or its opposite. So all Clifford gates of
a row can stand at its end, as one: RZ(a) SX RZ(b) SX RZ(c), which hardware has for any matrix, is RZ RY RZ and an X,
one mixing instead of two; H RZ H is an RX. Signs of angles are Z gates on both sides, which join other phases. A row
without angles is the product of its matrices. Rows for which nothing is saved stay as they are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from qdist.circuit.data_gates import UnitaryGate
from qdist.circuit.gate import Gate
from qdist.circuit.gates import GATES
from qdist.circuit.pauli.text import qubits_of
from qdist.plan.operations import Affine, Operation, gate_operation, scaled
from qdist.plan.rewrites.euler import as_rotations, takes_in
from qdist.plan.rewrites.paulis import Axes, axes_of

__all__ = ["with_cliffords_behind"]

_ROUNDING = 1e-12
_ZERO: Affine = (0.0, ())
_X = np.array([[0.0, 1.0], [1.0, 0.0]])


def with_cliffords_behind(operations: Sequence[Operation], joins_phases: bool) -> list[Operation]:
    """The same operations, with rows of one qubit's gates rewritten where that takes fewer matrices. joins_phases: as
    for ``takes_in``."""
    kept: list[list[Operation]] = [[operation] for operation in operations]
    rows: defaultdict[int, list[int]] = defaultdict(list)
    before: dict[int, Operation] = {}
    common: list[Affine] = []

    def close(qubit: int, behind: Operation | None) -> None:
        row = [operations[k] for k in rows[qubit]]
        beside = before.get(qubit), behind
        found, phase = _shorter(row, any(o is not None and takes_in(o, joins_phases) for o in beside))
        if found is not None:
            first, *others = rows[qubit]
            kept[first] = found
            for k in others:
                kept[k] = []
            common.append(phase)
        rows[qubit] = []

    for k, operation in enumerate(operations):
        if _is_alone(operation):
            rows[operation.all.bit_length() - 1].append(k)
        else:
            for qubit in qubits_of(operation.all):
                close(qubit, operation)
                before[qubit] = operation
    for qubit in rows:
        close(qubit, None)
    return _with_phase([operation for own in kept for operation in own], _sum(common))


def _shorter(row: list[Operation], taken_in: bool) -> tuple[list[Operation] | None, Affine]:
    """A row that does the same and takes less, and a phase; None if there is none. taken_in: whether a matrix of one
    qubit at its end becomes part of another one."""
    mixing = sum(o.mixes != 0 for o in row)
    if mixing < 2 and not (mixing and any(map(_has_phases, row))):
        return None, _ZERO
    numbers: dict[int, int] = {}
    found, phase = _shorter_like(tuple(_signature(o, numbers) for o in row), taken_in)
    if found is None:
        return None, _ZERO
    qubit, slots = row[0].all.bit_length() - 1, list(numbers)
    return [_renamed(o, qubit, slots) for o in found], _with_slots(phase, slots)


_Terms = tuple[tuple[bool, Affine], ...]
_Signature = tuple[str, Gate | None, tuple[int, ...], _Terms]


def _signature(operation: Operation, numbers: dict[int, int]) -> _Signature:
    """What an operation of a row does, whichever its qubit is and whichever angles it reads. numbers: of the angles of
    a row, in the order in which they come."""

    def own(slot: int) -> int:
        return numbers.setdefault(slot, len(numbers))

    terms = tuple(
        (bool(product), (constant, tuple((own(slot), factor) for slot, factor in parts)))
        for product, (constant, parts) in operation.terms
    )
    return operation.kind, operation.gate, tuple(map(own, operation.slots)), terms


@lru_cache(maxsize=1024)
def _shorter_like(row: tuple[_Signature, ...], taken_in: bool) -> tuple[list[Operation] | None, Affine]:
    """The same of all rows with these gates, on qubit 0, with the numbers of the row's angles."""
    operations = [_from_signature(*signature) for signature in row]
    if taken_in and not any(o.reads for o in operations):
        # Matrices alone become one with it as they are.
        divided = any(o.kind != "dense" for o in operations)
        return ([_matrix_operation(0, _product(operations))] if divided else None), _ZERO
    found, phase = _rewritten(operations)
    return (found, phase) if found is not None and _cost(found) < _cost(operations) else (None, _ZERO)


def _from_signature(kind: str, gate: Gate | None, slots: tuple[int, ...], terms: _Terms) -> Operation:
    if gate is not None:
        matrix = None if slots else np.asarray(gate.matrix())
        return Operation("dense", 1, 0, 0, (0,), gate=gate, slots=slots, matrix=matrix)
    if kind == "flip":
        return Operation("flip", 1, 1, 0, (0,))
    return Operation("diagonal", 0, 0, 1, terms=[((0,) if there else (), angle) for there, angle in terms])


def _renamed(operation: Operation, qubit: int, slots: list[int]) -> Operation:
    """An operation on qubit 0 on another one, with other numbers of angles."""
    return replace(
        operation,
        mixes=operation.mixes << qubit,
        x_like=operation.x_like << qubit,
        z_like=operation.z_like << qubit,
        targets=(qubit,) if operation.targets else (),
        slots=tuple(slots[k] for k in operation.slots),
        terms=[((qubit,) if product else (), _with_slots(angle, slots)) for product, angle in operation.terms],
    )


def _with_slots(angle: Affine, slots: list[int]) -> Affine:
    constant, parts = angle
    return constant, tuple((slots[k], factor) for k, factor in parts)


def _with_phase(operations: list[Operation], phase: Affine) -> list[Operation]:
    """With a phase of the whole state, as part of other phases or of a matrix if there is any, where it costs
    nothing."""
    if phase == _ZERO:
        return operations
    constant, parts = phase
    for k, operation in enumerate(operations):
        if operation.kind == "diagonal":
            operations[k] = replace(operation, terms=[*operation.terms, ((), phase)])
            return operations
    matrices = [k for k, o in enumerate(operations) if o.matrix is not None and _is_alone(o)] if not parts else []
    if matrices:
        k = min(matrices, key=lambda k: _kind(operations[k]) != "complex")
        qubit = operations[k].all.bit_length() - 1
        operations[k] = _matrix_operation(qubit, np.exp(1j * constant) * np.asarray(operations[k].matrix))
        return operations
    return [*operations, Operation("diagonal", 0, 0, 0, terms=[((), phase)])]


def _is_alone(operation: Operation) -> bool:
    """Whether it acts on one qubit, in a way that may be rewritten."""
    if operation.all.bit_count() != 1 or operation.wide:
        return False
    gate = operation.gate
    # Matrices of other gates with data need not be unitary.
    known = gate is not None and (gate.data is None or isinstance(gate, UnitaryGate))
    return operation.kind in ("diagonal", "flip") or (operation.kind == "dense" and known)


def _has_phases(operation: Operation) -> bool:
    """Whether it is a matrix with complex numbers that no angle changes, in which phases may be hidden."""
    return operation.matrix is not None and operation.gate is not None and not operation.gate.is_real


_COMPLEX, _LEAN, _DIAGONAL = 1.8, 1.0, 0.1


def _cost(row: Iterable[Operation]) -> float:
    """About the time of a row, in that of a rotation: neighbouring matrices run as one."""
    cost, kinds = 0.0, set[str]()
    for operation in row:
        if operation.kind == "dense":
            cost -= _of_matrices(kinds)
            kinds.add(_kind(operation))
            cost += _of_matrices(kinds)
        else:
            kinds = set()
            cost += _DIAGONAL if operation.kind == "diagonal" else 0.0
    return cost


def _of_matrices(kinds: set[str]) -> float:
    return 0.0 if not kinds else _COMPLEX if len(kinds) > 1 or "complex" in kinds else _LEAN


def _kind(operation: Operation) -> str:
    gate = operation.gate
    assert gate is not None, "a matrix comes from a gate"
    if gate.is_real:
        return "real"
    like_rx = gate is GATES["rx"] or (operation.matrix is not None and _is_like_rx(operation.matrix))
    return "rx" if like_rx else "complex"


def _is_like_rx(matrix: np.ndarray) -> bool:
    """Whether it is real on the diagonal and imaginary beside it."""
    given = np.asarray(matrix)
    return not np.any(given.imag * np.eye(2)) and not np.any(given.real * _X)


def _rewritten(row: Sequence[Operation]) -> tuple[list[Operation] | None, Affine]:
    """The row with its Clifford gates behind everything else, and a phase; None where it has something that cannot be
    moved."""
    qubit = row[0].all.bit_length() - 1
    if not any(operation.reads for operation in row):
        return _joined(_constant(qubit, _product(row)), qubit)
    moved = _Moved(qubit)
    return moved.in_order() if all(map(moved.add, row)) else (None, _ZERO)


class _Moved:
    """Rotations in order, and the Clifford gate behind them."""

    def __init__(self, qubit: int) -> None:
        self._qubit = qubit
        self._rotations: list[Operation] = []
        self._behind = np.eye(2, dtype=complex)
        self._axes: Axes = (("X", 1), ("Y", 1), ("Z", 1))

    def add(self, operation: Operation) -> bool:
        """Whether it could be moved before the Clifford gate, or become part of it."""
        if operation.kind == "diagonal":
            return all(self._add_phase(product, angle) for product, angle in operation.terms)
        if operation.slots:
            name = operation.gate.name if operation.gate is not None else ""
            if name in ("rx", "ry"):
                return self._turn(name[1].upper(), (0.0, ((operation.slots[0], 1.0),)))
            return self._add_parts(operation)
        matrix = _matrix(operation)
        turned = axes_of(matrix)
        if turned is not None:
            self._axes = tuple(self._axis(letter, sign) for letter, sign in turned)
            self._behind = matrix @ self._behind
            return True
        (zero, one), (other, last) = matrix
        if max(abs(zero - last), abs(one + other), abs(matrix.imag).max()) < _ROUNDING:
            return self._turn("Y", (2 * math.atan2(other.real, zero.real), ()))
        return self._add_parts(operation)

    def _add_parts(self, operation: Operation) -> bool:
        parts = as_rotations(operation)
        return len(parts) > 1 and all(map(self.add, parts))

    def _add_phase(self, product: tuple[int, ...], angle: Affine) -> bool:
        """exp(i angle) or, where the bit is one, exp(i angle) = exp(i angle / 2) RZ(angle)."""
        if not product:
            self._rotations.append(_phases(self._qubit, common=angle))
            return True
        letter, sign = self._axis("Z", 1)
        if letter == "Z":
            self._rotations.append(
                _phases(self._qubit, angle) if sign > 0 else _phases(self._qubit, scaled(angle, -1.0), common=angle)
            )
            return True
        self._rotations.append(_phases(self._qubit, common=scaled(angle, 0.5)))
        return self._turn("Z", angle)

    def _turn(self, axis: str, angle: Affine) -> bool:
        """Adds a rotation about an axis; False where no gate has a multiple of an angle."""
        letter, sign = self._axis(axis, 1)
        constant, parts = angle
        if letter == "Z":
            half = scaled(angle, -0.5 * sign)
            self._rotations.append(_phases(self._qubit, scaled(angle, sign), common=half))
            return True
        if parts and (constant or len(parts) > 1 or abs(parts[0][1]) != 1.0):
            return False
        if not parts:
            gate = GATES["rx" if letter == "X" else "ry"]
            self._rotations.append(_matrix_operation(self._qubit, np.array(gate.matrix(sign * constant))))
            return True
        slot, factor = parts[0]
        turn = gate_operation(GATES["rx" if letter == "X" else "ry"], (self._qubit,), range(slot, slot + 1))
        if sign * factor < 0:
            # Z on both sides is the other sign; the second one is part of what is behind.
            self._rotations += [_phases(self._qubit, (math.pi, ())), turn]
            z = np.diag([1.0, -1.0])
            self._behind = self._behind @ z
            flipped = {"X": -1, "Y": -1, "Z": 1}
            self._axes = tuple((name, by * flipped[name]) for name, by in self._axes)
        else:
            self._rotations.append(turn)
        return True

    def _axis(self, letter: str, sign: int) -> tuple[str, int]:
        name, by = self._axes["XYZ".index(letter)]
        return name, sign * by

    def in_order(self) -> tuple[list[Operation], Affine]:
        """The rotations, and the Clifford gate; an X in it before the last phases, which stay beside others."""
        rest = self._behind
        last = max((k for k, o in enumerate(self._rotations) if o.kind == "dense"), default=-1)
        if abs(rest[0, 0]) < _ROUNDING and last >= 0 and _kind(self._rotations[last]) == "real":
            # X is Z RY(-pi), and with that the last matrix stays a rotation.
            turn, z = _matrix_operation(self._qubit, np.array([[0, 1], [-1, 0]])), _phases(self._qubit, (math.pi, ()))
            phases = [_with_other_bit(o, self._qubit) for o in self._rotations[last + 1 :]]
            before = [*self._rotations[: last + 1], turn, z, *phases]
            return _joined(before + _constant(self._qubit, rest @ _X), self._qubit)
        return _joined(self._rotations + _constant(self._qubit, rest), self._qubit)


def _matrix(operation: Operation) -> np.ndarray:
    """The matrix of what has no angles."""
    if operation.kind == "flip":
        return _X
    if operation.kind == "diagonal":
        common = sum(angle for product, (angle, _) in operation.terms if not product)
        bit = sum(angle for product, (angle, _) in operation.terms if product)
        return np.exp(1j * np.array([common, common + bit])) * np.eye(2)
    return np.asarray(operation.matrix, dtype=complex)


def _product(row: Iterable[Operation]) -> np.ndarray:
    product = np.eye(2, dtype=complex)
    for operation in row:
        product = _matrix(operation) @ product
    return product


def _constant(qubit: int, matrix: np.ndarray) -> list[Operation]:
    """A matrix as a matrix, or as phases and perhaps a flip where it is that."""
    (zero, one), (other, last) = matrix
    if max(abs(one), abs(other)) < _ROUNDING:
        flips, entries = [], (zero, last)
    elif max(abs(zero), abs(last)) < _ROUNDING:
        flips, entries = [Operation("flip", 1 << qubit, 1 << qubit, 0, (qubit,))], (one, other)
    else:
        return _simplified(qubit, matrix)
    if abs(abs(entries[0]) - 1) > _ROUNDING or abs(abs(entries[1]) - 1) > _ROUNDING:
        return [_matrix_operation(qubit, matrix)]
    common = float(np.angle(entries[0]))
    return [*flips, _phases(qubit, (float(np.angle(entries[1] / entries[0])), ()), (common, ()))]


def _simplified(qubit: int, matrix: np.ndarray) -> list[Operation]:
    """A matrix without the phase of its first entry, if that leaves a real one, or one like RX."""
    common = float(np.angle(matrix[0, 0]))
    rest = _matrix_operation(qubit, matrix * np.exp(-1j * common))
    if _kind(rest) == "complex" or abs(common) < _ROUNDING:
        return [_matrix_operation(qubit, matrix)]
    return [rest, _phases(qubit, common=(common, ()))]


def _matrix_operation(qubit: int, matrix: np.ndarray) -> Operation:
    gate, mask = UnitaryGate(_clean(matrix)), 1 << qubit
    (zero, one), (other, last) = gate.data
    like_x = mask if zero == last and one == other else 0
    return Operation("dense", mask, like_x, 0, (qubit,), gate=gate, matrix=gate.data)


def _clean(matrix: np.ndarray) -> np.ndarray:
    """Without what rounding has left of zeros, and of the difference between entries that are equal or opposite: it
    would hide that a matrix is real, or commutes with X."""
    real, imaginary = (np.where(np.abs(part) < _ROUNDING, 0.0, part) for part in (matrix.real, matrix.imag))
    (zero, one), (other, last) = real + 1j * imaginary
    last = next((sign * zero for sign in (1, -1) if abs(last - sign * zero) < _ROUNDING), last)
    other = next((sign * one for sign in (1, -1) if abs(other - sign * one) < _ROUNDING), other)
    return np.array([[zero, one], [other, last]])


def _phases(qubit: int, angle: Affine = _ZERO, common: Affine = _ZERO) -> Operation:
    both: tuple[tuple[tuple[int, ...], Affine], ...] = (((qubit,), angle), ((), common))
    terms = [(product, affine) for product, affine in both if affine != _ZERO]
    return Operation("diagonal", 0, 0, 1 << qubit, terms=terms)


def _with_other_bit(phases: Operation, qubit: int) -> Operation:
    """With 1 - b in the place of the bit b."""
    terms: list[tuple[tuple[int, ...], Affine]] = []
    for product, angle in phases.terms:
        terms += [(product, scaled(angle, -1.0)), ((), angle)] if product else [(product, angle)]
    return replace(phases, terms=terms)


def _joined(row: Iterable[Operation], qubit: int) -> tuple[list[Operation], Affine]:
    """The row with neighbouring phases as one operation, and the phase that its qubit does not change."""
    found: list[Operation] = []
    common: list[Affine] = []
    for operation in row:
        if operation.kind == "diagonal":
            common += [angle for product, angle in operation.terms if not product]
            own = [angle for product, angle in operation.terms if product]
            if found and found[-1].kind == "diagonal":
                own += [angle for _, angle in found.pop().terms]
            operation = _phases(qubit, _sum(own))
        if operation.kind != "diagonal" or operation.terms:
            found.append(operation)
    return found, _sum(common)


def _sum(angles: Iterable[Affine]) -> Affine:
    constant, parts = 0.0, defaultdict[int, float](float)
    for own, slots in angles:
        constant += own
        for slot, factor in slots:
            parts[slot] += factor
    turn = 2 * math.pi
    return constant - turn * round(constant / turn), tuple((slot, factor) for slot, factor in parts.items() if factor)
