"""Gates as the planner sees them: dense, diagonal, index-changing or Pauli rotation, on numbered qubits.

An Operation is a gate on given qubits, with the numbers of the circuit's angles that it reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from typing import Any

import numpy as np

from qdist.circuit import Circuit, CircuitError
from qdist.circuit.channels import LinearGate
from qdist.circuit.data_gates import UnitaryGate
from qdist.circuit.gate import FORMULAS, Gate, standard_name
from qdist.circuit.gates import GATES
from qdist.circuit.instruction import Instruction

__all__ = [
    "FORMULAS",
    "Affine",
    "Operation",
    "as_rotation",
    "gate_operation",
    "keeps_parity",
    "moved",
    "operation",
    "operations",
    "scaled",
]

# A coefficient list over angle slots, and a constant: constant + sum(coefficient * angle[slot]).
Affine = tuple[float, tuple[tuple[int, float], ...]]


def scaled(affine: Affine, factor: float) -> Affine:
    """A multiple of an angle."""
    constant, terms = affine
    return factor * constant, tuple((slot, factor * coefficient) for slot, coefficient in terms)


@dataclass(slots=True)
class Operation:
    """One gate on its qubits."""

    kind: str
    """dense, diagonal, flip, swap, rotation, table (a wide diagonal) or permute (a wide permutation)."""
    mixes: int
    """Mask of the qubits that must be close for it to run."""
    x_like: int
    """Mask of those among them on which it commutes with X."""
    z_like: int
    """Mask of the qubits on which it is diagonal: controls, and the qubits of diagonal gates."""
    targets: tuple[int, ...] = ()
    controls: tuple[tuple[int, int], ...] = ()
    """(qubit, value it must have)"""
    gate: Gate | None = None
    """Dense: the row of the gate table, without controls."""
    slots: tuple[int, ...] = ()
    matrix: Any = None
    terms: list[tuple[tuple[int, ...], Affine]] = field(default_factory=list)
    """Diagonal: products of at most two qubits, and the phase that each brings."""
    wide: list[tuple[tuple[tuple[int, int], ...], Affine]] = field(default_factory=list)
    """Diagonal: conditions on more than two qubits, and the phase where all hold."""
    letters: str = ""
    """Rotation: the Pauli letter of each target."""
    sign: float = 1.0
    """Rotation: what its angle is multiplied by."""
    parts: tuple[Operation, ...] = ()
    """Dense: the gates whose product it is, in the order in which they act; none where it is a gate itself."""

    @property
    def formula(self) -> int:
        """Dense: the number of the kernels' formula; 0 for a constant matrix."""
        return self.gate.formula if self.gate else 0

    @property
    def all(self) -> int:
        return self.mixes | self.z_like

    @property
    def changes_norm(self) -> bool:
        """Whether it is a matrix that need not be unitary, or has one as a part."""
        return isinstance(self.gate, LinearGate) or any(isinstance(part.gate, LinearGate) for part in self.parts)

    @property
    def num_gates(self) -> int:
        return len(self.parts) or 1

    @property
    def signs(self) -> int:
        """Rotation: mask of the qubits with Y or Z, whose parity is the sign of the flipped amplitude."""
        return _mask(q for q, letter in zip(self.targets, self.letters) if letter in "YZ")

    @property
    def phases(self) -> list[tuple[tuple[tuple[int, int], ...], Affine]]:
        """Diagonal: all of its phases, by qubits and the values that they must have."""
        return [(tuple((q, 1) for q in product), affine) for product, affine in self.terms] + self.wide

    @property
    def reads(self) -> set[int]:
        """The angles that it depends on."""
        found = {slot for phases in (self.terms, self.wide) for _, (_, terms) in phases for slot, _ in terms}
        return found.union(self.slots, *(part.reads for part in self.parts))


