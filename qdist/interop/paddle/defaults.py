"""What layers are made with when nothing else is said: dtype, device, and the generator's seed."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...tensor import manual_seed

__all__ = ["get_default_dtype", "seed", "set_default_dtype", "set_device"]


class _Defaults:
    dtype = np.dtype(np.float32)
    device = "cpu"


def set_default_dtype(dtype: Any) -> None:
    """Parameters are made with this dtype from now on: float32 or float64."""
    chosen = np.dtype(dtype)
    if chosen not in (np.float32, np.float64):
        raise ValueError(f"set_default_dtype({dtype!r}): float32 or float64")
    _Defaults.dtype = chosen


def get_default_dtype() -> np.dtype:
    """What set_default_dtype chose; float32 before."""
    return _Defaults.dtype


def set_device(device: str) -> str:
    """Layers are made on "cpu" or "gpu:<index>" from now on; returns this library's name of it."""
    kind, _, index = device.partition(":")
    if kind not in ("cpu", "gpu", "cuda") or (index and not index.isdigit()):
        raise ValueError(f'set_device({device!r}): "cpu", "gpu" or "gpu:<index>"')
    _Defaults.device = "cpu" if kind == "cpu" else f"cuda:{index or 0}"
    return _Defaults.device


def default_device() -> str:
    """This library's name of the device that layers are made on."""
    return _Defaults.device


def seed(value: int) -> None:
    """Restart the generator that parameters and dropout are drawn from."""
    manual_seed(value)
