"""Functions of tensors under Paddle's argument names."""

from __future__ import annotations

from typing import Any

from ...nn import deferred as LazyGuard  # noqa: N812 - Paddle's name
from ...tensor import Tensor, functional, no_grad
from .static import named

__all__ = ["LazyGuard", "matmul", "mean", "no_grad", "to_tensor"]


def to_tensor(data: Any, dtype: Any = None, stop_gradient: bool = True) -> Tensor:
    """Numbers or an array as a Tensor; it gets a gradient if stop_gradient is False."""
    return Tensor(data, not stop_gradient, dtype=dtype)


def mean(x: Tensor, axis: Any = None, keepdim: bool = False) -> Tensor:
    """The mean along an axis or a list of them, or of all elements."""
    return named(x.mean(axis, keepdim), "mean")


def matmul(x: Any, y: Any, transpose_x: bool = False, transpose_y: bool = False) -> Tensor:
    """The matrix product over the last two axes."""
    left, right = (functional.as_tensor(t) for t in (x, y))
    left = left.swapaxes(-1, -2) if transpose_x else left
    right = right.swapaxes(-1, -2) if transpose_y else right
    return named(functional.matmul(left, right), "matmul")
