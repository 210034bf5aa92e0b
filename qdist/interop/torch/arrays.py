"""Tensors as arrays of the kernels, and back, without copies: NumPy's on the CPU, CuPy's on a GPU."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.dlpack import to_dlpack

from qdist.backends.cuda.staging import MOST_BYTES, staging

__all__ = ["Lent", "as_array", "as_tensor", "device_name", "lies_plain", "module_on", "number_and_gradient"]

DTYPES: dict[torch.dtype, np.dtype[Any]] = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}


def device_name(tensor: torch.Tensor) -> str:
    """As qdist names it: "cpu" or "cuda:N". Raises TypeError for the others of torch's devices."""
    if tensor.is_cpu:
        return "cpu"
    if not tensor.is_cuda:
        raise TypeError(f"circuits run on the CPU and on CUDA GPUs; got a tensor on {tensor.device}")
    return f"cuda:{tensor.device.index}"


def module_on(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    """NumPy, or CuPy on torch's current stream of the tensor's device: kernels are launched there, in order with
    torch's own."""
    return _numpy if tensor.is_cpu else _CupyOn(tensor.device.index)


_numpy = nullcontext(np)


class _CupyOn:
    """CuPy with torch's current stream as its own."""

    __slots__ = ("_device", "_index", "_stream")

    def __init__(self, index: int) -> None:
        self._index = index

    def __enter__(self) -> Any:
        import cupy

        stream = torch._C._cuda_getCurrentRawStream(self._index)  # type: ignore[attr-defined]
        self._device, self._stream = cupy.cuda.Device(self._index), _stream_at(stream, self._index)
        self._device.__enter__()
        self._stream.__enter__()
        return cupy

    def __exit__(self, *error: Any) -> None:
        self._stream.__exit__(*error)
        self._device.__exit__(*error)


@lru_cache(maxsize=64)
def _stream_at(address: int, device: int) -> Any:
    """A stream of torch's, which CuPy neither makes nor ends."""
    import cupy

    return cupy.cuda.ExternalStream(address, device)


class Lent:
    """A tensor on the CPU that ``lies_plain``, as kernels of rows take it (``RowKernel``): its memory, without an array
    around it."""

    __slots__ = ("_tensor", "dtype", "shape")

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor, self.shape, self.dtype = tensor, tensor.shape, DTYPES[tensor.dtype]

    def __len__(self) -> int:
        return self.shape[0]

    def __dlpack__(self, **options: Any) -> Any:
        return to_dlpack(self._tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # DLPack's number of CPUs.


def lies_plain(tensor: torch.Tensor) -> bool:
    """Whether the numbers of a tensor on the CPU are in its memory, in their order; what `imag` of a conjugate gives is
    there with the other sign."""
    return tensor.is_contiguous() and not tensor.is_neg()


def as_array(xp: Any, tensor: torch.Tensor) -> Any:
    """The tensor's memory as a C-contiguous array; on the host a copy of what is on a GPU."""
    plain = tensor.detach()
    if plain.is_neg():
        plain = plain.resolve_neg()
    if plain.is_cpu:
        found = plain.numpy()
        return found if found.flags.c_contiguous else np.ascontiguousarray(found)
    plain = plain.contiguous()
    if not plain.numel():
        return xp.empty(plain.shape, DTYPES[plain.dtype])  # Nothing to copy, nothing to wait for.
    if xp is not np:
        # What DLPack gives, without its exchange of streams, which takes longer than a small circuit: both are on one.
        memory = xp.cuda.UnownedMemory(plain.data_ptr(), plain.nbytes, plain, plain.device.index)
        return xp.ndarray(plain.shape, DTYPES[plain.dtype], xp.cuda.MemoryPointer(memory, 0))
    return plain.cpu().numpy()


def as_tensor(xp: Any, array: Any, like: torch.Tensor) -> torch.Tensor:
    """An array's memory as a tensor, or a copy of it where `like` is on another device."""
    whole = xp.ascontiguousarray(array)
    if xp is not np:
        return torch.from_dlpack(whole)
    found = torch.from_numpy(whole)
    return found.to(like.device, non_blocking=True) if like.is_cuda else found


def number_and_gradient(
    number: float, gradient: NDArray[np.float64], like: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """A number without dimensions, and its gradient, in the dtype and on the device of ``like``. Nothing waits for a
    GPU, and they share no memory: what changes one in place leaves the other alone."""
    dtype = DTYPES[like.dtype]
    nbytes = (1 + gradient.size) * dtype.itemsize
    if not like.is_cuda or nbytes > MOST_BYTES:
        by_params = torch.from_numpy(gradient.astype(dtype)).to(like.device)
        return torch.tensor(number, dtype=like.dtype, device=like.device), by_params
    stage = staging(like.device.index)
    room = stage.room(nbytes).view(dtype)
    room[0], room[1:] = number, gradient
    found, by_params = like.new_empty(()), like.new_empty(gradient.size)
    stage.send_parts((found.data_ptr(), found.nbytes), (by_params.data_ptr(), by_params.nbytes))
    return found, by_params
