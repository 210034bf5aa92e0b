"""PennyLane's observables as sums of Pauli strings, or as matrices where there would be too many of those."""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Hashable, Mapping
from functools import reduce
from operator import add, matmul
from typing import Any, TypeAlias

import numpy as np
import pennylane as qml
from pennylane.operation import Operator
from pennylane.ops import Adjoint, Prod, SProd, Sum

from qdist.circuit import PauliSum
from qdist.state.outputs import Expectation, Output, Variance
from qdist.state.recent import Recent

from .outputs import MatrixExpectation, MatrixVariance

__all__ = ["expectation", "pauli_sum", "variance"]

Place: TypeAlias = Mapping[Any, int]

_MOST_DENSE = 5
"""A matrix of k qubits is a sum of up to 4^k Pauli strings."""
_MOST_PROJECTED = 10
"""A projector on a basis state of k qubits is a sum of 2^k."""

_Kept: TypeAlias = Recent[tuple[Any, PauliSum | None]]

_sums: _Kept = Recent(64)
"""Observables that were measured: their Hermitian parts."""
_operands: _Kept = Recent(64)
"""What scalars multiply: all of it, as i times what is not Hermitian, such as a commutator, may be."""


def expectation(observable: Operator, place: Place) -> Output:
    """The output that is its expectation value: an Expectation, or a MatrixExpectation."""
    found = pauli_sum(observable, place)
    return MatrixExpectation(_matrix(observable, place)) if found is None else Expectation(found)


def variance(observable: Operator, place: Place) -> Output:
    """The output that is its variance: a Variance, or a MatrixVariance."""
    found = pauli_sum(observable, place)
    return MatrixVariance(_matrix(observable, place)) if found is None else Variance(found)


def pauli_sum(observable: Operator, place: Place) -> PauliSum | None:
    """The observable on the qubits of its wires; None where that would take too many strings.

    Of an operator that is not Hermitian it is the Hermitian part, whose expectation value is the real part of its own.
    """
    return _found(_sums, observable, place, _hermitian_part)


def _found(
    kept: _Kept, observable: Operator, place: Place, made: Callable[[Operator, Place], PauliSum | None]
) -> PauliSum | None:
    """What is made of an observable, found again as long as the observable lives."""
    key: Hashable = (id(observable), tuple(place.items()))
    last = kept.get(key)
    if last is not None and last[0]() is observable:
        return last[1]
    found = made(observable, place)
    kept.put(key, (weakref.ref(observable), found))
    return found


def _hermitian_part(observable: Operator, place: Place) -> PauliSum | None:
    found = _made(observable, place)
    return None if found is None else PauliSum.from_masks(found.x, found.z, found.coefficients.real).simplify(0)


def _simplified(observable: Operator, place: Place) -> PauliSum | None:
    found = _made(observable, place)
    return None if found is None else found.simplify(0)


def _made(observable: Operator, place: Place) -> PauliSum | None:
    if observable.pauli_rep is not None:
        return _of_sentence(observable.pauli_rep, place)
    wires = observable.wires
    if isinstance(observable, SProd):
        base = _found(_operands, observable.base, place, _simplified)
        return None if base is None else complex(observable.scalar) * base
    if isinstance(observable, Sum | Prod):
        made = [_made(operand, place) for operand in observable.operands]
        parts = [part for part in made if part is not None]
        if len(parts) < len(made):
            return None
        if isinstance(observable, Sum):
            return reduce(add, parts)
        terms = math.prod([len(part) for part in parts])
        return reduce(matmul, parts) if terms <= 1 << 2 * _MOST_DENSE else None
    if isinstance(observable, Adjoint):
        base = _made(observable.base, place)
        return None if base is None else base.adjoint()
    if isinstance(observable, qml.Hadamard):
        bit = 1 << place[wires[0]]
        return PauliSum.from_masks([bit, 0], [0, bit], [math.sqrt(0.5)] * 2)
    if isinstance(observable, qml.ops.qubit.observables.BasisStateProjector) and len(wires) <= _MOST_PROJECTED:
        return _of_basis_projector(observable, place)
    if isinstance(observable, qml.SparseHamiltonian) or len(wires) > _MOST_DENSE:
        return None
    matrix = np.asarray(qml.math.unwrap([observable.matrix()])[0])
    return PauliSum.from_matrix(matrix, [place[wire] for wire in reversed(wires)])


def _of_sentence(sentence: Any, place: Place) -> PauliSum:
    x, z, coefficients = [], [], []
    for word, coefficient in sentence.items():
        flips = phases = 0
        for wire, letter in word.items():
            bit = 1 << place[wire]
            flips |= bit if letter != "Z" else 0
            phases |= bit if letter != "X" else 0
        x.append(flips)
        z.append(phases)
        coefficients.append(complex(coefficient))
    return PauliSum.from_masks(x, z, coefficients)


def _of_basis_projector(observable: Operator, place: Place) -> PauliSum:
    """The product of (1 + Z)/2 where the bit is 0 and (1 - Z)/2 where it is 1."""
    strings, signs = np.zeros(1, np.uint64), np.ones(1)
    for wire, bit in zip(observable.wires, np.asarray(observable.data[0]).astype(int)):
        strings = np.concatenate([strings, strings | np.uint64(1 << place[wire])])
        signs = np.concatenate([signs, signs * (-1 if bit else 1)])
    return PauliSum.from_masks(np.zeros_like(strings), strings, signs / len(signs))


def _matrix(observable: Operator, place: Place) -> Any:
    """The matrix on all qubits, its Hermitian part as in ``pauli_sum``, sparse where PennyLane can make it so; the
    first wire of a tape is the highest bit."""
    order = sorted(place, key=lambda wire: -place[wire])
    if observable.has_sparse_matrix:
        matrix = observable.sparse_matrix(wire_order=order)
    else:
        matrix = np.asarray(qml.math.unwrap([observable.matrix(wire_order=order)])[0])
    return (matrix + matrix.conj().T) / 2
