"""Shots: how often each outcome came."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from qdist.state.measuring.pictures import Counts

__all__ = ["tally"]

_CHARACTERS = 1 << 24
"""Of the bit strings that are made at a time."""


def tally(
    samples: NDArray[np.int64],
    sources: Mapping[int, int],
    width: int,
    outcomes: Mapping[int, NDArray[np.bool_]] | None = None,
) -> Counts:
    """How often each setting of classical bits came, as bit strings, highest bit first, in their order.

    Args:
        samples: basis states, bit q for qubit q.
        sources: {classical bit: the qubit that it shows}; other classical bits are 0.
        width: how many classical bits there are. It may be any number.
        outcomes: {classical bit: its value with each sample}, of bits that show no qubit.
    """
    mask = sum(1 << qubit for qubit in set(sources.values()))
    others = {} if outcomes is None else outcomes
    if others:
        table = np.stack([samples & mask, *(bits.astype(np.int64) for bits in others.values())], axis=1)
        rows_found, times = np.unique(table, axis=0, return_counts=True)
        values, shown = rows_found[:, 0], dict(zip(others, rows_found[:, 1:].T))
    else:
        (values, times), shown = np.unique(samples & mask, return_counts=True), {}
    counts: dict[str, int] = {}
    # Different values are different bit strings, so that only those are written out.
    rows = max(1, _CHARACTERS // max(1, width))
    for start in range(0, len(values), rows):
        some = values[start : start + rows]
        text = np.full((len(some), width), ord("0"), np.uint8)
        for clbit, qubit in sources.items():
            text[:, width - 1 - clbit] += (some >> qubit & 1).astype(np.uint8)
        for clbit, bits in shown.items():
            text[:, width - 1 - clbit] += bits[start : start + rows].astype(np.uint8)
        strings = (row.tobytes().decode() for row in text)
        counts.update(zip(strings, times[start : start + rows].tolist()))
    return Counts(sorted(counts.items()))
