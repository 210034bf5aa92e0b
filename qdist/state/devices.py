"""Where amplitudes are: on the CPU in NumPy arrays, or on a GPU in CuPy's; and the kernels for either.

Nothing here imports CuPy before somebody asks for a GPU.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..comm import Communicator, cuda_devices
from ..native import kernels as cpu_kernels
from .errors import StateError
from .memory import SMALL, aligned_zeros, gib, shard_bytes

__all__ = [
    "check_on_device",
    "checked_device",
    "chosen_device",
    "device_number",
    "device_of",
    "empty",
    "free_device_memory",
    "kernels_of",
    "moved",
    "on_host",
    "zeros",
]

_WORTHWHILE = 20
"""Bits of a shard from which a GPU gains. Below, starting its kernels takes as long as the whole run of a CPU: an H200
and 16 cores of a Xeon need the same time for an ansatz of 4 layers at 18 qubits, and with its energy at 20."""

_LARGEST_BUFFERS = 1 << 28
"""Bytes that exchanges take at most on a GPU: four pieces (exchange.py) and a window (comm/transports/window.py)."""

_NCCL_BUFFERS = 1 << 30
"""Bytes set aside for what NCCL takes when ranks first meet. By its documentation a channel to a peer has a buffer of
4 MiB (NCCL_BUFFSIZE); this is room for 16 channels, both ways, to 8 peers."""


def chosen_device(device: Any, num_qubits: int, dtype: np.dtype[Any], comm: Communicator | None) -> str:
    """The device of a state, as "cpu" or "cuda:N"; all ranks of ``comm`` call.

    "auto" is the GPU where on every rank there are CuPy and a GPU, the rank's shard has at least 2**20 amplitudes, and
    it fits into what is free there; else the CPU. So it is of one kind on all ranks.

    Raises StateError as ``checked_device`` does.
    """
    if device != "auto":
        return checked_device(device, comm)
    ranks = 1 if comm is None else comm.size
    if num_qubits - (ranks - 1).bit_length() < _WORTHWHILE:
        return "cpu"
    try:
        gpu = checked_device("cuda", comm) if cuda_devices() else None
    except StateError:
        gpu = None
    if not _everybody(comm, gpu is not None):
        return "cpu"
    assert gpu is not None
    return gpu if shard_bytes(num_qubits, dtype, ranks) <= free_device_memory(gpu, comm) else "cpu"


def checked_device(device: Any, comm: Communicator | None = None) -> str:
    """A device as "cpu" or "cuda:N".

    "cuda" is the current GPU; on several ranks the one whose number is the rank's number on its node, modulo their
    number, which becomes the current one. Raises StateError for names that are none, and where CuPy or the GPU is
    missing.
    """
    if device == "cpu":
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
    if index:
        number = int(index)
    elif comm is not None and comm.size > 1:
        number = comm.local_rank % count
    else:
        number = int(cupy.cuda.runtime.getDevice())
    if number >= count:
        raise StateError(
            f"device={device!r}: there {'is 1 GPU' if count == 1 else f'are {count} GPUs'}, from number 0 on"
        )
    if comm is not None and comm.size > 1:
        cupy.cuda.Device(number).use()
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


def empty(shape: tuple[int, ...], dtype: np.dtype[Any], device: str) -> Any:
    """An array whose values nobody has set."""
    if device == "cpu":
        return np.empty(shape, dtype)
    import cupy

    with cupy.cuda.Device(device_number(device)):
        return cupy.empty(shape, dtype)


def free_device_memory(device: str, comm: Communicator | None = None) -> int:
    """Bytes that every rank can still take on its GPU, beside the buffers for exchanges with the others.

    What CuPy's pool holds for nobody counts as free, and ranks on one GPU share what is left of it. All ranks call.
    """
    import cupy

    number = device_number(device)
    with cupy.cuda.Device(number):
        left, pooled = int(cupy.cuda.runtime.memGetInfo()[0]), cupy.get_default_memory_pool().free_bytes()
    if comm is None or comm.size == 1:
        return left + pooled
    own = (comm.node, cupy.cuda.runtime.deviceGetPCIBusId(number))
    # Everybody has looked before anybody takes.
    places, left_over = zip(*comm.all_gather_object((own, (left, pooled))))
    buffers = _LARGEST_BUFFERS + (_NCCL_BUFFERS if comm.backend == "nccl" else 0)
    return min(free // places.count(place) + in_pool - buffers for place, (free, in_pool) in zip(places, left_over))


def check_on_device(device: str, comm: Communicator | None, nbytes: int, what: str, way_out: str) -> None:
    """Raises MemoryError, on all ranks, where every rank cannot take so many bytes on its GPU; nothing on the CPU.

    what: whose memory it is, as the subject of "need". way_out: what to do instead. All ranks call.
    """
    if device == "cpu" or nbytes <= SMALL:
        return
    free = free_device_memory(device, comm)
    if nbytes > free:
        raise MemoryError(f"{what} need {gib(nbytes)} on {device}; {gib(free)} are free; {way_out}")


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


def _everybody(comm: Communicator | None, here: bool) -> bool:
    """Whether something holds on all ranks."""
    if comm is None or comm.size == 1:
        return here
    return bool(comm.all_reduce(np.array(int(here)), "min"))
