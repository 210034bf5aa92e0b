"""Phases between two equal CX gates, as phases of the parity of both qubits; and between two X gates.

CX D CX with a diagonal D on the target b is again diagonal: bit b is replaced by its sum with the control's,
a + b - 2 a b. Feature maps, QAOA and Trotter steps are often written so. Without the CX gates all such phases of a
layer are one block. In X D X bit b is replaced by 1 - b: so oracles put a phase on an amplitude that has zeros.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from qdist.circuit.pauli.text import qubits_of
from qdist.plan.operations import Affine, Operation, scaled

__all__ = ["without_sandwiches"]


def without_sandwiches(operations: Sequence[Operation]) -> list[Operation]:
    """The same operations with pairs of CX or X removed that have nothing but such phases, and what commutes with both,
    between them; in about as many steps as there are operations."""
    kept: list[Operation | None] = list(operations)
    opened = _Opened()
    for k, operation in enumerate(operations):
        control = _control_of_flip(operation)
        if control is not None:
            target = operation.targets[0]
            first = opened.on.get(target)
            if first is not None and first.control == control:
                kept[first.place] = kept[k] = None
                for place in first.phases:
                    kept[place] = _of_sum(kept[place], target, control)
                opened.close(target)
                continue
        opened.pass_by(operation, k)
        if control is not None:
            opened.open(operation.targets[0], control, k)
    return [operation for operation in kept if operation is not None]


_ALONE = -1
"""In the place of a control: X has none."""


@dataclass(slots=True)
class _Flip:
    control: int
    place: int
    phases: list[int] = field(default_factory=list)
    """Places of the diagonal operations on its target since."""


class _Opened:
    """The last CX or X on each target, as long as another one may still cancel it."""

    def __init__(self) -> None:
        self.on: dict[int, _Flip] = {}
        self._targets_of: defaultdict[int, set[int]] = defaultdict(set)

    def open(self, target: int, control: int, place: int) -> None:
        self.on[target] = _Flip(control, place)
        self._targets_of[control].add(target)

    def close(self, target: int) -> None:
        found = self.on.pop(target, None)
        if found is not None:
            self._targets_of[found.control].discard(target)

    def pass_by(self, operation: Operation, place: int) -> None:
        """Closes those that the operation neither commutes with nor is a phase between."""
        for qubit in qubits_of(operation.mixes):
            for target in list(self._targets_of[qubit]):
                self.close(target)
        for qubit in qubits_of(operation.all):
            first = self.on.get(qubit)
            if first is None:
                continue
            if _stays_quadratic(operation, qubit, first.control):
                first.phases.append(place)
            else:
                self.close(qubit)


def _control_of_flip(operation: Operation) -> int | None:
    """That of a CX, _ALONE of an X, None of others."""
    if operation.kind != "flip" or len(operation.targets) != 1:
        return None
    if not operation.controls:
        return _ALONE
    return operation.controls[0][0] if len(operation.controls) == 1 and operation.controls[0][1] == 1 else None


def _stays_quadratic(operation: Operation, target: int, control: int) -> bool:
    """Whether a diagonal has products of at most two bits also after ``_of_sum``."""
    if control == _ALONE:
        return operation.kind == "diagonal"
    if operation.kind != "diagonal" or any(target in (q for q, _ in tests) for tests, _ in operation.wide):
        return False
    return all(target not in product or set(product) <= {target, control} for product, _ in operation.terms)


def _of_sum(operation: Operation | None, target: int, control: int) -> Operation:
    """A diagonal with the sum of the bits of both, modulo 2, in the place of the target's."""
    assert operation is not None
    if control == _ALONE:
        return _of_other_bit(operation, target)
    terms: list[tuple[tuple[int, ...], Affine]] = []
    both = (min(target, control), max(target, control))
    for product, affine in operation.terms:
        if target not in product:
            terms.append((product, affine))
        elif control in product:
            # a (a + b - 2 a b) = a - a b
            terms += [((control,), affine), (both, scaled(affine, -1.0))]
        else:
            terms += [((control,), affine), ((target,), affine), (both, scaled(affine, -2.0))]
    return replace(operation, terms=terms, z_like=operation.z_like | 1 << control | 1 << target)


def _of_other_bit(operation: Operation, target: int) -> Operation:
    """A diagonal with 1 - b in the place of bit b."""
    terms: list[tuple[tuple[int, ...], Affine]] = []
    for product, affine in operation.terms:
        terms.append((product, affine if target not in product else scaled(affine, -1.0)))
        if target in product:
            terms.append((tuple(q for q in product if q != target), affine))
    wide = [(tuple((q, v ^ (q == target)) for q, v in tests), affine) for tests, affine in operation.wide]
    return replace(operation, terms=terms, wide=wide)
