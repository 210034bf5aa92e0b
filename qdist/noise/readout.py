"""What is read where readout has errors: observables as they are found on average."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import PauliString, PauliSum

__all__ = ["as_read"]


def as_read(observable: PauliSum, flips: NDArray[np.float64] | None) -> PauliSum:
    """The observable whose exact value is the mean of what is read of the given one, string by string.

    A bit that shows 1 for 0 with probability u and 0 for 1 with d turns P into (1 - u - d) P + (d - u).
    """
    if flips is None:
        return observable
    found: dict[tuple[int, int], complex] = {}
    for string, coefficient in observable:
        parts = {(string.x, string.z): complex(coefficient)}
        qubits = string.x | string.z
        while qubits:
            low = qubits & -qubits
            qubits ^= low
            up, down = flips[low.bit_length() - 1]
            grown: dict[tuple[int, int], complex] = {}
            for (x, z), weight in parts.items():
                grown[x, z] = grown.get((x, z), 0) + (1 - up - down) * weight
                if down != up:
                    rest = x & ~low, z & ~low
                    grown[rest] = grown.get(rest, 0) + (down - up) * weight
            parts = grown
        for key, weight in parts.items():
            found[key] = found.get(key, 0) + weight
    return PauliSum([(PauliString.from_masks(x, z), weight) for (x, z), weight in found.items()])
