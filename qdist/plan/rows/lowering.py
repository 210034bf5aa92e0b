"""From operations to the records of a row program: the frame, the start, merged diagonals, rotations in groups.

Steps are placed as early as what they do not commute with allows: a phase joins the first diagonal that it can reach, a
rotation stands beside others. So RZ RY RZ on every qubit are two diagonals and a run of rotations, and of the phases
between two mixings, CX included, one table remains.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from qdist.circuit.binding import AffineMap
from qdist.plan.operations import Affine, Operation
from qdist.plan.rows.frame import Frame, parity
from qdist.plan.rows.records import DIAGONAL, GROUP, MATRIX, MOST_ROTATIONS, RowRecords
from qdist.plan.rows.steps import Change, Condition, Matrix, Rotate, steps
from qdist.plan.rows.walks import Walk, independent, walk

__all__ = ["lowered"]

_LOOK_BACK = 256
"""Items that a step is moved over at most."""
_PERIOD = 4 * math.pi
"""Of exp(-i angle/2 P)."""


@dataclass(slots=True)
class _Angle:
    """constant + sum of coefficient * slot"""

    constant: float = 0.0
    terms: dict[int, float] = field(default_factory=dict)

    def add(self, other: _Angle) -> None:
        # Phases of thousands of constant gates would add up to what a double has fewer digits behind the point of.
        self.constant = math.remainder(self.constant + other.constant, _PERIOD)
        for slot, coefficient in other.terms.items():
            self.terms[slot] = self.terms.get(slot, 0.0) + coefficient

    def scaled(self, factor: float) -> _Angle:
        return _Angle(factor * self.constant, {p: factor * c for p, c in self.terms.items()})


@dataclass(slots=True)
class _Rotation:
    """exp(-i angle/2 P) with P = +-X^x Z^z of stored bits (up to a power of i), as records.py has it."""

    x: int
    z: int
    direction: int
    functional: int
    angle: _Angle
    conditions: tuple[Condition, ...]


@dataclass(slots=True)
class _Diagonal:
    terms: dict[int, _Angle] = field(default_factory=dict)


@dataclass(slots=True)
class _Constant:
    targets: list[int]
    functionals: list[int]
    conditions: tuple[Condition, ...]
    matrix: Any


_Item = _Rotation | _Diagonal | _Constant


def lowered(
    num_qubits: int,
    operations: Iterable[Operation],
    affine: AffineMap,
    row_parameters: Sequence[int],
    shared_parameters: Sequence[int] | None = None,
) -> RowRecords:
    """The records of a unitary circuit.

    operations: in order; none may be ``unsupported``. affine: how the circuit's angles follow from its parameters.
    row_parameters: those that every row has for itself; they become parameters 0, 1, ..., and the others follow:
    shared_parameters, by default in the circuit's order.
    """
    own = list(row_parameters)
    of_row = set(own)
    shared = [p for p in range(affine.num_parameters) if p not in of_row]
    if shared_parameters is not None:
        assert sorted(shared_parameters) == shared, "every parameter is of rows or shared"
        shared = list(shared_parameters)
    numbers = np.zeros(affine.num_parameters, np.int64)
    numbers[own + shared] = np.arange(affine.num_parameters)
    parameters = numbers[affine.parameters]
    of_rows = set(affine.slots[parameters < len(own)].tolist())
    lowering = _Lowering(num_qubits, of_rows)
    for operation in operations:
        for step in steps(operation):
            lowering.add(step)
    return RowRecords(
        num_qubits,
        len(own),
        len(shared),
        np.ascontiguousarray(affine.constants, np.float64),
        np.stack([affine.slots, parameters], axis=1).astype(np.int64),
        np.ascontiguousarray(affine.coefficients, np.float64),
        **lowering.records(),
    )


class _Lowering:
    def __init__(self, num_qubits: int, of_rows: set[int]) -> None:
        self._n, self._of_rows = num_qubits, of_rows
        self._frame = Frame(num_qubits)
        self._items: list[_Item] = []
        self._start: list[tuple[int, int, _Angle]] = []
        self._touched = 0
        """Stored bits that an item acts on."""
        self._phase = _Angle()

    def add(self, step: Change | Rotate | Matrix) -> None:
        if isinstance(step, Change):
            self._frame.permute(step.qubits, step.image)
        elif isinstance(step, Matrix):
            self._add_matrix(step)
        elif step.x:
            self._add_rotation(step)
        else:
            self._add_phase(step)

    def _angle(self, affine: Affine) -> _Angle:
        constant, terms = affine
        return _Angle(constant, dict(terms))

    def _conditions(self, conditions: Iterable[Condition]) -> tuple[Condition, ...]:
        """By stored bits."""
        found = []
        for mask, value in conditions:
            _, functional, sign = self._frame.stored(0, mask)
            found.append((functional, value ^ sign))
        return tuple(sorted(found))

    def _is_of_row(self, angle: _Angle) -> bool:
        return not self._of_rows.isdisjoint(angle.terms)

    # Phases ----------------------------------------------------------------------------------------------------------

    def _add_phase(self, step: Rotate) -> None:
        """exp(-i angle/2 Z...) where the conditions hold: each is (1 + or - its string of Z) / 2."""
        angle = self._angle(step.angle)
        _, z, sign = self._frame.stored(0, step.z)
        terms = {z: -1.0 if sign else 1.0}
        for mask, value in self._conditions(step.conditions):
            both: dict[int, float] = {}
            for z, c in terms.items():
                both[z] = both.get(z, 0.0) + c / 2
                both[z ^ mask] = both.get(z ^ mask, 0.0) + (-c if value else c) / 2
            terms = both
        for z, factor in terms.items():
            if factor:
                self._add_term(z, angle.scaled(factor))

    def _add_term(self, z: int, angle: _Angle) -> None:
        if z == 0:
            self._phase.add(angle)
        elif self._is_fresh(z):
            self._start.append((z.bit_length() - 1, 2, angle))
        elif self._is_of_row(angle):
            self._place_rotation(0, z, 0, angle, ())
        else:
            self._place_term(z, angle)
            self._touched |= z

    def _place_term(self, z: int, angle: _Angle) -> None:
        earliest, k = None, len(self._items)
        while k > max(0, len(self._items) - _LOOK_BACK):
            item = self._items[k - 1]
            if isinstance(item, _Diagonal):
                earliest = item
            elif isinstance(item, _Rotation):
                if (item.x & z).bit_count() & 1:
                    break
            elif not _passes(item, 0, z, ()):
                break
            k -= 1
        if earliest is None:
            earliest = _Diagonal()
            self._items.insert(k, earliest)
        earliest.terms.setdefault(z, _Angle()).add(angle)

    # Rotations -------------------------------------------------------------------------------------------------------

    def _add_rotation(self, step: Rotate) -> None:
        x, z, sign = self._frame.stored(step.x, step.z)
        angle = self._angle(step.angle)
        if sign:
            angle = angle.scaled(-1.0)
        conditions = self._conditions(step.conditions)
        if not conditions and self._is_fresh(x | z):
            axis = 1 if z else 0
            self._start.append((x.bit_length() - 1, axis, angle.scaled(-1.0) if step.num_y % 4 > 1 else angle))
            return
        self._place_rotation(x, z, step.num_y, angle, conditions)

    def _place_rotation(self, x: int, z: int, num_y: int, angle: _Angle, conditions: tuple[Condition, ...]) -> None:
        # -i P = i^(num_y + 3) X^x Z^z: an odd power of i exchanges the planes.
        power = (num_y + 3) % 4
        plane = power % 2 << self._n
        if power // 2:
            angle = angle.scaled(-1.0)
        new = _Rotation(x, z, x | plane, z | plane, angle, conditions)
        k = len(self._items)
        while k > max(0, len(self._items) - _LOOK_BACK):
            item = self._items[k - 1]
            if isinstance(item, _Rotation) and _same(item, new):
                item.angle.add(angle)
                return
            if not _passes(item, x, z, conditions):
                break
            k -= 1
        self._items.insert(k, new)
        self._touch(x | z, conditions)

    def _add_matrix(self, step: Matrix) -> None:
        targets = [self._frame.columns[q] for q in step.qubits]
        functionals = [self._frame.functionals[q] for q in step.qubits]
        conditions = self._conditions(step.conditions)
        # The matrix is about values of qubits: where one is stored inverted, its index bit is.
        flips = sum(self._frame.constants[q] << k for k, q in enumerate(step.qubits))
        order = np.arange(len(step.matrix)) ^ flips
        # At the base of the walk the stored parities of all targets are even.
        self._items.append(_Constant(targets, functionals, conditions, step.matrix[np.ix_(order, order)]))
        self._touch(0, conditions)
        for mask in (*targets, *functionals):
            self._touched |= mask

    def _is_fresh(self, mask: int) -> bool:
        """Whether it is one bit, on which nothing but the start has acted."""
        return mask & mask - 1 == 0 and not mask & self._touched

    def _touch(self, mask: int, conditions: tuple[Condition, ...]) -> None:
        self._touched |= mask
        for condition, _ in conditions:
            self._touched |= condition

    # Records ---------------------------------------------------------------------------------------------------------

    def records(self) -> dict[str, Any]:
        table = _Records(self._n)
        for bit, axis, angle in self._start:
            table.start.append((bit, axis, table.angle(angle)))
        run: list[_Rotation] = []
        for item in self._items:
            if isinstance(item, _Rotation):
                if not table.fits(run, item):
                    table.group(run)
                    run = []
                run.append(item)
                continue
            table.group(run)
            run = []
            if isinstance(item, _Diagonal):
                table.diagonal(item)
            else:
                table.constant(item)
        table.group(run)
        phase = table.angle(self._phase) if self._phase.constant or self._phase.terms else -1
        return table.records(phase, self._frame)


class _Records:
    """The pools that records are collected in."""

    def __init__(self, num_qubits: int) -> None:
        self._n = num_qubits
        self._constants: list[float] = []
        self._entries: list[tuple[int, int]] = []
        self._coefficients: list[float] = []
        self.start: list[tuple[int, int, int]] = []
        self._operations: list[tuple[int, int, int]] = []
        self._rotations: list[tuple[int, int, int]] = []
        self._terms: list[tuple[int, int]] = []
        self._targets: list[int] = []
        self._matrices: list[Any] = []
        self._walks: list[int] = []
        self._columns: list[int] = []
        self._known: dict[Any, Walk | None] = {}

    def angle(self, angle: _Angle) -> int:
        number = len(self._constants)
        self._constants.append(angle.constant)
        for slot, coefficient in angle.terms.items():
            self._entries.append((number, slot))
            self._coefficients.append(coefficient)
        return number

    def fits(self, run: list[_Rotation], new: _Rotation) -> bool:
        """Whether the rotation can be one of the group."""
        if not run:
            return True
        if len(run) == MOST_ROTATIONS or run[0].conditions != new.conditions:
            return False
        return independent([r.direction for r in run] + [new.direction]) and self._walk_of([*run, new]) is not None

    def _walk_of(self, run: list[_Rotation]) -> Walk | None:
        key = tuple((r.direction, r.functional) for r in run), run[0].conditions
        if key not in self._known:
            directions, functionals = [r.direction for r in run], [r.functional for r in run]
            self._known[key] = walk(self._n + 1, run[0].conditions, directions, functionals)
        return self._known[key]

    def group(self, run: list[_Rotation]) -> None:
        if not run:
            return
        found = self._walk_of(run)
        assert found is not None, "the sign of one rotation is even along its walk"
        self._operations.append((GROUP, len(self._rotations), len(run)))
        self._rotations += [(r.direction, r.functional, self.angle(r.angle)) for r in run]
        self._add_walk(found)

    def diagonal(self, item: _Diagonal) -> None:
        self._operations.append((DIAGONAL, len(self._terms), len(item.terms)))
        self._terms += [(mask, self.angle(angle)) for mask, angle in item.terms.items()]

    def constant(self, item: _Constant) -> None:
        found = walk(self._n, item.conditions, item.targets, item.functionals)
        assert found is not None, "targets and their functionals are dual"
        base = found.base
        for target, functional in zip(item.targets, item.functionals):
            if parity(base & functional):
                base ^= target
        self._operations.append((MATRIX, len(self._targets), len(item.targets)))
        self._targets += item.targets
        self._matrices.append(np.asarray(item.matrix, np.complex128).reshape(-1))
        self._add_walk(Walk(base, found.columns))

    def _add_walk(self, found: Walk) -> None:
        self._walks += [found.base, len(self._columns)]
        self._columns += found.columns

    def records(self, phase: int, frame: Frame) -> dict[str, Any]:
        """The fields of RowRecords that depend on the gates."""
        return {
            "constants": np.array(self._constants, np.float64),
            "entries": _table(self._entries, 2),
            "coefficients": np.array(self._coefficients, np.float64),
            "start": _table(self.start, 3),
            "operations": _table(self._operations, 3),
            "rotations": _table(self._rotations, 3),
            "terms": _table(self._terms, 2),
            "targets": np.array(self._targets, np.int64),
            "matrices": np.concatenate([np.zeros(0, np.complex128), *self._matrices]),
            "walks": np.array(self._walks, np.int64),
            "columns": np.array(self._columns, np.int64),
            "logical": np.array([frame.origin, *frame.columns], np.int64),
            "phase": phase,
            "frame": frame,
        }


def _table(records: Sequence[tuple[int, ...]], fields: int) -> Any:
    return np.array(records, np.int64).reshape(len(records), fields)


def _same(a: _Rotation, b: _Rotation) -> bool:
    return (a.direction, a.functional, a.conditions) == (b.direction, b.functional, b.conditions)


def _passes(item: _Item, x: int, z: int, conditions: tuple[Condition, ...]) -> bool:
    """Whether a rotation about X^x Z^z, under conditions, commutes with an item."""
    # Plain loops: this is most of the time of lowering.
    if isinstance(item, _Diagonal):
        for mask in item.terms if x else ():  # noqa: SIM110
            if (mask & x).bit_count() & 1:
                return False
        return True
    if isinstance(item, _Rotation):
        own = item.x
        if ((own & z).bit_count() ^ (item.z & x).bit_count()) & 1:
            return False
        for mask, _ in item.conditions:
            if (mask & x).bit_count() & 1:
                return False
        for mask, _ in conditions:  # noqa: SIM110
            if (mask & own).bit_count() & 1:
                return False
        return True
    if any(parity(f & x) for f in item.functionals) or any(parity(mask & x) for mask, _ in item.conditions):
        return False
    return not any(parity(t & z) or any(parity(t & mask) for mask, _ in conditions) for t in item.targets)
