"""The records of a row program: a circuit for the rows of a batch as arrays, the same for every device.

A state of n qubits is 2**(n + 1) real numbers: number s is the real part of the amplitude with stored index s, number
s + 2**n its imaginary part (bit n is the plane). Stored indices differ from logical ones by an affine map over GF(2),
in which X, CX and SWAP are absorbed: the amplitude of logical index l is stored at ``logical[0]``, XOR ``logical[1 +
q]`` for each qubit q that is 1 in l.

A run of a row has a start and operations, in order:

- Start: qubit b of the stored index is in |0>, and turned by its factors one after the other; the state is their
  product.
- Group of rotations (kind 0): 1 to 3 Pauli rotations exp(-i theta/2 P), one after the other. On the real numbers -i P
  is a signed permutation J, which takes number i to number i ^ direction, times (-1)**parity(i & functional). So every
  pair (a, b) = (x[i], x[i ^ direction]), where i has even parity, becomes (c a - s b, c b + s a) with c = cos(theta/2)
  and s = sin(theta/2). The derivative of 2 Re <bra|ket> by theta is the sum over pairs of bra[b] ket[a] - bra[a]
  ket[b], after the rotation. The directions of a group are independent. Its walk has one step for each set of numbers
  that the group mixes (those at step ^ any XOR of directions), and along a walk no parity changes: the sign of a pair
  depends on its place in the set alone.
- Diagonal (kind 1): amplitude s is multiplied by exp(-i/2 sum of theta (-1)**parity(s & mask)) over its terms, whose
  angles are the same for all rows. The derivative by theta is the sum over s of (-1)**parity(s & mask)
  Im(conj(bra[s]) ket[s]).
- Matrix (kind 2): a constant matrix on 1 to 4 targets: bit k of its index is ``targets[k]``, XORed to the stored index.
  Its walk has one step for each set of amplitudes that it mixes.

A walk is an affine subspace of indices: step g is ``base`` XOR those columns whose bit in g is 1. Walks are those of
the groups and matrices, in order.

Slots are the circuit's angles: slot k is slot_constants[k] + sum of coefficient * parameter over its entries, modulo
4 pi, however large the parameters are. Angle a of an operation is constants[a] + sum of coefficient * slot over its
entries: gates have the period 4 pi in their slots, though not every angle that they are made of has. Parameters below
``per_row`` are given for every row, the others once for all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.plan.rows.frame import Frame

__all__ = ["DIAGONAL", "GROUP", "MATRIX", "MOST_ROTATIONS", "RowRecords"]

GROUP, DIAGONAL, MATRIX = range(3)
"""Kinds of operations."""
MOST_ROTATIONS = 3
"""Of a group."""

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowRecords:
    """One circuit. Integers are int64, one record a row."""

    num_qubits: int
    per_row: int
    """Parameters that every row has for itself."""
    num_shared: int
    """Parameters that all rows share: numbers per_row, per_row + 1, ..."""
    slot_constants: NDArray[np.float64]
    slot_entries: Integers
    """(slot, parameter)"""
    slot_coefficients: NDArray[np.float64]
    """One an entry."""
    constants: NDArray[np.float64]
    entries: Integers
    """(angle, slot)"""
    coefficients: NDArray[np.float64]
    """One an entry."""
    start: Integers
    """(bit, axis: 0, 1 or 2 for X, Y or Z, angle)"""
    operations: Integers
    """(kind, first, count) of rotations, terms or targets"""
    rotations: Integers
    """(direction, functional, angle)"""
    terms: Integers
    """(mask, angle)"""
    targets: Integers
    matrices: NDArray[np.complex128]
    """4**count numbers of each matrix, row by row, one matrix behind the other."""
    walks: Integers
    """base, and the number of its first column in ``columns``, of each walk in turn"""
    columns: Integers
    logical: Integers
    """base and one column a qubit"""
    phase: int
    """The angle theta of the global phase exp(-i theta/2), which only whole states show; -1 if there is none."""
    frame: Frame
    """The last one: for outputs."""

    def arguments(self) -> tuple[Any, ...]:
        """What native.kernels.RowProgram64 and RowProgram128 are made of."""
        return (
            self.num_qubits,
            self.per_row,
            self.num_shared,
            self.slot_constants,
            self.slot_entries,
            self.slot_coefficients,
            self.constants,
            self.entries,
            self.coefficients,
            self.start,
            self.operations,
            self.rotations,
            self.terms,
            self.targets,
            self.matrices,
            self.walks,
            self.columns,
            self.logical,
            self.phase,
        )
