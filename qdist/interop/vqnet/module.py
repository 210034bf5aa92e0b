"""VQNet's Module and Parameter: this library's, on VQNet's devices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ... import nn
from ...tensor import Tensor, no_grad
from ...tensor.arrays import to_device
from .devices import DEV_GPU_0, Placed, as_device, as_gpu, is_device
from .dtypes import real
from .tensor import QTensor
from .utils.initializer import Initializer, fill, normal

__all__ = ["Module", "Parameter", "Sequential"]


class Module(nn.Module):
    """A Module that is moved to VQNet's devices and gives QTensors."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return QTensor.of(super().__call__(*args, **kwargs))

    def to(self, device: Any) -> Self:
        """To 0, the CPU, or 1000 + k, the k-th GPU, with the machines that compute in it; returns itself.

        Raises RuntimeError, with nothing moved, where there is no such GPU.
        """
        target = as_device(device)
        super().to(target)
        if is_device(target):
            for module in self.modules():
                for value in vars(module).values():
                    if isinstance(value, Placed):
                        value.place(target)
        return self

    def toGPU(self, device: int = DEV_GPU_0) -> Self:
        """To a GPU: DEV_GPU_0 + k is the k-th; returns itself."""
        return self.to(as_gpu(device))

    def toCPU(self) -> Self:
        """To the host's memory; returns itself."""
        return self.to("cpu")


class Parameter(nn.Parameter, QTensor):
    """A trained tensor of a given shape.

    Args:
        shape: its sizes.
        initializer: takes the shape and gives the values, like the functions of `utils.initializer`; standard normal
            numbers from the default generator, which `utils.set_random_seed` restarts, when not given.
        dtype: a VQNet or NumPy dtype; the default one (float32) when not given.
    """

    def __init__(
        self, shape: Sequence[int] = (1, 1), initializer: Initializer | None = None, dtype: Any = None
    ) -> None:
        super().__init__(np.empty(tuple(shape), real(dtype)))
        fill(self, initializer or normal)

    @classmethod
    def of(cls, made: Any) -> Any:
        """The same parameter with VQNet's methods."""
        result = cls.__new__(cls)
        vars(result).update(vars(made))
        return result

    def to(self, device: Any) -> Any:
        """To another device, where it stays the same parameter: returns itself. Its gradient is dropped.

        With a dtype a tensor that is computed from it, as for any Tensor.
        """
        target = as_device(device)
        if not is_device(target):
            return super().to(target)
        if target != self.device:
            self.data = to_device(self.data, target)
            self.grad = None
        return self

    def init_from_tensor(self, other_tensor: Any) -> None:
        """Takes over the values of another tensor of this shape."""
        with no_grad():
            self.assign(Tensor(other_tensor).to(self.dtype).to(self.device))


class Sequential(Module, nn.Sequential):
    """Modules applied one after the other."""
