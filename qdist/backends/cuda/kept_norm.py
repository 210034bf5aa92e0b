"""The norm of a shard, which no gates on it change: they are unitary on every shard by itself.

In complex64 the rounding errors of many stages change it a little. So it is measured before them and brought back after
them, where that is little work beside the stages.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from qdist.backends.cuda.kernels import project, squared_norm

__all__ = ["STAGES", "KeptNorm"]

STAGES = 64
"""Measuring twice and scaling cost as much as two stages: after so many of them it is worth it."""


class KeptNorm:
    """Brings a shard (CuPy) back to the norm that it has now; a complex128 shard is left alone."""

    def __init__(self, shard: Any) -> None:
        self._shard, self._squared = shard, squared_norm(shard) if shard.dtype == np.complex64 else 0.0

    def restore(self) -> None:
        if not self._squared > 0:
            return
        factor = math.sqrt(self._squared / squared_norm(self._shard))
        # A smaller change rounds to nothing.
        if abs(factor - 1) > 2.0**-25:
            project(self._shard, 0, 0, 0, factor)
