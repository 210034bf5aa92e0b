"""Phases between Clifford gates that undo each other, as Pauli rotations.

Compilers write exp(-i t/2 X Y Z ...) as a change of basis (H, RX), a ladder of CX gates, RZ(t), and all of that back:
a pass for each step, of which nothing is left but one rotation. Gates are matched as brackets are: one closes another
if it undoes it, and nothing that stays is between them on the same qubits. A phase inside is the rotation that the
gates around it make of its Z letters; so circuits of molecules run as if they had been written in rotations.

A matrix of one qubit closes the one before it also where something is left: M is M A and A^+, of which the second
closes A, and the first opens another. Matrices around phases that become rotations of different flips stay as they
are: a layer of phases is one pass, and would be one for each of them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from qdist.circuit.gates import GATES
from qdist.circuit.pauli.text import qubits_of
from qdist.plan.operations import Affine, Operation, gate_operation, scaled
from qdist.plan.rewrites.constants import Matrix, as_operations, constant_matrix
from qdist.plan.rewrites.ladders import narrowed
from qdist.plan.rewrites.paulis import Axes, Frame, String, axes_of, inverse_axes

__all__ = ["with_rotations_found"]

_ROUNDING = 1e-12
_MOST_ROUNDS = 8


def with_rotations_found(operations: Sequence[Operation], most: int) -> list[Operation]:
    """The same operations, with rotations in the place of such phases and gates. most: qubits that one may flip; those
    that would flip more are narrowed."""
    steps = list(map(_Step, operations))
    kept: set[int] = set()
    for _ in range(_MOST_ROUNDS):
        brackets = _Brackets(steps, kept)
        if not brackets.any_closed:
            break
        rewriter = _Rewriter(steps, brackets, most)
        if not rewriter.too_costly:
            return rewriter.found
        kept |= rewriter.too_costly
    return list(operations)


class _Step:
    """An operation, and what it is here."""

    __slots__ = ("is_move", "is_phase", "matrix", "operation", "qubits")

    def __init__(self, operation: Operation) -> None:
        self.operation = operation
        self.qubits = tuple(qubits_of(operation.all))
        self.matrix = constant_matrix(operation)
        self.is_move = self.matrix is None and (_is_move(operation) or _is_cz(operation))
        self.is_phase = self.matrix is None and not self.is_move and _is_of_rotations(operation)


@dataclass(slots=True, eq=False)
class _Gate:
    """A Clifford gate; of one qubit, a row of them."""

    qubits: tuple[int, ...]
    places: list[int]
    matrix: Matrix | None = None
    """Of one qubit, as it is left."""
    move: Operation | None = None
    """Of two: CX, SWAP or CZ."""
    axes: Axes | None = None
    is_own: bool = True
    """Whether it is what stands at its places."""
    is_closed: bool = False
    holds: bool = False
    """Whether something of several qubits has been inside."""
    flips: set[int] = field(default_factory=set)
    """Of the rotations inside that flip the qubit, by their masks."""

    @property
    def place(self) -> int:
        return self.places[-1]


@dataclass(slots=True)
class _Event:
    """What happens at a place: gates that are closed there, and one that is left; what they leave of a phase."""

    closes: list[_Gate] = field(default_factory=list)
    opens: _Gate | None = None
    phase: float = 0.0


class _Brackets:
    """Which gates undo each other."""

    def __init__(self, steps: Sequence[_Step], kept: set[int]) -> None:
        self.events: defaultdict[int, _Event] = defaultdict(_Event)
        self.gates: list[_Gate] = []
        self._rows: dict[int, _Gate] = {}
        self._open: defaultdict[int, list[_Gate]] = defaultdict(list)
        for place, step in enumerate(steps):
            qubits, stays = step.qubits, place in kept
            if step.matrix is not None and not stays:
                # An X that closes nothing stays where it is: first of all, such gates set the bits of a state.
                if step.operation.kind != "flip" or self._open[qubits[0]] or qubits[0] in self._rows:
                    self._add_to_row(qubits[0], step.matrix, place)
                continue
            for q in qubits:
                if q in self._rows:
                    self._end_row(q)
            if step.is_move and not stays:
                self._add_move(_Gate(qubits, [place], move=step.operation))
            elif step.is_phase and not stays:
                for q in qubits:
                    if len(qubits) > 1 and self._open[q]:
                        self._open[q][-1].holds = True
            else:
                for q in qubits:
                    self._open[q].clear()
        for q in list(self._rows):
            self._end_row(q)

    @property
    def any_closed(self) -> bool:
        return any(gate.is_closed for gate in self.gates)

    def _add_to_row(self, qubit: int, matrix: Matrix, place: int) -> None:
        row = self._rows.setdefault(qubit, _Gate((qubit,), []))
        row.matrix = matrix if row.matrix is None else matrix @ row.matrix
        row.places.append(place)

    def _end_row(self, qubit: int) -> None:
        row = self._rows.pop(qubit)
        assert row.matrix is not None
        row.axes = axes_of(row.matrix)
        if row.axes is None:
            self._open[qubit].clear()
            return
        open_gates = self._open[qubit]
        first = open_gates[-1] if open_gates else None
        if first is not None and first.matrix is not None and first.holds:
            open_gates.pop()
            first.is_closed = True
            self.events[row.place].closes.append(first)
            row.matrix = row.matrix @ first.matrix
            row.is_own = False
            row.axes = axes_of(row.matrix)
            if abs(row.matrix[0, 1]) < _ROUNDING and abs(row.matrix[0, 0] - row.matrix[1, 1]) < _ROUNDING:
                self.events[row.place].phase = float(np.angle(row.matrix[0, 0]))
                row.matrix = None
                if open_gates:
                    open_gates[-1].holds = True
        self.gates.append(row)
        self.events[row.place].opens = row
        if row.matrix is not None:
            open_gates.append(row)

    def _add_move(self, gate: _Gate) -> None:
        last = {id(own[-1]): own[-1] for q in gate.qubits if (own := self._open[q])}
        first = next(iter(last.values())) if len(last) == 1 else None
        if first is not None and all(self._open[q] for q in gate.qubits) and _undoes(gate, first):
            for q in gate.qubits:
                self._open[q].pop()
                if self._open[q]:
                    self._open[q][-1].holds = True
            first.is_closed = gate.is_closed = True
            self.events[gate.place].closes.append(first)
        else:
            for q in gate.qubits:
                self._open[q].append(gate)
            self.events[gate.place].opens = gate
        self.gates.append(gate)


class _Rewriter:
    """The operations without what is closed, and with phases as the gates around them make them."""

    def __init__(self, steps: Sequence[_Step], brackets: _Brackets, most: int) -> None:
        self.found: list[Operation] = []
        self.too_costly: set[int] = set()
        self._frame = Frame()
        self._around: defaultdict[int, list[_Gate]] = defaultdict(list)
        """Open matrices by qubit."""
        self._most = most
        inside_rows = {place for gate in brackets.gates if not _stays(gate) for place in gate.places}
        for place, step in enumerate(steps):
            if place in brackets.events:
                self._meet(brackets.events[place], step.operation, place in inside_rows)
            elif place not in inside_rows:
                self._pass(step)

    def _meet(self, event: _Event, operation: Operation, is_gone: bool) -> None:
        for gate in event.closes:
            self._add(gate, undo=True)
            if gate.matrix is not None:
                self._around[gate.qubits[0]].pop()
                if len(gate.flips) > 1:
                    self.too_costly.update(gate.places)
        if abs(event.phase) > _ROUNDING:
            self.found.append(Operation("diagonal", 0, 0, 0, terms=[((), (event.phase, ()))]))
        opened = event.opens
        if opened is None or (opened.matrix is None and opened.move is None):
            return
        if opened.is_closed:
            self._add(opened, undo=False)
            if opened.matrix is not None:
                self._around[opened.qubits[0]].append(opened)
        elif not is_gone:
            self.found.append(operation)
        else:
            assert opened.matrix is not None
            self.found += as_operations(opened.qubits[0], opened.matrix)

    def _add(self, gate: _Gate, undo: bool) -> None:
        """To the frame."""
        if gate.matrix is not None:
            assert gate.axes is not None
            self._frame.add_matrix(gate.qubits[0], inverse_axes(gate.axes) if undo else gate.axes)
            return
        move = gate.move
        assert move is not None
        if move.kind == "swap":
            self._frame.add_swap(*move.targets)
        elif move.kind == "diagonal":
            self._frame.add_cz(*gate.qubits)
        else:
            ((control, value),) = move.controls
            self._frame.add_cx(control, value, move.targets[0])

    def _pass(self, step: _Step) -> None:
        """An operation that stays. One that is inside of something is a phase."""
        if not step.is_phase or self._frame.keeps_z(step.qubits):
            self.found.append(step.operation)
            return
        common, turns = _as_rotations(step.operation)
        for z, angle in turns.items():
            string = self._frame.of(String(z=z))
            for q in qubits_of(string.x):
                if self._around[q]:
                    self._around[q][-1].flips.add(string.x)
            self.found += narrowed(_rotation(string, scaled(angle, string.sign)), self._most)
        if common != (0.0, ()):
            self.found.append(Operation("diagonal", 0, 0, 0, terms=[((), common)]))


def _stays(gate: _Gate) -> bool:
    """Whether what is at its places stays there."""
    return gate.is_own and not gate.is_closed


def _is_move(operation: Operation) -> bool:
    return operation.kind == "swap" or (operation.kind == "flip" and len(operation.controls) == 1)


def _is_cz(operation: Operation) -> bool:
    """Or one that differs by whole turns."""
    if operation.kind != "diagonal" or operation.wide or operation.reads or operation.all.bit_count() != 2:
        return False
    sums: defaultdict[tuple[int, ...], float] = defaultdict(float)
    for product, (angle, _) in operation.terms:
        sums[product] += angle - math.pi * (len(product) == 2)
    return all(abs(math.remainder(angle, math.tau)) < _ROUNDING for angle in sums.values())


def _undoes(gate: _Gate, first: _Gate) -> bool:
    one, other = gate.move, first.move
    if one is None or other is None or one.kind != other.kind or set(gate.qubits) != set(first.qubits):
        return False
    return one.kind != "flip" or (one.targets, one.controls) == (other.targets, other.controls)


def _is_of_rotations(operation: Operation) -> bool:
    """Whether it is a phase, each of whose rotations has an angle of the circuit, times a number."""
    if operation.kind != "diagonal" or operation.wide:
        return False
    if all(constant == 0 for _, (constant, _) in operation.terms) and len(operation.reads) == 1:
        return True
    return all(len(slots) == 1 and constant == 0 for constant, slots in _as_rotations(operation)[1].values())


def _as_rotations(operation: Operation) -> tuple[Affine, dict[int, Affine]]:
    """A phase of all amplitudes, and the angles of rotations about products of Z, by the mask of their qubits: a phase
    t of a bit is t/2 and a rotation by t, one of two bits t/4 and rotations by t/2, t/2 and -t/2."""
    sums: defaultdict[int, list[Affine]] = defaultdict(list)
    for product, affine in operation.terms:
        bits = [1 << q for q in sorted(set(product))]
        share = 0.5 ** len(bits)
        sums[0].append(scaled(affine, share))
        for bit in bits:
            sums[bit].append(scaled(affine, 2 * share))
        if len(bits) == 2:
            sums[bits[0] | bits[1]].append(scaled(affine, -2 * share))
    found = {mask: _sum(parts) for mask, parts in sums.items()}
    common = found.pop(0, (0.0, ()))
    return common, {mask: angle for mask, angle in found.items() if angle != (0.0, ())}


def _sum(affines: list[Affine]) -> Affine:
    slots: defaultdict[int, float] = defaultdict(float)
    for _, terms in affines:
        for slot, coefficient in terms:
            slots[slot] += coefficient
    constant = sum(constant for constant, _ in affines)
    return constant if abs(constant) > _ROUNDING else 0.0, tuple((s, c) for s, c in slots.items() if abs(c) > _ROUNDING)


_ROWS = {"X": "rx", "Y": "ry", "XX": "rxx", "YY": "ryy"}


def _rotation(string: String, angle: Affine) -> Operation:
    """exp(-i angle/2 letters)"""
    qubits, letters = string.qubits, string.letters
    if not string.x and len(qubits) <= 2:
        half: list[tuple[tuple[int, ...], Affine]] = [((), scaled(angle, -0.5))]
        own = [((q,), angle) for q in qubits]
        both = [(tuple(qubits), scaled(angle, -2.0))] if len(qubits) == 2 else []
        return Operation("diagonal", 0, 0, string.z, terms=half + own + both)
    ((slot, factor),) = angle[1]
    if factor == 1.0 and letters in _ROWS:
        return gate_operation(GATES[_ROWS[letters]], qubits, range(slot, slot + 1))
    x_like, z_like = string.x & ~string.z, string.z & ~string.x
    rotation = Operation("rotation", string.x, x_like, z_like, tuple(qubits), slots=(slot,))
    rotation.letters, rotation.sign = letters, factor
    return rotation
