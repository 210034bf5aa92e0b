"""VQNet's numbers for devices."""

from __future__ import annotations

from typing import Any

DEV_CPU, DEV_GPU_0 = 0, 1000


def as_device(device: Any) -> Any:
    """ "cpu" for 0, "cuda:<k>" for 1000 + k; anything but a number is given back as it is.

    Raises ValueError for a number that VQNet does not have.
    """
    if not isinstance(device, int):
        return device
    if device == DEV_CPU:
        return "cpu"
    if device < DEV_GPU_0:
        raise ValueError(f"device={device}: VQNet's devices are 0 (DEV_CPU) and 1000 + k (DEV_GPU_0 + k)")
    return f"cuda:{device - DEV_GPU_0}"
