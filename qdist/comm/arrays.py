"""Getting arrays into and out of a transport: contiguous, one dtype, the right shape."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

__all__ = ["apart", "as_input", "as_output", "describe", "is_cupy", "module_of"]

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

    Raises TypeError for what is no array of numbers.
    """
    if type(x) is not np.ndarray and not is_cupy(x):
        x = np.asarray(x)
    dtype = x.dtype
    if dtype.kind not in _MOVABLE or dtype.hasobject:
        raise TypeError(
            f"arrays of dtype {dtype} cannot be communicated: use a numeric or bool dtype, or broadcast_object() "
            "and gather_object() for small Python values"
        )
    if not dtype.isnative:
        x = x.astype(dtype.newbyteorder("="))
    return x if x.flags.c_contiguous else module_of(x).ascontiguousarray(x)


def as_output(out: Any, shape: tuple[int, ...], dtype: np.dtype, like: Array) -> tuple[Array, Array]:
    """Where a transport may write, and what the user gets: the same contiguous array, unless ``out`` is strided.

    ``out`` is the user's array or None; a new one is made beside ``like`` (NumPy or CuPy).
    Raises TypeError or ValueError when ``out`` does not fit.
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
    if not is_cupy(out) and not out.flags.writeable:
        raise ValueError("out is read-only")
    if out.flags.c_contiguous:
        return out, out
    return module_of(out).empty(shape, dtype), out


def apart(x: Array, target: Array) -> Array:
    """``x``, copied if it may overlap ``target``: transports read one while they write the other."""
    if x is not target and x.base is None and target.base is None:
        return x  # Each owns its memory.
    if x is target or (type(x) is np.ndarray and np.may_share_memory(x, target)) or is_cupy(x):
        return x.copy()
    return x


def describe(shape: tuple[int, ...], dtype: Any) -> str:
    """``float32[2, 3]``: how messages name an array."""
    return f"{dtype}[{', '.join(map(str, shape))}]"


def _place(x: Array) -> str:
    return "a CuPy array" if is_cupy(x) else "a NumPy array"
