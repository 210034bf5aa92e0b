"""Where amplitudes are: on the CPU in NumPy arrays, or on a GPU in CuPy's; and the kernels for either.

Nothing here imports CuPy before somebody asks for a GPU.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..native import kernels as cpu_kernels
from .errors import StateError
from .memory import aligned_zeros

__all__ = [
    "checked_device",
    "device_number",
    "device_of",
    "free_device_memory",
    "kernels_of",
    "moved",
    "on_host",
    "zeros",
]


def checked_device(device: Any) -> str:
    """A device as "cpu" or "cuda:N".

    "auto" is the CPU as long as gradients run there alone. Raises StateError for names that are none, and where CuPy or
    the GPU is missing.
    """
    if device in ("auto", "cpu"):
        return "cpu"
    kind, colon, index = device.partition(":") if isinstance(device, str) else ("", "", "")
    if kind != "cuda" or (colon and not index.isdigit()):
        raise StateError(f"device={device!r}: use 'cpu', 'cuda', 'cuda:N' for GPU number N, or 'auto'")
    try:
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy raises errors of its own where the driver is missing.
        raise StateError(
            f"device={device!r} needs CuPy and a CUDA driver ({error}): pip install 'qdist[cuda13]', or use 'cpu'"
        ) from error
    number = int(index) if index else int(cupy.cuda.runtime.getDevice())
    if number >= count:
        raise StateError(
            f"device={device!r}: there {'is 1 GPU' if count == 1 else f'are {count} GPUs'}, from number 0 on"
        )
    return f"cuda:{number}"


def device_number(device: str) -> int:
    """N of "cuda:N"."""
    return int(device.partition(":")[2])


def device_of(array: Any) -> str:
    """Where an array is: "cpu" or "cuda:N"."""
    return "cpu" if isinstance(array, np.ndarray) else f"cuda:{array.device.id}"


def zeros(size: int, dtype: np.dtype[Any], device: str) -> Any:
    """A 1-D array of zeros, aligned to at least 64 bytes."""
    if device == "cpu":
        return aligned_zeros(size, dtype)
    import cupy

    with cupy.cuda.Device(device_number(device)):
        return cupy.zeros(size, dtype)


def free_device_memory(device: str) -> int:
    """Bytes that a GPU has left, those included that CuPy's pool holds for nobody."""
    import cupy

    with cupy.cuda.Device(device_number(device)):
        return int(cupy.cuda.runtime.memGetInfo()[0]) + cupy.get_default_memory_pool().free_bytes()


def moved(array: NDArray[Any], device: str) -> Any:
    """A NumPy array where a device can use it: itself, or a copy on the GPU."""
    if device == "cpu":
        return array
    import cupy

    with cupy.cuda.Device(device_number(device)):
        return cupy.asarray(array)


def kernels_of(array: Any) -> Any:
    """The kernels that work on an array like this: ``qdist.native.kernels``, or their siblings on the GPU."""
    if isinstance(array, np.ndarray):
        return cpu_kernels
    from ..cuda import kernels as cuda_kernels

    return cuda_kernels


def on_host(array: Any) -> NDArray[Any]:
    """The array, or its copy in NumPy where it is on a GPU."""
    cupy = sys.modules.get("cupy")
    return array.get() if cupy is not None and isinstance(array, cupy.ndarray) else array