def operation(instruction: Instruction, slot: int) -> Operation | None:
    """A gate as an operation; None for an identity. Its angles are numbered from ``slot`` on.

    Raises CircuitError for what is not unitary.
    """
    gate, qubits, params, _, _ = instruction
    if not gate.is_unitary:
        raise CircuitError(f"{gate.name} is not unitary and cannot be planned as a gate")
    if gate.base.is_identity:
        return None
    found = _simple(gate, qubits, params)
    return found or gate_operation(gate, qubits, range(slot, slot + len(params)))


_EIGHTH = np.pi / 4
_ROUNDING = 1e-12
_NEAR = 1e-14
"""How near, beside its size, an angle is to one that it is taken for: more than 14 digits of it were written."""
_MOST_TURNS = 64


def _simple(gate: Gate, qubits: Sequence[int], params: Sequence[Any]) -> Operation | None:
    """A phase, or a gate of one qubit, whose angles are numbers and multiples of pi/4, without angles; None for others.
    Compilers write H, S, T and CZ so, which rewrites know; gates of any other angles gain nothing from being known."""
    if not params or not (gate.base.is_diagonal or gate.num_qubits == 1):
        return None
    if not all(isinstance(angle, (int, float)) and _is_multiple(angle, _EIGHTH) for angle in params):
        return None
    if not gate.base.is_diagonal:
        return gate_operation(_with_numbers(gate, tuple(params)), qubits, range(0))
    found = gate_operation(gate, qubits, range(1))
    if found.kind != "diagonal" or len(params) > 1:
        return None
    (angle,) = params
    terms = [(product, _at(affine, angle)) for product, affine in found.terms]
    wide = [(tests, _at(affine, angle)) for tests, affine in found.wide]
    return replace(found, terms=terms, wide=wide)


@lru_cache(maxsize=1024)
def _with_numbers(gate: Gate, params: tuple[float, ...]) -> Gate:
    """By its matrix, without what rounding has left of zeros."""
    matrix = np.asarray(gate.matrix(*params))
    real, imaginary = (np.where(np.abs(part) < _ROUNDING, 0.0, part) for part in (matrix.real, matrix.imag))
    return UnitaryGate(real + 1j * imaginary)


def _is_multiple(angle: float, unit: float) -> bool:
    """Far from 0, a double is no longer near enough to one."""
    near = _NEAR * max(1.0, abs(angle))
    return abs(angle) < _MOST_TURNS * np.pi and abs(angle - unit * round(angle / unit)) < near


def _at(affine: Affine, angle: float) -> Affine:
    """The value of a multiple of the one angle, as a constant."""
    constant, terms = affine
    return constant + sum(coefficient * angle for _, coefficient in terms), ()


def as_rotation(operation: Operation) -> Operation | None:
    """A Pauli rotation as an operation of that kind, also where it was planned as a matrix on two qubits or more; None
    for anything else."""
    if operation.kind == "rotation":
        return operation
    gate = operation.gate
    if operation.kind != "dense" or gate is None or not gate.pauli or operation.mixes.bit_count() < 2:
        return None
    mixes, x_like, z_like, targets = operation.mixes, operation.x_like, operation.z_like, operation.targets
    return Operation(
        "rotation", mixes, x_like, z_like, targets, operation.controls, slots=operation.slots, letters=gate.pauli
    )


def keeps_parity(operation: Operation) -> bool:
    """Whether it mixes no two settings of its qubits with an even and an odd number of ones: phases, and matrices on
    two qubits that mix 00 with 11 and 01 with 10 alone, as RXX, RYY, fSim and iSwap do."""
    if operation.kind == "diagonal":
        return True
    if operation.kind != "dense" or operation.controls or len(operation.targets) != 2 or operation.gate is None:
        return False
    return _splits(operation.matrix) if operation.matrix is not None else _row_splits(operation.gate)


