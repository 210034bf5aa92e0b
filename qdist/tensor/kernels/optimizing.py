"""Steps of optimisers in one pass over parameters, gradients and state."""

from __future__ import annotations

from qdist.native import kernels

from ..arrays import Array
from ..threads import num_threads

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
    kernels.adam(p, g, m, v, *betas, root_scale, eps, rate, keep, decay, num_threads())
