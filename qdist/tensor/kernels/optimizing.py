"""Steps of optimisers in one pass over parameters, gradients and state."""

from __future__ import annotations

import numpy as np

from qdist.native import kernels

from ..arrays import Array
from ..threads import over_rows

__all__ = ["adam_step"]


def adam_step(
    p: Array,
    g: Array,
    m: Array,
    v: Array,
    *,
    betas: tuple[float, float],
    root_scale: float,
    eps: float,
    rate: float,
    keep: float = 1.0,
    decay: float = 0.0,
) -> None:
    """Adam's averages m of g + decay p and v of its square brought up to date, and then
    p = keep p - rate m / (root_scale sqrt(v) + eps): flat NumPy arrays, all of float32 or all of float64."""

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        kernels.adam(p[part], g[part], m[part], v[part], *betas, root_scale, eps, rate, keep, decay)

    over_rows(np, work, p.size, 1)
