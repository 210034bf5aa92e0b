"""Phases of the same bits, between which none of them is mixed, as one: what undoes each other vanishes."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from qdist.circuit.pauli.text import qubits_of
from qdist.plan.operations import Affine, Operation

__all__ = ["with_phases_gathered"]

_ROUNDING = 1e-12
_Tests = tuple[tuple[int, int], ...]


def with_phases_gathered(operations: Sequence[Operation]) -> list[Operation]:
    """The same operations, each phase where the first of the same bits is, and none that is nothing. What is left of
    a circuit's common phase stands where the first phase does."""
    mixed: dict[int, int] = {}
    """Where each qubit was mixed last."""
    place_of: dict[_Tests, int] = {}
    gathered: dict[int, dict[_Tests, _Sum]] = {}
    """By the number of the operation."""
    for number, operation in enumerate(operations):
        if operation.kind == "diagonal":
            gathered[number] = {}
            for tests, affine in _all_phases(operation):
                place = place_of.get(tests, -1)
                if place < 0 or any(mixed.get(q, -1) > place for q, _ in tests):
                    place = place_of[tests] = number
                gathered[place].setdefault(tests, _Sum()).add(affine)
        for q in qubits_of(operation.mixes):
            mixed[q] = number
    kept = {number: {t: a for t, a in phases.items() if not a.is_nothing} for number, phases in gathered.items()}
    _join_common(kept)
    return [
        own
        for number, operation in enumerate(operations)
        for own in (_diagonal(operation, kept[number]) if operation.kind == "diagonal" else [operation])
    ]


def _all_phases(operation: Operation) -> list[tuple[_Tests, Affine]]:
    """Of a diagonal, by the bits and their values."""
    of_bits = [(tuple((q, 1) for q in sorted(set(product))), affine) for product, affine in operation.terms]
    return of_bits + [(tuple(sorted(tests)), affine) for tests, affine in operation.wide]


class _Sum:
    """Of phases."""

    __slots__ = ("constant", "slots")

    def __init__(self) -> None:
        self.constant = 0.0
        self.slots: defaultdict[int, float] = defaultdict(float)

    def add(self, affine: Affine) -> None:
        self.constant += affine[0]
        for slot, coefficient in affine[1]:
            self.slots[slot] += coefficient

    @property
    def affine(self) -> Affine:
        return self.constant, tuple((slot, c) for slot, c in self.slots.items() if c)

    @property
    def is_nothing(self) -> bool:
        """Whether it is of whole turns, whatever the angles are."""
        return not any(self.slots.values()) and abs(math.remainder(self.constant, math.tau)) < _ROUNDING


def _join_common(kept: dict[int, dict[_Tests, _Sum]]) -> None:
    """The phase of all amplitudes beside others, if there are any."""
    alone = [number for number, phases in kept.items() if set(phases) == {()}]
    others = (number for number, phases in kept.items() if len(phases) > 1 or (phases and () not in phases))
    if alone and (beside := next(others, None)) is not None:
        for number in alone:
            kept[beside].setdefault((), _Sum()).add(kept[number].pop(()).affine)


def _diagonal(operation: Operation, phases: dict[_Tests, _Sum]) -> list[Operation]:
    """The phases as one operation; nothing if there are none."""
    if not phases:
        return []
    terms = [(tuple(q for q, _ in tests), own.affine) for tests, own in phases.items() if _is_product(tests)]
    wide = [(tests, own.affine) for tests, own in phases.items() if not _is_product(tests)]
    bits = {q for tests in phases for q, _ in tests}
    return [replace(operation, z_like=sum(1 << q for q in bits), terms=terms, wide=wide)]


def _is_product(tests: _Tests) -> bool:
    return len(tests) <= 2 and all(value == 1 for _, value in tests)
