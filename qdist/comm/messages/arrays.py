"""Getting arrays into and out of a transport: contiguous, one dtype, the right shape."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

__all__ = ["as_input", "as_output", "check_movable", "copy_if_overlapping", "describe", "is_cupy", "module_of"]

Array = Any  # numpy.ndarray or cupy.ndarray; CuPy is optional, so its type cannot be named here.
_MOVABLE = "biufcV"


def is_cupy(x: object) -> bool:
    """Whether ``x`` is a CuPy array, without importing CuPy."""
    return type(x).__module__.partition(".")[0] == "cupy"


def module_of(x: Array) -> Any:
    """The array module, numpy or cupy, that ``x`` belongs to."""
    return sys.modules["cupy"] if is_cupy(x) else np


def as_input(x: Any) -> Array:
    """``x`` as a C-contiguous array of native byte order; no copy when it is one already.

    Raises TypeError for what is no array of numbers, or masks some of them.
    """
    if type(x) is not np.ndarray and not is_cupy(x):
        if np.ma.is_masked(x):
            raise TypeError("a masked array cannot be communicated, only numbers can: fill it, x.filled(0)")
        x = np.asarray(x)
    dtype = x.dtype
    check_movable(dtype)
    if not dtype.isnative:
        x = x.astype(dtype.newbyteorder("="))
    if type(x) is np.ndarray:
        # MPI reduces with vector instructions, some of which need whole elements at aligned addresses.
        return x if x.flags.c_contiguous and x.flags.aligned else x.copy()
    return x if x.flags.c_contiguous else module_of(x).ascontiguousarray(x)


def check_movable(dtype: np.dtype) -> None:
    """Raises TypeError for a dtype that holds Python objects, or other things that are no numbers."""
    if dtype.kind not in _MOVABLE or dtype.hasobject:
        raise TypeError(
            f"arrays of dtype {dtype} cannot be communicated: use a numeric or bool dtype, or broadcast_object() "
            "and gather_object() for small Python values"
        )


def as_output(out: Any, shape: tuple[int, ...], dtype: np.dtype, like: Array) -> tuple[Array, Array]:
    """Where a transport may write, and what the user gets: the same contiguous array, unless ``out`` is strided.

    ``out`` is the user's array or None; a new one is made beside ``like`` (NumPy or CuPy).
    Raises TypeError or ValueError when ``out`` does not fit: of another kind, place, dtype or shape, read-only, or
    with elements that share memory.
    """
    if out is None:
        fresh = module_of(like).empty(shape, dtype)
        return fresh, fresh
    if type(out) is not np.ndarray and not is_cupy(out):
        raise TypeError(f"out must be a NumPy or CuPy array, not {type(out).__name__}")
    if is_cupy(out) != is_cupy(like):
        raise TypeError(f"input and out must live in the same place: the input is {_place(like)}, out is {_place(out)}")
    if out.dtype != dtype:
        raise TypeError(f"input and out must have one dtype: the input is {dtype}, out is {out.dtype}")
    if out.shape != shape:
        raise ValueError(f"out has shape {out.shape}, the result has shape {shape}")
    if type(out) is np.ndarray:
        flags = out.flags
        if not flags.writeable:
            raise ValueError("out is read-only: pass an array that may be written, or no out")
        if flags.c_contiguous and flags.aligned:
            return out, out
    else:
        if out.device != like.device:
            raise TypeError(f"input and out must be on one GPU: the input is on {like.device}, out on {out.device}")
        if out.flags.c_contiguous:
            return out, out
    if _elements_overlap(out):
        raise ValueError(
            f"out has elements that share memory (shape {out.shape}, strides {out.strides}): no result fits into it"
        )
    return module_of(out).empty(shape, dtype), out


def copy_if_overlapping(x: Array, target: Array) -> Array:
    """``x``, copied if it overlaps ``target``: transports read one while they write the other. Both are contiguous."""
    if type(x) is np.ndarray:
        if x is not target:
            if x.base is None and target.base is None:
                return x  # Each owns its memory.
            if not np.may_share_memory(x, target):
                return x
        return x.copy()
    # Not by their owners: CuPy arrays made on given memory have none.
    start, other = x.data.ptr, target.data.ptr
    if x.device == target.device and start < other + target.nbytes and other < start + x.nbytes:
        with x.device:
            return x.copy()
    return x


def _elements_overlap(out: Array) -> bool:
    """Whether two elements of a strided array may be at one address: views made by broadcasting or by as_strided."""
    end = out.dtype.itemsize
    for stride, length in sorted((abs(stride), length) for stride, length in zip(out.strides, out.shape)):
        if length > 1:
            if stride < end:
                return True
            end += stride * (length - 1)
    return False


def describe(shape: tuple[int, ...], dtype: Any) -> str:
    """``float32[2, 3]``: how messages name an array."""
    return f"{dtype}[{', '.join(map(str, shape))}]"


def _place(x: Array) -> str:
    return "a CuPy array" if is_cupy(x) else "a NumPy array"
