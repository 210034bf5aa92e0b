"""Constant phases of the same bits, between which none of them is mixed, as one: what undoes each other vanishes.

Those by the circuit's angles stay: RZZ is a phase of a parity, which kernels take in one step, and would be one of
each bit if RZ gates took them.
"""

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
    """The same operations, each constant phase where the first of the same bits is, and none that is nothing. What is
    left of a circuit's common phase stands where the first phase does."""
    mixed: dict[int, int] = {}
    """Where each qubit was mixed last."""
    place_of: dict[_Tests, int] = {}
    gathered: dict[int, defaultdict[_Tests, float]] = {}
    """By the number of the operation."""
    for number, operation in enumerate(operations):
        if _is_constant(operation):
            gathered[number] = defaultdict(float)
            for given, (angle, _) in operation.phases:
                tests = tuple(sorted(set(given)))
                place = place_of.get(tests, -1)
                if place < 0 or any(mixed.get(q, -1) > place for q, _ in tests):
                    place = place_of[tests] = number
                gathered[place][tests] += angle
        for q in qubits_of(operation.mixes):
            mixed[q] = number
    kept = {place: {t: a for t, a in phases.items() if not _is_nothing(a)} for place, phases in gathered.items()}
    _join_common(kept)
    return [
        own
        for number, operation in enumerate(operations)
        for own in (_diagonal(operation, kept[number]) if number in kept else [operation])
    ]


def _is_constant(operation: Operation) -> bool:
    return operation.kind == "diagonal" and not operation.reads


def _is_nothing(angle: float) -> bool:
    return abs(math.remainder(angle, math.tau)) < _ROUNDING


def _join_common(kept: dict[int, dict[_Tests, float]]) -> None:
    """The phase of all amplitudes beside others, if there are any."""
    alone = [number for number, phases in kept.items() if set(phases) == {()}]
    others = (number for number, phases in kept.items() if len(phases) > 1 or (phases and () not in phases))
    if alone and (beside := next(others, None)) is not None:
        for number in alone:
            kept[beside][()] = kept[beside].get((), 0.0) + kept[number].pop(())


def _diagonal(operation: Operation, phases: dict[_Tests, float]) -> list[Operation]:
    """The phases as one operation; nothing if there are none."""
    if not phases:
        return []
    terms: list[tuple[tuple[int, ...], Affine]] = []
    wide: list[tuple[_Tests, Affine]] = []
    for tests, angle in phases.items():
        if _is_product(tests):
            terms.append((tuple(q for q, _ in tests), (angle, ())))
        else:
            wide.append((tests, (angle, ())))
    bits = {q for tests in phases for q, _ in tests}
    return [replace(operation, z_like=sum(1 << q for q in bits), terms=terms, wide=wide)]


def _is_product(tests: _Tests) -> bool:
    return len(tests) <= 2 and all(value == 1 for _, value in tests)
