"""What torch's numbers of devices are here, and values that are moved to them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ...tensor import Tensor

__all__ = ["device_name", "map_tensors", "moved", "rebuilt"]


def device_name(device: Any) -> str:
    """ "cuda:<k>" for a number k; "cpu" and "cuda:<k>" as they are. Raises ValueError for anything else."""
    if isinstance(device, int) and not isinstance(device, bool) and device >= 0:
        return f"cuda:{device}"
    if isinstance(device, str) and (device == "cpu" or device.partition(":")[0] == "cuda"):
        return "cuda:0" if device == "cuda" else device
    raise ValueError(f"device {device!r}: the number of a GPU, 'cuda:<number>' or 'cpu'")


def map_tensors(fn: Callable[[Tensor], Any], value: Any) -> Any:
    """A value with fn(tensor) in the place of every Tensor in nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        return fn(value)
    if isinstance(value, tuple | list):
        return rebuilt(value, (map_tensors(fn, part) for part in value))
    if isinstance(value, dict):
        return {key: map_tensors(fn, part) for key, part in value.items()}
    return value


def rebuilt(like: Any, parts: Iterable[Any]) -> Any:
    """A tuple, named or not, or a list, of other parts."""
    return type(like)(*parts) if hasattr(like, "_fields") else type(like)(parts)


def moved(value: Any, device: str) -> Any:
    """A value with its Tensors on a device."""
    return map_tensors(lambda tensor: tensor.to(device), value)
