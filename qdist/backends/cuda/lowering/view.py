"""Where qubits are, seen from a thread in a phase: its registers, its own number, or outside the tile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.lowering.phases import Phase, TilePhases

__all__ = ["View", "span"]

Conditions = Iterable[tuple[int, int]]


class View:
    """Where a thread finds them. first_op: the first operation of the phase; alone: whether all are 4x4 matrices."""

    def __init__(self, tile: TilePhases, phase: Phase, first_op: int, alone: bool) -> None:
        self.first_op, self.alone = first_op, alone
        self.phase, self.bit = phase, tile.bit
        places = {b: q for q, b in tile.bit.items()}
        self.registers = phase.registers
        self.register = {places[b]: k for k, b in enumerate(phase.registers) if b in places}
        self.lane = {places[b]: k for k, b in enumerate(phase.lanes) if b in places}
        self.everything = (1 << (1 << len(phase.registers))) - 1

    def split(self, conditions: Conditions) -> tuple[int, tuple[int, int], tuple[int, int]]:
        """(threads, registers, far): mask | value << 16 of the thread's number, (mask, value) of the others."""
        lanes = register_mask = register_value = far_mask = far_value = 0
        for qubit, value in conditions:
            if qubit in self.register:
                register_mask |= 1 << self.register[qubit]
                register_value |= value << self.register[qubit]
            elif qubit in self.lane:
                lanes |= (1 | value << 16) << self.lane[qubit]
            else:
                far_mask |= 1 << qubit
                far_value |= value << qubit
        return lanes, (register_mask, register_value), (far_mask, far_value)

    def predicate(self, register: tuple[int, int]) -> int:
        """The register mask of a condition, a bit for each of a thread's amplitudes: whether it meets (mask, value)."""
        mask, value = register
        return sum(1 << k for k in range(1 << len(self.registers)) if k & mask == value)

    def where(self, conditions: Conditions) -> tuple[int, int, tuple[int, int]]:
        threads, register, far = self.split(conditions)
        return threads, self.predicate(register), far


def span(columns: Sequence[int], constant: int, dtype: Any) -> NDArray[Any]:
    """constant ^ the XOR of the columns of each index's bits, for all indices."""
    result = np.array([constant], dtype)
    for column in columns:
        result = np.concatenate([result, result ^ np.array(column, dtype)])
    return result
