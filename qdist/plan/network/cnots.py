"""Resynthesis of CNOT circuits: a group of CX gates is a linear map of bits (over GF(2)), which fewer gates may give.

CX on all pairs in order, for example, adds to each bit the one before it. A chain of n - 1 gates, from the last pair to
the first, does the same, and its gates depend on far fewer others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qdist.native import kernels
from qdist.plan.operations import Operation

__all__ = ["fewer_cnots"]


def fewer_cnots(operations: Sequence[Operation]) -> list[Operation]:
    """Operations with the same effect; the given ones in their order where nothing can be saved."""
    levels = _levels(operations)
    groups: dict[int, list[Operation]] = {}
    for operation, level in zip(operations, levels):
        if _is_cnot(operation):
            groups.setdefault(level, []).append(operation)
    known: dict[tuple[int, ...], list[tuple[int, int]] | None] = {}
    fewer = {level: shorter for level, group in groups.items() if (shorter := _shorter(group, known)) is not None}
    if not fewer:
        return list(operations)
    # Gates of one level commute unless both are CX or both are not, and then they are in order.
    result: dict[int, list[Operation]] = {level: list(shorter) for level, shorter in fewer.items()}
    for operation, level in zip(operations, levels):
        if level not in fewer or not _is_cnot(operation):
            result.setdefault(level, []).append(operation)
    return [operation for level in sorted(result) for operation in result[level]]


def _is_cnot(operation: Operation) -> bool:
    return operation.kind == "flip" and len(operation.controls) == 1 and operation.controls[0][1] == 1


def _levels(operations: Sequence[Operation]) -> list[int]:
    """For each gate the most alternations between CX and other gates on a path of the dependency graph to it."""
    masks = np.array([(o.mixes, o.x_like, o.z_like) for o in operations], np.uint64)
    mixes, x_like, z_like = masks.reshape(-1, 3).T.copy()
    return kernels.alternations(mixes, x_like, z_like, [_is_cnot(o) for o in operations])


def _shorter(
    cnots: list[Operation], known: dict[tuple[int, ...], list[tuple[int, int]] | None]
) -> list[Operation] | None:
    """Fewer CX gates with the effect of these; None if none are found."""
    qubits = sorted({q for o in cnots for q in (o.targets[0], o.controls[0][0])})
    if len(cnots) <= len(qubits):
        return None
    # Row k: the bits whose sum (XOR) becomes the bit of qubits[k].
    number = {q: k for k, q in enumerate(qubits)}
    rows = [1 << k for k in range(len(qubits))]
    for o in cnots:
        rows[number[o.targets[0]]] ^= rows[number[o.controls[0][0]]]
    key = tuple(rows)
    if key not in known:
        known[key] = _eliminated(rows)
    pairs = known[key]
    if pairs is None or len(pairs) >= len(cnots):
        return None
    return [_cnot(qubits[control], qubits[target]) for control, target in pairs]


def _eliminated(rows: list[int]) -> list[tuple[int, int]] | None:
    """(control, target) of CX gates that give these rows, by greedy elimination over GF(2): rows are added while that
    lowers the number of ones; None if that does not end in the identity."""
    rows = list(rows)
    steps = []
    while any(row.bit_count() != 1 for row in rows):
        gain, control, target = max(
            (row.bit_count() - (row ^ other).bit_count(), c, t)
            for t, row in enumerate(rows)
            if row.bit_count() > 1
            for c, other in enumerate(rows)
            if c != t
        )
        if gain <= 0:
            return None
        rows[target] ^= rows[control]
        steps.append((control, target))
    if rows != [1 << k for k in range(len(rows))]:
        return None
    # The steps undo the map, so the last of them is the first gate.
    return steps[::-1]


def _cnot(control: int, target: int) -> Operation:
    return Operation("flip", 1 << target, 1 << target, 1 << control, (target,), ((control, 1),))
