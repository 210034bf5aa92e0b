"""4x4 matrices passed as kernel arguments: those of phases that have nothing else, one a pair of register bits at most.

Arguments are in the constant bank, so that each number is an operand of its own and takes no register. Slot 2 p holds
the numbers of phase p's first pair of register bits, slot 2 p + 1 those of another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.lowering.records.tiles import FOURS
from qdist.backends.in_tile import dense_targets
from qdist.backends.pairs import Form
from qdist.plan.fuse import Block

__all__ = ["FourPlaces", "flags_of", "is_alone", "slots_of"]

_FLAGS = {Form.PAIR: 1, Form.WHOLE: 8, Form.EXCHANGE: 64}
_NUMBERS = 32
"""Of a 4x4 matrix; pairs have fewer (backends/pairs.py)."""


def is_alone(blocks: Sequence[Block]) -> bool:
    """Whether a phase's blocks are such operations: uncontrolled matrices on two qubits each, no two on the same."""
    fours = [block for block in blocks if block.is_plain_dense and not block.keeps_parity]
    qubits = [dense_targets(block) for block in fours]
    disjoint = len({q for two in qubits for q in two}) == 2 * len(blocks)
    return bool(blocks) and disjoint and all(len(two) == 2 for two in qubits)


def slots_of(phase: int, ops: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """(slot, place in reals) of a phase's operations, given (the pair of register bits, the place in reals) of each."""
    return [(2 * phase + (pair > 0), at) for pair, at in ops]


def flags_of(ops: Sequence[tuple[int, Form]]) -> int:
    """What the kernel is told of a phase, given (the pair of register bits, what became of the matrix) of each."""
    return sum(_FLAGS[form] << pair for pair, form in ops)


@cache
def _none(real_bytes: int) -> NDArray[Any]:
    """Of a stage without such matrices."""
    return np.zeros((), FOURS.dtype_of(real_bytes))


class FourPlaces:
    """Where the matrices of a stage are: (slot, place in reals) of each."""

    def __init__(self, slots: Sequence[tuple[int, int]]) -> None:
        self._slots = np.array([slot for slot, _ in slots], np.int64)
        self._at = np.array([at for _, at in slots], np.int64)[:, None] + np.arange(_NUMBERS)

    def record(self, reals: NDArray[Any]) -> tuple[bool, NDArray[Any]]:
        """Whether all rows of ``reals`` have the same matrices, and those of the first row as the kernel takes them (a
        Fours)."""
        if not len(self._slots):
            return True, _none(reals.itemsize)
        numbers = np.zeros((), FOURS.dtype_of(reals.itemsize))
        first = reals[0, self._at]
        numbers["of"][self._slots] = first.view(numbers["of"].dtype)
        return len(reals) == 1 or bool((reals[:, self._at] == first).all()), numbers
