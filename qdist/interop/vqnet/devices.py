"""VQNet's numbers for devices, and what has a place on one besides its tensors."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np

from ...tensor.arrays import device_of, to_device

__all__ = ["DEV_CPU", "DEV_GPU_0", "Placed", "as_device", "as_gpu", "is_device"]

DEV_CPU, DEV_GPU_0 = 0, 1000


def as_device(device: Any) -> Any:
    """ "cpu" for 0, "cuda:<k>" for 1000 + k; anything but a number is given back as it is.

    Raises ValueError for a number that VQNet does not have.
    """
    if not isinstance(device, Integral) or isinstance(device, bool):
        return device
    if device == DEV_CPU:
        return "cpu"
    if device < DEV_GPU_0:
        raise ValueError(f"device={device}: VQNet's devices are 0 (DEV_CPU) and 1000 + k (DEV_GPU_0 + k)")
    return f"cuda:{device - DEV_GPU_0}"


def as_gpu(device: Any) -> Any:
    """A device of VQNet's that is a GPU. Raises ValueError for others."""
    name = as_device(device)
    if not str(name).startswith("cuda"):
        raise ValueError(f"toGPU({device!r}): give 1000 + k (DEV_GPU_0 + k), the k-th GPU")
    return name


def is_device(name: Any) -> bool:
    """Whether this names a device, and not a dtype."""
    return isinstance(name, str) and name.partition(":")[0] in ("cpu", "cuda")


class Placed:
    """Computes on a device without being a tensor: a Module that has one as an attribute takes it along in `to`."""

    device: str = "cpu"

    def place(self, device: str) -> None:
        """Computes there from now on. Raises RuntimeError if there is no such GPU."""
        self.device = device_of(to_device(np.empty(0), device))
