"""QTensor and the few functions on it that VQNet's distributed programs use."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...tensor import Tensor, apply
from ...tensor.arrays import module_of
from .devices import DEV_GPU_0, as_device, as_gpu
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

    What is computed from one by its methods and signs is a QTensor again.
    """

    def __init__(self, data: Any, requires_grad: bool = False, *, dtype: Any = None) -> None:
        super().__init__(data, requires_grad, dtype=None if dtype is None else as_dtype(dtype))

    @staticmethod
    def of(made: Any) -> Any:
        """The same tensor, with its place in the graph; of a tuple or list, its elements; anything else as it is."""
        if isinstance(made, tuple | list):
            return type(made)(QTensor.of(part) for part in made)
        if not isinstance(made, Tensor) or isinstance(made, QTensor) or made.dispatch is not None:
            return made
        result = QTensor(made)
        result._node = made._node
        result.requires_grad = made.requires_grad
        return result

    @staticmethod
    def _run(op: Any, *inputs: Any, **attributes: Any) -> Any:
        return QTensor.of(apply(op, *inputs, **attributes))

    def __getitem__(self, key: Any) -> Any:
        return QTensor.of(super().__getitem__(key))

    def detach(self) -> Any:
        """The same data, outside the graph."""
        return QTensor.of(super().detach())

    def backward(self, gradient: Any = None, *, retain_graph: bool = False, create_graph: bool = False) -> None:
        """As Tensor.backward, but without a gradient the sum of all elements is differentiated."""
        start = module_of(self._data).ones(self.shape, self.dtype) if gradient is None else gradient
        super().backward(start, retain_graph=retain_graph, create_graph=create_graph)

    def to(self, device: Any) -> Any:
        """To 0, the CPU, or 1000 + k, the k-th GPU (or to a device or dtype as Tensor.to names them)."""
        return super().to(as_device(device))

    def toGPU(self, device: int = DEV_GPU_0) -> Any:
        """On a GPU: DEV_GPU_0 + k is the k-th. Raises RuntimeError without it."""
        return self.to(as_gpu(device))

    def toCPU(self) -> Any:
        """In the host's memory."""
        return self.to("cpu")


def to_tensor(data: Any) -> QTensor:
    """Numbers or an array as a QTensor; arrays keep their dtype."""
    return QTensor(data)


def zeros_like(x: Tensor) -> QTensor:
    """Zeros of x's shape and dtype, where x is."""
    return QTensor(np.zeros(x.shape, x.dtype)).to(x.device)


def broadcast_to(x: Tensor, shape: Sequence[int]) -> QTensor:
    """x repeated along new or single axes, up to `shape`."""
    return QTensor.of(x.expand(*shape))


def argmax(t: Tensor, dim: int | None = None, keepdims: bool = False) -> QTensor:
    """Where the largest elements along `dim` are, int64; of the flattened tensor without it."""
    places = t.argmax(dim)
    if keepdims:
        places = places.reshape((1,) * t.ndim) if dim is None else places.unsqueeze(dim)
    return QTensor.of(places)


def sums(t: Tensor, axis: int | None = None, keepdims: bool = False) -> QTensor:
    """The sum along an axis, or of all elements; of a mask, how many are True."""
    numbers = t.to(np.int64) if t.dtype.kind == "b" else t
    return QTensor.of(numbers.sum(axis, keepdims))


def flatten(t: Tensor, start: int = 0) -> QTensor:
    """All axes from `start` on joined to one."""
    return QTensor.of(t.flatten(start))
