"""Random numbers of trajectories."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Numbers", "chosen_jumps", "sampled"]

_AT_ONCE = 6


class Numbers:
    """Each trajectory has a sequence of its own, so that the order in which they run changes nothing."""

    def __init__(self, shots: int, rng: np.random.Generator) -> None:
        self.key = int(rng.integers(1 << 62))
        self._first = rng.random((shots, _AT_ONCE))
        self._used = np.zeros(shots, np.int64)
        self._more: dict[int, np.random.Generator] = {}

    def __len__(self) -> int:
        return len(self._used)

    def draw(self, members: NDArray[np.int64]) -> NDArray[np.float64]:
        """The next number of each of these trajectories."""
        used = self._used[members]
        self._used[members] += 1
        found = self._first[members, np.minimum(used, _AT_ONCE - 1)]
        for k in np.flatnonzero(used >= _AT_ONCE):
            member = int(members[k])
            if member not in self._more:
                self._more[member] = np.random.default_rng([self.key, member])
            found[k] = self._more[member].random()
        return found


def chosen_jumps(weights: NDArray[np.float64], numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """Which operator jumps, 1 or more, for each number between 0 and 1. weights: of all operators, (numbers,
    operators); the first is no jump."""
    sums = np.cumsum(weights[:, 1:], axis=1)
    below = sums < numbers[:, None] * sums[:, -1:]
    return 1 + np.minimum(below.sum(axis=1), weights.shape[1] - 2)


def sampled(
    states: NDArray[np.complexfloating], row: NDArray[np.int64], number: NDArray[np.float64]
) -> NDArray[np.int64]:
    """A basis state for each number between 0 and 1, from the state of its row."""
    weights = states.real.astype(np.float64) ** 2 + states.imag.astype(np.float64) ** 2
    sums = np.cumsum(weights, axis=1)
    sums /= sums[:, -1:]
    # One search in all rows: row k has the numbers from k to k + 1.
    flat = (sums + np.arange(len(sums))[:, None]).ravel()
    places = np.searchsorted(flat, number + row, side="right") - row * states.shape[1]
    return np.clip(places, 0, states.shape[1] - 1)