@cache
def _row_splits(gate: Gate) -> bool:
    """The same of a row with angles; none of these is one that a gate is simpler at."""
    return _splits(gate.matrix(*(0.7 + 0.3 * k for k in range(gate.num_params))))


def _splits(matrix: Any) -> bool:
    given = np.asarray(matrix).tolist()
    return not any(given[even][odd] or given[odd][even] for even in (0, 3) for odd in (1, 2))


def moved(operation: Operation, places: Sequence[int]) -> Operation:
    """The same on other numbers: ``places[q]`` in the place of q."""

    def mask(old: int) -> int:
        new = 0
        while old:
            low = old & -old
            new |= 1 << places[low.bit_length() - 1]
            old ^= low
        return new

    def conditions(old: Any) -> Any:
        return tuple((places[q], value) for q, value in old)

    return replace(
        operation,
        mixes=mask(operation.mixes),
        x_like=mask(operation.x_like),
        z_like=mask(operation.z_like),
        targets=tuple([places[q] for q in operation.targets]),
        controls=conditions(operation.controls),
        terms=[(tuple(sorted(places[q] for q in product)), affine) for product, affine in operation.terms],
        wide=[(conditions(tests), affine) for tests, affine in operation.wide],
        parts=tuple([moved(part, places) for part in operation.parts]),
    )


def operations(circuit: Circuit) -> Iterator[Operation]:
    """All gates of a unitary circuit, in order; barriers and identities are left out."""
    slot = 0
    for instruction in circuit:
        found = None if instruction.gate.is_directive else operation(instruction, slot)
        if found is not None:
            yield found
        slot += len(instruction.params)


_X, _SWAP = GATES["x"], GATES["swap"]


def gate_operation(gate: Gate, qubits: Sequence[int], slots: range) -> Operation:
    """A unitary gate that is no identity; slots: the numbers of its angles."""
    base = gate.base
    count = gate.num_controls
    controls = tuple((q, gate.ctrl_state >> k & 1) for k, q in enumerate(qubits[:count]))
    targets = tuple(qubits[count:])
    control_mask, target_mask = _mask(qubits[:count]), _mask(targets)
    # A row whose letters are all alike is as fast as a matrix or a phase; one of several letters mixes fewer qubits so.
    if base.pauli and (base.data or len(set(base.pauli)) > 1) and not _is_phase(gate):
        return _rotation(base.pauli, targets, controls, slots[0])
    if base.is_diagonal:
        return _diagonal(base, targets, controls, slots, control_mask | target_mask)
    if base is _X and count <= 1:
        return Operation("flip", target_mask, target_mask, control_mask, targets, controls)
    if base is _SWAP and count == 0:
        return Operation("swap", target_mask, 0, 0, targets)
    if base.is_permutation and base.num_qubits > 2 and count == 0:
        source = np.argmax(np.abs(base.matrix()), axis=1)
        return Operation("permute", target_mask, 0, 0, targets, matrix=source)
    if base.num_params and not base.formula:
        raise CircuitError(f"the kernels have no formula for {base.name}")
    x_like = _mask(targets[k] for k in base.x_like_qubits)
    matrix = None if base.formula else base.matrix()
    return Operation("dense", target_mask, x_like, control_mask, targets, controls, base, tuple(slots), matrix)


def _is_phase(gate: Gate) -> bool:
    """Whether a Pauli rotation is a polynomial of at most two bits: Z or ZZ, or Z under one control."""
    return set(gate.base.pauli or "") == {"Z"} and gate.num_qubits <= 2


def _rotation(letters: str, targets: tuple[int, ...], controls: Any, slot: int) -> Operation:
    mixes = _mask(q for q, p in zip(targets, letters) if p in "XY")
    x_like = _mask(q for q, p in zip(targets, letters) if p == "X")
    z_like = _mask(q for q, p in zip(targets, letters) if p == "Z") | _mask(q for q, _ in controls)
    return Operation("rotation", mixes, x_like, z_like, targets, controls, slots=(slot,), letters=letters)


