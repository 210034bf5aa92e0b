"""Gates on the same two qubits as one matrix.

A two-qubit gate that is written as CX gates with matrices of one qubit between them, as transpilers do, or as rotations
between such matrices, takes several passes of a tile; as one 4 x 4 matrix it takes one. In turn the matrix mixes both
of its qubits, which a CX or a phase does not. Whether that pays is for the planner to find out: here are the runs of
gates where it may.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from qdist.circuit.gates import GATES
from qdist.circuit.pauli.text import qubits_of
from qdist.plan.operations import Operation, as_rotation

__all__ = ["as_matrices", "with_pairs_joined"]

_ONE, _REAL, _ROTATION, _CONTROLLED, _SHARED = 0.45, 0.3, 0.33, 0.25, 0.1
"""What passes cost, in units of a matrix on two qubits: of matrices of one qubit, of those with real entries,
of Pauli rotations with the same flips, of matrices under a condition; and what a gate's share is in a pass of all
phases or all changes of the index. Between those of Neoverse-N1 and of a Xeon (benchmarks/cpu_notes.md)."""


def with_pairs_joined(operations: Sequence[Operation], close: int) -> list[Operation] | None:
    """The same operations with runs on the same two qubits as one matrix each, where these would take less than the
    run does; None where there are none. close: qubits from there on cannot be mixed."""
    runs = _Runs(operations, close).worth_joining()
    if not runs:
        return None
    by_last = {run[-1]: run for run in runs}
    inside = {k for run in runs for k in run}
    result = []
    for k, operation in enumerate(operations):
        if k in by_last:
            result.append(_joined([operations[j] for j in by_last[k]]))
        elif k not in inside:
            result.append(operation)
    return result


@dataclass(slots=True)
class _Run:
    """Operations on one qubit or two, by their numbers, between which nothing else acts on these qubits."""

    qubits: int
    numbers: list[int]


class _Runs:
    """Finds the longest runs. A gate of one qubit is part of the run before it, or of the next where that is not worth
    joining."""

    def __init__(self, operations: Sequence[Operation], close: int) -> None:
        self._operations, self._close = operations, close
        self._open: dict[int, _Run] = {}
        """By qubit."""
        self._found: list[list[int]] = []

    def worth_joining(self) -> list[list[int]]:
        """The numbers of each run's operations, in order."""
        for k, operation in enumerate(self._operations):
            qubits = operation.all
            if not qubits:
                continue  # A phase of all amplitudes.
            if qubits.bit_count() > 2 or qubits >> self._close or not as_matrices(operation):
                self._end_on(qubits)
                for q in qubits_of(qubits):
                    self._open.pop(q, None)
                continue
            run = self._open.get(qubits.bit_length() - 1)
            if run is None or qubits & ~run.qubits:
                run = self._begin(qubits)
            run.numbers.append(k)
        self._end_on(-1)
        return self._found

    def _begin(self, qubits: int) -> _Run:
        """A new run, with the gates of one qubit before it."""
        self._end_on(qubits)
        before = [k for q in qubits_of(qubits) if q in self._open for k in self._open[q].numbers]
        run = _Run(qubits, sorted(before))
        self._open.update(dict.fromkeys(qubits_of(qubits), run))
        return run

    def _end_on(self, qubits: int) -> None:
        """Ends the runs on two qubits of which one is among these. Of those that stay as they are, what comes after the
        last gate of two may be part of another."""
        for run in {id(run): run for q, run in self._open.items() if qubits >> q & 1}.values():
            if run.qubits.bit_count() == 1:
                continue
            for q in qubits_of(run.qubits):
                del self._open[q]
            if _cost([self._operations[k] for k in run.numbers]) > 1:
                self._found.append(run.numbers)
                continue
            for k in reversed(run.numbers):
                own = self._operations[k].all
                if own == run.qubits:
                    break
                self._open.setdefault(own.bit_length() - 1, _Run(own, [])).numbers.insert(0, k)


def _cost(operations: Sequence[Operation]) -> float:
    """Of operations on two qubits as they are; 0 where all are of one qubit but a matrix that takes these in anyway
    (plan/fuse.py)."""
    cost, twos, matrices = 0.0, 0, 0
    ones: dict[int, list[Operation]] = {}
    flips: set[tuple[int, bool]] = set()

    def ended(qubits: int) -> float:
        """What the matrices of one qubit cost that nothing can be added to any more."""
        over = [ones.pop(q) for q in list(ones) if qubits >> q & 1]
        return sum(_ONE if len(own) > 1 or not _is_simple(own[0]) else _REAL for own in over)

    for operation in operations:
        count = operation.all.bit_count()
        if count == 1 and operation.kind == "dense":
            ones.setdefault(operation.mixes.bit_length() - 1, []).append(operation)
            flips.clear()
            continue
        twos += count == 2
        cost += ended(operation.all)
        if operation.kind in ("diagonal", "flip", "swap"):
            cost += _SHARED * count / 2
        elif operation.controls:
            cost += _CONTROLLED
        elif (rotation := as_rotation(operation)) is not None:
            key = rotation.mixes, rotation.letters.count("Y") % 2 == 1
            cost += 0.0 if key in flips else _ROTATION
            flips.add(key)
        else:
            cost += 1.0
            matrices += 1
    return 0.0 if twos == matrices == 1 else cost + ended(-1)


def _is_simple(operation: Operation) -> bool:
    return operation.gate is not None and operation.gate.is_pure


def _joined(operations: Sequence[Operation]) -> Operation:
    """One matrix: the product of them."""
    qubits = 0
    for operation in operations:
        qubits |= operation.all
    targets = tuple(q for q in range(qubits.bit_length()) if qubits >> q & 1)
    return Operation("dense", qubits, 0, 0, targets, parts=tuple(operations))


def as_matrices(operation: Operation) -> tuple[Operation, ...]:
    """The operation as matrices without conditions, phases, or Pauli rotations, which may be under one; in the order in
    which they act. None if it has no such form."""
    kind, controls, targets = operation.kind, operation.controls, operation.targets
    if kind == "diagonal":
        return () if operation.wide else (operation,)
    if kind == "swap":
        return (_constant(targets, GATES["swap"].matrix()),)
    if kind == "rotation":
        return (operation,) if operation.sign in (1, -1) else ()
    if kind not in ("flip", "dense") or len(controls) > 1:
        return ()
    matrix = GATES["x"].matrix() if kind == "flip" else operation.matrix
    if not controls:
        return (_constant(targets, matrix) if kind == "flip" else operation,)
    if matrix is None:
        assert operation.gate is not None, "matrices with angles are gates of the table"
        letters = operation.gate.pauli
        return (replace(operation, kind="rotation", gate=None, letters=letters),) if letters else ()
    ((control, value),) = controls
    whole = np.eye(4, dtype=complex)
    where = np.array([value, value + 2])
    whole[where[:, None], where] = matrix
    return (_constant((control, *targets), whole),)


def _constant(targets: tuple[int, ...], matrix: Any) -> Operation:
    return Operation("dense", sum(1 << q for q in targets), 0, 0, targets, matrix=matrix)
