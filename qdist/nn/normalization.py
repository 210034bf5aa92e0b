"""Norms besides the layer norm: by the root mean square, and of every channel over a batch of sequences."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..tensor import Tensor, functional
from ..tensor.arrays import as_dtype
from .layers import BatchNorm2d
from .module import Module, Parameter

__all__ = ["BatchNorm1d", "RMSNorm"]


class RMSNorm(Module):
    """Divide the last axes, of the given shape, by their root mean square, then scale."""

    def __init__(self, shape: int | tuple[int, ...], eps: float = 1e-6, dtype: Any = np.float32) -> None:
        super().__init__()
        self.shape = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
        self.eps = eps
        self.weight = Parameter(np.ones(self.shape, as_dtype(dtype)))

    def forward(self, x: Tensor) -> Tensor:
        return functional.rms_norm(x, self.shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.shape}, eps={self.eps}"


class BatchNorm1d(BatchNorm2d):
    """Normalise each channel of (n, channels) or (n, channels, length) by the batch's statistics; running ones in eval
    mode."""

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim not in (2, 3) or x.shape[1] != self.channels:
            raise ValueError(f"BatchNorm1d takes (n, {self.channels}) or (n, {self.channels}, length), got {x.shape}")
        return super().forward(x.reshape(*x.shape, *(1,) * (4 - x.ndim))).reshape(x.shape)
