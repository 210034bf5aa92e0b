"""What operations are on the bits of a tile: the same for every backend that works on tiles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.circuit.gate import FORMULAS
from qdist.circuit.gates import GATES
from qdist.native import kernels
from qdist.plan.fuse import Block
from qdist.plan.operations import Operation
from qdist.plan.rewrites.pairs import as_matrices

__all__ = [
    "Factors",
    "condition_masks",
    "constant_matrix",
    "dense_targets",
    "factors_of",
    "pauli_masks",
    "permutation_source",
    "reordered",
]

Factors = list[tuple[int, list[int], list[int], list[complex]]]
"""(formula, angle slots, bits of the product, constant matrix)"""


def dense_targets(block: Block) -> list[int]:
    """The qubits of a dense block, the matrix's lowest bit first."""
    targets: list[int] = []
    for operation in block.operations:
        targets += [q for q in operation.targets if q not in targets]
    return targets


def factors_of(block: Block, targets: Sequence[int]) -> Factors:
    """The matrices whose product is that of a dense block."""
    factors: Factors = []
    for o in (o for whole in block.operations for o in _parts_of(whole)):
        if o.kind == "diagonal":
            factors += _phase_factors(o, targets)
            continue
        if o.kind == "rotation":
            factors.append(_rotation_factor(o, targets))
            continue
        matrix = [] if o.matrix is None else np.asarray(o.matrix).ravel().tolist()
        factors.append((o.formula, list(o.slots), [targets.index(q) for q in o.targets], matrix))
    return factors


def _parts_of(operation: Operation) -> Iterable[Operation]:
    """Matrices and phases whose product it is."""
    if not operation.parts:
        return (operation,)
    return (o for part in operation.parts for o in as_matrices(part))


def constant_matrix(
    factors: Factors, order: Sequence[int], angles: NDArray[np.float64] | None = None
) -> NDArray[np.complex128]:
    """The product of factors at some angles; none for those that have none. Bit k of its index is bit order[k] of
    theirs."""
    matrices = kernels.MatrixList()
    matrices.add(len(order), factors)
    entries = np.empty(matrices.size, np.complex128)
    matrices.at(np.zeros(0) if angles is None else angles, entries)
    return entries[reordered(order)]


def reordered(order: Sequence[int]) -> NDArray[np.int64]:
    """For each entry of a matrix whose index has bit order[k] of another's as bit k: its place in the other."""
    index = np.arange(1 << len(order))
    old = np.zeros_like(index)
    for k, bit in enumerate(order):
        old |= (index >> k & 1) << bit
    return old[:, None] << len(order) | old[None, :]


def _phase_factors(operation: Operation, targets: Sequence[int]) -> Factors:
    """A diagonal operation that became part of a matrix: exp(i t D) for each of its angles t, and a constant."""
    qubits = sorted(q for q in targets if operation.all >> q & 1)
    parts: dict[int | None, NDArray[np.float64]] = {}
    for product, (constant, slots) in operation.terms:
        own = sum(1 << qubits.index(q) for q in set(product))
        there = np.array([index & own == own for index in range(1 << len(qubits))], np.float64)
        for slot, coefficient in ((None, constant), *slots):
            if coefficient:
                parts[slot] = parts.get(slot, 0.0) + coefficient * there
    bits, factors = [targets.index(q) for q in qubits], Factors()
    for slot, phases in parts.items():
        if slot is None:
            factors.append((0, [], bits, np.diag(np.exp(1j * phases)).ravel().tolist()))
        else:
            factors.append((FORMULAS["phases"], [slot], bits, phases.astype(complex).tolist()))
    return factors


def _rotation_factor(operation: Operation, targets: Sequence[int]) -> tuple[int, list[int], list[int], list[complex]]:
    """A Pauli rotation that became part of a matrix, maybe under conditions: exp(-i t/2 G). G is the Pauli string where
    the conditions hold, and 0 elsewhere."""
    generator: Any = np.eye(1, dtype=complex)
    qubits = [q for q, _ in operation.controls]
    for _, value in operation.controls:
        generator = np.kron(np.diag([1 - value, value]), generator)
    for qubit, letter in zip(operation.targets, operation.letters):
        if letter != "I":
            generator = np.kron(GATES[letter.lower()].matrix(), generator)
            qubits.append(qubit)
    numbers = (operation.sign * generator).ravel().tolist()
    return FORMULAS["rotation"], list(operation.slots), [targets.index(q) for q in qubits], numbers


def condition_masks(conditions: Iterable[tuple[int, int]], bit: Mapping[int, int]) -> tuple[int, int, int, int]:
    """(mask, value) of the tile's bits and of the index's outside of the tile, for qubits and the values they must
    have. bit: the tile's bit of each qubit inside."""
    mask = value = far_mask = far_value = 0
    for qubit, v in conditions:
        if qubit in bit:
            mask |= 1 << bit[qubit]
            value |= v << bit[qubit]
        else:
            far_mask |= 1 << qubit
            far_value |= v << qubit
    return mask, value, far_mask, far_value


def pauli_masks(operation: Operation, bit: Mapping[int, int]) -> tuple[int, int, int, int]:
    """Of a Pauli rotation: masks of the tile's bits with X or Y, and with Z or Y; of the index's bits outside of the
    tile with Z; and the number of Ys. bit: the tile's bit of each qubit inside."""
    x = z = far_z = num_y = 0
    for qubit, letter in zip(operation.targets, operation.letters):
        if letter in "XY":
            x |= 1 << bit[qubit]
        if letter in "YZ":
            if qubit in bit:
                z |= 1 << bit[qubit]
            else:
                far_z |= 1 << qubit
        num_y += letter == "Y"
    return x, z, far_z, num_y


def permutation_source(operation: Operation, bit: Mapping[int, int], size: int) -> NDArray[np.int64]:
    """Of a permutation: for each of the 2**size amplitudes of a tile, the one whose value it takes."""
    bits = [bit[q] for q in operation.targets]
    index = np.arange(1 << size)
    small = np.zeros_like(index)
    for k, b in enumerate(bits):
        small |= (index >> b & 1) << k
    found = np.asarray(operation.matrix, np.int64)[small]
    source = index & ~sum(1 << b for b in bits)
    for k, b in enumerate(bits):
        source |= (found >> k & 1) << b
    return source
