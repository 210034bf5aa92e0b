"""One-qubit matrices as a rotation between phases.

U(theta, phi, lam) = P(phi) RY(theta) P(lam), with P(x) = diag(1, exp(ix)). The rotation takes a quarter of the matrix's
arithmetic (native/src/tile/givens.hpp), and all phases of a layer are one block, however many they are: that of the CZ,
CP or RZZ gates beside, if there are any. Next to another matrix, of one qubit or of two, which takes it in, much would
be lost.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from qdist.circuit.data_gates import unitary_gate
from qdist.circuit.gates import GATES
from qdist.circuit.pauli.text import qubits_of
from qdist.plan.operations import Affine, Operation, as_rotation, gate_operation

__all__ = ["as_rotations", "takes_in", "with_phases_apart"]

_ROUNDING = 1e-12


def with_phases_apart(operations: Sequence[Operation], joins_phases: bool) -> list[Operation]:
    """The same operations, those of one qubit divided but beside a matrix that takes them in. joins_phases: as for
    ``takes_in``."""
    on: defaultdict[int, list[int]] = defaultdict(list)
    place: list[dict[int, int]] = []
    for k, operation in enumerate(operations):
        place.append({q: len(on[q]) for q in qubits_of(operation.all)})
        for q in place[k]:
            on[q].append(k)
    result: list[Operation] = []
    for k, operation in enumerate(operations):
        divided = _divided(operation)
        if divided is None:
            result.append(operation)
            continue
        (q,) = operation.targets
        beside = [_next(operations, on[q], place[k][q], step) for step in (-1, 1)]
        result += [operation] if any(o is not None and takes_in(o, joins_phases) for o in beside) else divided()
    return result


def as_rotations(operation: Operation) -> list[Operation]:
    """A matrix of one qubit as a rotation between phases; itself where it is a rotation or something else."""
    divided = _divided(operation)
    return [operation] if divided is None else divided()


def _next(operations: Sequence[Operation], on: list[int], at: int, step: int) -> Operation | None:
    """The next operation on a qubit but for phases of that qubit alone."""
    at += step
    while 0 <= at < len(on):
        found = operations[on[at]]
        if found.kind != "diagonal" or found.all.bit_count() > 1:
            return found
        at += step
    return None


def takes_in(operation: Operation, joins_phases: bool) -> bool:
    """Whether a matrix on one of its qubits becomes part of it. joins_phases: whether the target joins phases with
    matrices, where RXX, RYY and the like are matrices too."""
    return operation.kind == "dense" and not operation.controls and (joins_phases or as_rotation(operation) is None)


def _divided(operation: Operation) -> Callable[[], list[Operation]] | None:
    """What makes the parts of a matrix of one qubit with complex entries; None for other operations."""
    if operation.kind != "dense" or operation.controls or len(operation.targets) != 1 or operation.gate is None:
        return None
    name = operation.gate.name
    if operation.changes_norm:
        return None
    if operation.matrix is None:
        return (lambda: list(_FORMULAS[name](operation))) if name in _FORMULAS else None
    return None if operation.gate.is_pure else lambda: list(_constant(operation))


def _u(operation: Operation) -> Iterator[Operation]:
    theta, phi, lam = operation.slots
    yield _phase(operation, (0.0, ((lam, 1.0),)))
    yield gate_operation(GATES["ry"], operation.targets, range(theta, theta + 1))
    yield _phase(operation, (0.0, ((phi, 1.0),)))


def _u2(operation: Operation) -> Iterator[Operation]:
    phi, lam = operation.slots
    yield _phase(operation, (0.0, ((lam, 1.0),)))
    yield _turned(operation, np.sqrt(0.5), np.sqrt(0.5))
    yield _phase(operation, (0.0, ((phi, 1.0),)))


def _r(operation: Operation) -> Iterator[Operation]:
    theta, phi = operation.slots
    yield _phase(operation, (0.0, ((phi, -1.0),)))
    yield gate_operation(GATES["rx"], operation.targets, range(theta, theta + 1))
    yield _phase(operation, (0.0, ((phi, 1.0),)))


_FORMULAS: dict[str, Callable[[Operation], Iterator[Operation]]] = {"u": _u, "u2": _u2, "r": _r}


def _constant(operation: Operation) -> Iterator[Operation]:
    """exp(ia) P(phi) RY P(lam), if it is unitary and mixes anything."""
    (zero, one), (other, last) = np.asarray(operation.matrix)
    cosine, sine = abs(zero), abs(other)
    if min(cosine, sine) < _ROUNDING:
        yield operation
        return
    common, phi, lam = np.angle(zero), np.angle(other / zero), np.angle(-one / zero)
    if abs(np.exp(1j * (common + phi + lam)) * cosine - last) > _ROUNDING:
        yield operation
        return
    yield _phase(operation, (float(lam), ()))
    yield _turned(operation, cosine, sine)
    last = _phase(operation, (float(phi), ()))
    last.terms.append(((), (float(common), ())))
    yield last


def _turned(operation: Operation, cosine: float, sine: float) -> Operation:
    return gate_operation(unitary_gate([[cosine, -sine], [sine, cosine]]), operation.targets, range(0))


def _phase(operation: Operation, angle: Affine) -> Operation:
    return Operation("diagonal", 0, 0, operation.mixes, terms=[(operation.targets, angle)])
