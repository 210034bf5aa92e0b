"""QTensor and the few functions on it that VQNet's distributed programs use."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...tensor import Tensor
from .devices import as_device
from .dtypes import as_dtype

__all__ = ["QTensor", "argmax", "broadcast_to", "flatten", "sums", "tensor", "to_tensor", "zeros_like"]

# VQNet's programs write both `from pyvqnet import tensor` and `from pyvqnet.tensor import tensor`.
tensor = sys.modules[__name__]


class QTensor(Tensor):
    """A Tensor that is made and differentiated as VQNet's: backward() starts from ones whatever the shape.

    Args:
        data: an array, a number or nested lists.
        requires_grad: gather a gradient in `.grad`.
        dtype: a VQNet or NumPy dtype; without it as for Tensor.
    """

    def __init__(self, data: Any, requires_grad: bool = False, *, dtype: Any = None) -> None:
        super().__init__(data, requires_grad, dtype=None if dtype is None else as_dtype(dtype))

    @classmethod
    def of(cls, made: Tensor) -> QTensor:
        """The same tensor, with its place in the graph."""
        result = cls(made)
        result._node = made._node
        result.requires_grad = made.requires_grad
        return result

    def backward(self, gradient: Any = None, *, retain_graph: bool = False, create_graph: bool = False) -> None:
        """As Tensor.backward, but without a gradient the sum of all elements is differentiated."""
        start = np.ones(self.shape, self.dtype) if gradient is None else gradient
        super().backward(start, retain_graph=retain_graph, create_graph=create_graph)

    def to(self, device: Any) -> QTensor:
        """To 0, the CPU, or 1000 + k, the k-th GPU."""
        moved = super().to(as_device(device))
        return self if moved is self else QTensor.of(moved)

    def numel(self) -> int:
        """How many elements it has."""
        return self.size


def to_tensor(data: Any) -> QTensor:
    """Numbers or an array as a QTensor; arrays keep their dtype."""
    return QTensor(data)


def zeros_like(x: Tensor) -> QTensor:
    """Zeros of x's shape and dtype."""
    return QTensor(np.zeros(x.shape, x.dtype))


def broadcast_to(x: Tensor, shape: Sequence[int]) -> QTensor:
    """x repeated along new or single axes, up to `shape`."""
    return QTensor.of(x.expand(*shape))


def argmax(t: Tensor, dim: int | None = None, keepdims: bool = False) -> QTensor:
    """Where the largest elements along `dim` are, int64; of the flattened tensor without it."""
    places = t.argmax(dim)
    return QTensor.of(places.unsqueeze(dim) if keepdims and dim is not None else places)


def sums(t: Tensor, axis: int | None = None, keepdims: bool = False) -> QTensor:
    """The sum along an axis, or of all elements; of a mask, how many are True."""
    numbers = t.to(np.int64) if t.dtype.kind == "b" else t
    return QTensor.of(numbers.sum(axis, keepdims))


def flatten(t: Tensor, start: int = 0) -> QTensor:
    """All axes from `start` on joined to one."""
    return QTensor.of(t.flatten(start))
