"""Steps of optimisers in one pass over gradients and state."""

from __future__ import annotations

from typing import Any

import numpy as np

from qdist.native import kernels

from ..arrays import FLOAT32, FLOAT64, Array

__all__ = ["adam_step"]


def adam_step(
    xp: Any,
    g: Array,
    m: Array,
    v: Array,
    beta1: float,
    beta2: float,
    root_scale: float,
    eps: float,
    rate: float,
) -> bool:
    """Adam's averages m of g and v of g^2 brought up to date, and g = rate m / (root_scale sqrt(v) + eps).

    Returns:
        Whether it was done: for flat NumPy arrays of float32 and float64. Else nothing is changed.
    """
    if xp is not np or g.dtype not in (FLOAT32, FLOAT64) or not all(a.dtype == g.dtype for a in (m, v)):
        return False
    kernels.adam(g, m, v, beta1, beta2, root_scale, eps, rate)
    return True