def _diagonal(base: Gate, targets: tuple[int, ...], controls: Any, slots: range, mask: int) -> Operation:
    operation = Operation("diagonal", 0, 0, mask)
    phases = None if base.num_params == 0 and len(targets) > _TABULATED else _phases(base)
    if phases is None or sum(len(monomial) > 2 for monomial, _ in phases) > _MOST_WIDE:
        return Operation("table", 0, 0, mask, targets, controls, matrix=base.diagonal())
    for monomial, coefficient in phases:
        # The one angle times the coefficient, or a constant.
        affine: Affine = (0.0, ((slots[0], coefficient),)) if slots else (coefficient, ())
        bits = tuple(targets[k] for k in monomial)
        if len(bits) + len(controls) > 2:
            operation.wide.append((tuple((q, 1) for q in bits) + controls, affine))
        else:
            operation.terms += _expand(bits, controls, affine)
    return operation


def _expand(bits: tuple[int, ...], controls: Any, affine: Affine) -> list[tuple[tuple[int, ...], Affine]]:
    """The product of bits and of controls, each b or 1 - b, as products of bits alone."""
    if not controls:
        return [(tuple(sorted(bits)), affine)]
    products: list[tuple[tuple[int, ...], float]] = [(bits, 1.0)]
    for qubit, value in controls:
        with_bit = [((*b, qubit), sign if value else -sign) for b, sign in products]
        products = with_bit if value else products + with_bit
    return [(tuple(sorted(b)), (sign * affine[0], tuple((s, sign * c) for s, c in affine[1]))) for b, sign in products]


_TABULATED = 8
"""Qubits beyond which the phases of a diagonal are tabulated, whatever they are."""
_MOST_WIDE = 5
"""Products of three bits and more, each of which costs about a tenth of a table."""
_WHOLE_TURNS = 1e-13

_Polynomial = list[tuple[tuple[int, ...], float]]
_KNOWN_PHASES: dict[str, _Polynomial] = {}


def _phases(base: Gate) -> _Polynomial:
    """The phase of a diagonal gate, or what its angle is multiplied by, as a polynomial of the bits: (product of which
    targets, coefficient)."""
    if isinstance(base.data, np.ndarray):
        return _constants(np.angle(base.diagonal()))
    key = base.data or standard_name(base)
    if not key:
        return _own_phases(base)
    if key not in _KNOWN_PHASES:
        _KNOWN_PHASES[key] = _own_phases(base)
    return _KNOWN_PHASES[key]


def _own_phases(base: Gate) -> _Polynomial:
    generator = base.generator
    if base.num_params and generator is None:
        raise CircuitError(f"{base.name} is diagonal and has angles, but its row has no generator")
    if generator is None:
        return _constants(np.angle(base.diagonal()))
    return _polynomial((-generator.diagonal().real / 2).tolist())


def _constants(phases: np.ndarray) -> _Polynomial:
    """The polynomial of phases that no angle changes, without whole turns."""
    turn = 2 * np.pi
    found = [(bits, value - turn * round(value / turn)) for bits, value in _polynomial(phases.tolist())]
    return [(bits, value) for bits, value in found if abs(value) > _WHOLE_TURNS]


def _polynomial(values: list[float]) -> _Polynomial:
    """The polynomial that has these values at the settings of the bits, without monomials of coefficient 0."""
    size = len(values).bit_length() - 1
    # Moebius transform: subtract, bit by bit, what the settings without the bit already have.
    for bit in range(size):
        for index in range(len(values)):
            if index >> bit & 1:
                values[index] -= values[index ^ 1 << bit]
    return [(tuple(b for b in range(size) if index >> b & 1), value) for index, value in enumerate(values) if value]


def _mask(qubits: Any) -> int:
    mask = 0
    for q in qubits:
        mask |= 1 << q
    return mask
