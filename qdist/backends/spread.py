"""How far a circuit takes |0...0> away from single basis states, told by its angles alone.

A basis state is followed through the blocks of a plan, each of which takes it to the basis state that is then the most
probable. The product of these probabilities is that of the most probable path, which is near 1 where the final state
is mostly one amplitude, as where all angles are small or all are near pi, and falls with every gate that is neither. No
amplitudes are computed: a matrix a block, and a column of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from qdist.backends.in_tile import dense_targets, factors_of
from qdist.native import kernels
from qdist.plan.operations import Operation
from qdist.plan.plan import Plan

__all__ = ["Spread"]


class Spread:
    """Of a plan from |0...0> on one shard, whose blocks ``plan.precision.can_follow``. For one thread at a time."""

    def __init__(self, plan: Plan) -> None:
        self._matrices = kernels.MatrixList()
        self._steps: list[tuple[list[int], int] | Operation] = []
        """Of matrices their qubits, and the place of their first entry."""
        for block in plan.blocks:
            if block.kind == "dense":
                targets = dense_targets(block)
                self._steps.append((targets, self._matrices.size))
                self._matrices.add(len(targets), factors_of(block, targets))
            elif block.kind == "linear":
                self._steps += block.operations
        self._entries = np.empty(self._matrices.size, np.complex128)

    def probability(self, angles: NDArray[np.float64], least: float = 0.0) -> float:
        """Of the most probable path, for the circuit's angles; or a number below ``least``, if it is smaller than
        that."""
        self._matrices.at(angles, self._entries)
        probabilities: list[float] = (self._entries.real**2 + self._entries.imag**2).tolist()
        state, product = 0, 1.0
        for step in self._steps:
            if isinstance(step, Operation):
                state = _moved(state, step)
                continue
            targets, first = step
            size, setting = 1 << len(targets), _setting(state, targets)
            column = probabilities[first + setting : first + size * size : size]
            largest = max(column)
            product *= largest
            if product < least:
                break
            changed = setting ^ column.index(largest)
            for k, qubit in enumerate(targets):
                state ^= (changed >> k & 1) << qubit
        return product


def _setting(state: int, qubits: Sequence[int]) -> int:
    return sum((state >> qubit & 1) << k for k, qubit in enumerate(qubits))


def _moved(state: int, operation: Operation) -> int:
    """The basis state after X, CX or SWAP."""
    if operation.kind == "swap":
        a, b = operation.targets
        return state ^ ((1 << a | 1 << b) if (state >> a ^ state >> b) & 1 else 0)
    if all(state >> qubit & 1 == value for qubit, value in operation.controls):
        for qubit in operation.targets:
            state ^= 1 << qubit
    return state
