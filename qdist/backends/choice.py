"""From the ``device`` argument to its backend. CuPy is imported only when a GPU is asked for."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.backend import Backend
from qdist.backends.cpu import CpuBackend
from qdist.backends.errors import StateError
from qdist.backends.memory import shard_bytes
from qdist.comm import Communicator, cuda_devices
from qdist.comm.place import cuda_extra

__all__ = ["backend_on", "checked_device", "chosen_device", "on_host"]

_WORTHWHILE = 20
"""Bits of a shard from which a GPU gains. Below, starting its kernels takes as long as the whole run of a CPU: an H200
and 16 cores of a Xeon need the same time for an ansatz of 4 layers at 18 qubits, and with its energy at 20."""


def chosen_device(device: Any, num_qubits: int, dtype: np.dtype[Any], comm: Communicator | None) -> str:
    """The device of a state, as "cpu" or "cuda:N"; all ranks of ``comm`` call.

    "auto" is the GPU where on every rank there are CuPy and a GPU, the rank's shard has at least 2**20 amplitudes, and
    it fits into what is free there; else the CPU. So all ranks choose the same kind.

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
    if not _all_ranks(comm, gpu is not None):
        return "cpu"
    assert gpu is not None
    return gpu if shard_bytes(num_qubits, dtype, ranks) <= backend_on(gpu).free_memory(comm) else "cpu"


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
            f"device={device!r} needs CuPy and a CUDA driver ({error}): pip install 'qdist[{cuda_extra()}]', or use "
            "'cpu'"
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


@cache
def backend_on(device: str) -> Backend:
    """The backend of a device, "cpu" or "cuda:N"."""
    if device == "cpu":
        return CpuBackend()
    from qdist.backends.cuda.backend import CudaBackend

    return CudaBackend(int(device.partition(":")[2]))


def on_host(array: Any) -> NDArray[Any]:
    """The array, or its copy in NumPy where it is on a GPU."""
    cupy = sys.modules.get("cupy")
    return array.get() if cupy is not None and isinstance(array, cupy.ndarray) else array


def _all_ranks(comm: Communicator | None, here: bool) -> bool:
    """Whether something holds on all ranks."""
    if comm is None or comm.size == 1:
        return here
    return bool(comm.all_reduce(np.array(int(here)), "min"))
