"""Gates on the same two qubits as one matrix.

A two-qubit gate that is written as CX gates with matrices of one qubit between them, as transpilers do, or as rotations
between such matrices, takes several passes of a tile; as one 4 x 4 matrix it takes one. In turn the matrix mixes both
of its qubits, which a CX or a phase does not. Whether that pays is for the planner to find out: here are the runs of
gates where it may (native/src/search/pairs.hpp finds them).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from qdist.circuit.gates import GATES
from qdist.native import kernels
from qdist.plan.operations import Operation, as_rotation

__all__ = ["PASSES", "Pass", "as_matrices", "pass_of", "with_pairs_joined"]


def with_pairs_joined(operations: Sequence[Operation], close: int) -> list[Operation] | None:
    """The same operations with runs on the same two qubits as one matrix each, where these would take less than the
    run does; None where there are none. close: qubits from there on cannot be mixed."""
    runs = _worth_joining(operations, close)
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


PASSES = ("alone", "shared", "controlled", "rotation", "matrix", "apart")
"""What a gate is as a pass of its own, by its number in C++."""


class Pass(NamedTuple):
    """A gate as a pass of its own: of a row of one qubit's matrices, part of a pass of all phases or all changes of the
    index, a matrix under conditions, a Pauli rotation, or another matrix; apart where it has no form as matrices."""

    kind: int
    flips: int = 0
    odd_ys: bool = False
    """Of rotations: with the same flips, and both with an even or both with an odd number of Ys, they are one pass."""
    is_simple: bool = False
    """Of one qubit: each entry is real or imaginary."""


def pass_of(operation: Operation) -> Pass:
    """What an operation is; ``as_matrices`` has a form of all that are not apart."""
    kind, controls = operation.kind, operation.controls
    if kind in ("diagonal", "swap") or (kind == "flip" and len(controls) <= 1):
        return Pass(PASSES.index("apart" if operation.wide else "shared"))
    if kind not in ("dense", "rotation") or (kind == "dense" and len(controls) > 1):
        return Pass(PASSES.index("apart"))
    if kind == "rotation" and operation.sign not in (1, -1):
        return Pass(PASSES.index("apart"))
    if kind == "dense" and operation.all.bit_count() == 1:
        return Pass(PASSES.index("alone"), is_simple=_is_simple(operation))
    if controls:
        known = kind == "rotation" or operation.matrix is not None or (operation.gate and operation.gate.pauli)
        return Pass(PASSES.index("controlled" if known else "apart"))
    rotation = as_rotation(operation)
    if rotation is None:
        return Pass(PASSES.index("matrix"))
    return Pass(PASSES.index("rotation"), rotation.mixes, rotation.letters.count("Y") % 2 == 1)


def _worth_joining(operations: Sequence[Operation], close: int) -> list[list[int]]:
    """The numbers of each run's operations, in order."""
    kinds, flips, odd_ys, simple = zip(*map(pass_of, operations)) if operations else ((), (), (), ())
    return kernels.pair_runs(
        np.array([o.all for o in operations], np.uint64),
        np.array(kinds, np.int32),
        np.array(flips, np.uint64),
        list(odd_ys),
        list(simple),
        close,
    )


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
