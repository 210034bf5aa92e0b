"""Tensors as arrays of the kernels, and back, without copies: NumPy's on the CPU, CuPy's on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch

__all__ = ["as_array", "as_tensor", "device_name", "module_on"]

DTYPES = {torch.float32: np.dtype(np.float32), torch.float64: np.dtype(np.float64)}


def device_name(tensor: torch.Tensor) -> str:
    """As qdist names it: "cpu" or "cuda:N"."""
    return "cpu" if tensor.device.type == "cpu" else f"cuda:{tensor.device.index}"


def module_on(tensor: torch.Tensor) -> AbstractContextManager[Any]:
    """NumPy, or CuPy on torch's current stream of the tensor's device: kernels are launched there, in order with
    torch's own."""
    return _numpy if tensor.device.type == "cpu" else _cupy_on(tensor)


_numpy = nullcontext(np)


@contextmanager
def _cupy_on(tensor: torch.Tensor) -> Iterator[Any]:
    import cupy

    index = tensor.device.index
    stream = torch._C._cuda_getCurrentRawStream(index)  # type: ignore[attr-defined]
    with cupy.cuda.Device(index), cupy.cuda.ExternalStream(stream, index):
        yield cupy


def as_array(xp: Any, tensor: torch.Tensor) -> Any:
    """The tensor's memory as a C-contiguous array; on the host a copy of what is on a GPU."""
    plain = tensor.detach().contiguous()
    if not plain.numel():
        return xp.empty(plain.shape, DTYPES[plain.dtype])  # Nothing to copy, nothing to wait for.
    if xp is not np:
        # What DLPack gives, without its exchange of streams, which takes longer than a small circuit: both are on one.
        memory = xp.cuda.UnownedMemory(plain.data_ptr(), plain.nbytes, plain, plain.device.index)
        return xp.ndarray(plain.shape, DTYPES[plain.dtype], xp.cuda.MemoryPointer(memory, 0))
    return plain.cpu().numpy() if plain.is_cuda else plain.numpy()


def as_tensor(xp: Any, array: Any, like: torch.Tensor) -> torch.Tensor:
    """An array's memory as a tensor, or a copy of it where `like` is on another device."""
    whole = xp.ascontiguousarray(array)
    if xp is not np:
        return torch.from_dlpack(whole)
    found = torch.from_numpy(whole)
    return found.to(like.device, non_blocking=True) if like.is_cuda else found
