"""Branches: many runs of a circuit that measures before its end, of which those with the same outcomes are one run."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qdist.state.measuring.measure import Outcomes, drawn_from

__all__ = ["Branches"]

_STEP = 0x9E3779B97F4A7C15
"""Keys of random numbers are so far apart from one outcome to the next."""


class Branches(Outcomes):
    """So many runs. Where their outcomes differ, those that had the first one go on, and the others wait: the circuit
    runs again for them, and is told the outcomes that they have had so far.

    ``while branches.begin():`` a run, in the place of whose seed this is; ``members`` are then the numbers of the runs
    that it stands for.
    """

    def __init__(self, runs: int, rng: np.random.Generator) -> None:
        self._key = int(rng.integers(1 << 63))
        self._waiting: list[tuple[list[int], NDArray[np.int64]]] = [([], np.arange(runs))] if runs else []
        self._told: list[int] = []
        self._found: list[int] = []
        self.members = np.zeros(0, np.int64)

    def begin(self) -> bool:
        """Whether there is a run to do."""
        if not self._waiting:
            return False
        self._told, self.members = self._waiting.pop()
        self._found = []
        return True

    def outcome(self, weights: NDArray[np.float64]) -> int:
        step = len(self._found)
        if step < len(self._told):
            value = self._told[step]
        else:
            key = (self._key + step * _STEP) % (1 << 63)
            values = drawn_from(weights, self.members, key)
            value, *others = sorted(set(values.tolist()))
            if others:
                self._waiting += [([*self._found, other], self.members[values == other]) for other in reversed(others)]
                self.members = self.members[values == value]
        self._found.append(value)
        return value
