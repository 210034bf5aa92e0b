"""Which positions of a sequence are here."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..tensor import random

__all__ = ["positions"]


def positions(length: int) -> NDArray[np.int64]:
    """The numbers, in the whole sequence, of the `length` positions that the model is given: 0 ... length - 1, or this
    rank's where ranks divide the sequence (the axis "cp" of a mesh). For position code of one's own: what takes
    ``nn.positions(x.shape[1])`` instead of ``np.arange(x.shape[1])`` is right on every mesh.

    Raises ValueError for a length that is not that of the divided sequence.
    """
    place = random.place()
    if place is None or place.positions is None:
        return np.arange(length)
    if len(place.positions) != length:
        raise ValueError(
            f"positions({length}): the model's input has {len(place.positions)} positions here, and those are what it "
            "asks for; to slices of it, as sequence_parallel makes them, add a table that Plan(positions=...) names"
        )
    place.asked_for_positions = True
    return place.positions.copy()
