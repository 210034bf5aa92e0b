"""Arrays: which module an array belongs to, which dtype a value takes, where it lives.

Everything above this file is written once against `xp`, the array module of its operands: NumPy, or CuPy when
the data is on a GPU. CuPy is imported only when something asks for a GPU or hands over a CuPy array.
"""

from __future__ import annotations

import math
import sys
from functools import cache, lru_cache
from types import ModuleType
from typing import Any

import numpy as np

from qdist.native import kernels

Array = Any  # numpy.ndarray or cupy.ndarray
Scalar = bool | int | float | complex

_NO_NUMBERS = "OSTUMm"
"""NumPy's letters for objects, texts and times."""

FLOAT32 = np.dtype(np.float32)
FLOAT64 = np.dtype(np.float64)
COMPLEX64 = np.dtype(np.complex64)
COMPLEX128 = np.dtype(np.complex128)

_SINGLE = {FLOAT32, COMPLEX64}
_COMPLEX_OF: dict[np.dtype, np.dtype] = {
    FLOAT32: COMPLEX64,
    FLOAT64: COMPLEX128,
    COMPLEX64: COMPLEX64,
    COMPLEX128: COMPLEX128,
}


def module_of(array: Array) -> ModuleType:
    """The array module, numpy or cupy, of one array."""
    if isinstance(array, np.ndarray):
        return np
    if is_array(array):
        return sys.modules["cupy"]
    raise TypeError(f"expected a NumPy or CuPy array, got {type(array).__name__}")


@cache
def module_of_kind(kind: type) -> ModuleType:
    """The array module of arrays of this class."""
    return np if issubclass(kind, np.ndarray) else sys.modules["cupy"]


MODULES: dict[type, ModuleType] = {}
"""The module of classes of arrays that are all in one place, whichever they are: NumPy's, and CuPy's where there is one
GPU. Filled by ``operands.shared_module``."""


@lru_cache(maxsize=1)
def several_gpus() -> bool:
    """Whether arrays can be on different GPUs: then new ones are made where the device is chosen for them."""
    return int(sys.modules["cupy"].cuda.runtime.getDeviceCount()) > 1


_ONES: dict[tuple[type, Any, tuple[int, ...], np.dtype], Array] = {}
_EXPANDED: dict[int, dict[tuple[int, ...], Array]] = {}
_MOST_ONES = 64
"""Ones that are remembered, for good; _EXPANDED has what each was expanded to, by its id."""


def one_like(array: Array) -> Array:
    """A 1 in the shape of an array that has one element, made once: what every backward pass begins with. Nobody writes
    to it."""
    kind = array.__class__
    place = 0 if kind is np.ndarray or kind in MODULES else device_of(array)
    key = kind, place, array.shape, array.dtype
    one = _ONES.get(key)
    if one is None:
        one = _made_one(array)
        if len(_ONES) < _MOST_ONES:
            _ONES[key], _EXPANDED[id(one)] = one, {}
    return one


def _made_one(array: Array) -> Array:
    if isinstance(array, np.ndarray):
        one = np.ones(array.shape, array.dtype)
        one.flags.writeable = False
        return one
    import cupy

    with array.device:
        one = cupy.ones(array.shape, array.dtype)
        cupy.cuda.get_current_stream().synchronize()  # Later passes may run on other streams.
    return one


def is_array(value: object) -> bool:
    """True for NumPy and CuPy arrays."""
    kind = value.__class__
    known = ARRAYS.get(kind)
    if known is None:
        cupy = sys.modules.get("cupy")
        known = issubclass(kind, np.ndarray) or (cupy is not None and issubclass(kind, cupy.ndarray))
        if known or cupy is not None or issubclass(kind, np.generic):
            ARRAYS[kind] = known
    return known


ARRAYS: dict[type, bool] = {np.ndarray: True, tuple: False, float: False, int: False}
"""Classes that are known to be arrays, or not to be. CuPy, which may come later, decides about the others."""


def as_dtype(name: Any) -> np.dtype:
    """The dtype of this name or type. "bfloat16" is one too, with the package ml_dtypes, which gives NumPy that dtype.

    Raises:
        ImportError: for bfloat16 where ml_dtypes is not installed.
        TypeError: for what is no dtype of numbers.
    """
    if isinstance(name, str) and name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError as error:
            raise ImportError(
                'bfloat16 needs the package ml_dtypes, which gives NumPy that dtype: pip install "qdist[bfloat16]"; '
                "float16 and float32 need nothing"
            ) from error
        return np.dtype(ml_dtypes.bfloat16)
    try:
        dtype = np.dtype(name)
    except TypeError:
        raise TypeError(
            f"{name!r} is neither a dtype, such as 'float32' or numpy.float32, nor a device, 'cpu', 'cuda' or 'cuda:0'"
        ) from None
    if dtype.kind in _NO_NUMBERS:
        raise TypeError(f"a tensor holds numbers, and {name!r} is no dtype of them")
    return dtype if dtype.isnative else dtype.newbyteorder("=")


def is_half(dtype: np.dtype) -> bool:
    """True for float16 and bfloat16: dtypes that values are stored in and float32 is computed in (see half.py)."""
    # To NumPy, bfloat16 is a kind of its own.
    return dtype.itemsize == 2 and (dtype.kind == "f" or (dtype.kind == "V" and dtype.name == "bfloat16"))


def kind_of(dtype: np.dtype) -> str:
    """NumPy's letter for a kind of numbers: "f" for all real floating dtypes, bfloat16 included."""
    return "f" if dtype.kind == "V" and is_half(dtype) else dtype.kind


def is_inexact(dtype: np.dtype) -> bool:
    """True for real and complex floating dtypes, the ones that can have gradients."""
    return dtype.kind in "fc" or is_half(dtype)


def as_array(value: object, dtype: Any = None) -> Array:
    """Turn a value into an array without copying one that already fits.

    Arrays and NumPy scalars keep their dtype, in this machine's byte order, which is what kernels read. Python numbers
    and (nested) lists take the house defaults: float32, complex64, int64, bool. `dtype` overrides both.
    """
    if is_array(value):
        array: Any = value
        if array.dtype is not FLOAT32:
            array = _numbers(array, value)
        return array if dtype is None or array.dtype == dtype else array.astype(dtype)
    array = _numbers(np.asarray(value), value)
    if isinstance(value, np.generic):
        return array if dtype is None else array.astype(dtype)
    if dtype is None:
        if array.dtype == FLOAT64:
            dtype = FLOAT32
        elif array.dtype == COMPLEX128:
            dtype = COMPLEX64
        else:
            return array
    return array.astype(dtype)


def _numbers(array: Array, value: object) -> Array:
    """The array in this machine's byte order. Raises TypeError for objects, texts and times."""
    dtype = array.dtype
    if dtype.kind in _NO_NUMBERS:
        raise TypeError(f"a tensor holds numbers; {type(value).__name__} gave dtype {dtype}")
    return array if dtype.isnative else array.astype(dtype.newbyteorder("="))


def complex_of(dtype: np.dtype) -> np.dtype:
    """The complex dtype of the same precision; complex64 for integers."""
    return _COMPLEX_OF.get(dtype, COMPLEX64)


def common_dtype(name: str, dtypes: list[np.dtype], scalars: list[Scalar]) -> np.dtype:
    """The dtype in which an operation on tensors of `dtypes` and Python `scalars` runs.

    Integers give way to the floats they meet, real to complex, and a scalar never raises the precision.
    Single and double precision do not mix.

    Raises:
        TypeError: when both single- and double-precision tensors are given.
    """
    inexact = [d for d in dtypes if is_inexact(d)]
    single = [d for d in inexact if d in _SINGLE or is_half(d)]
    if single and len(single) < len(inexact):
        names = " and ".join(sorted({str(d) for d in inexact}))
        raise TypeError(
            f"{name}: {names} do not mix, since that would change precision silently; convert one side with .to(dtype)"
        )
    # float16 and bfloat16 have no common half precision.
    halves = {d for d in inexact if is_half(d)}
    result = FLOAT32 if len(halves) > 1 and len(halves) == len(set(inexact)) else np.result_type(*(inexact or dtypes))
    kinds = {type(s) for s in scalars}
    if complex in kinds:
        return complex_of(result)
    if float in kinds and result.kind in "biu":
        return FLOAT32
    if int in kinds and result.kind == "b":
        return np.dtype(np.int64)
    return result


def expanded(xp: ModuleType, array: Array, shape: tuple[int, ...]) -> Array:
    """One number everywhere, as broadcast_to gives it, to be read alone. Ones that passes begin with are expanded
    once."""
    known = _EXPANDED.get(id(array))
    if known is None:
        return _expanded(xp, array, shape)
    found = known.get(shape)
    if found is None:
        found = _expanded(xp, array, shape)
        if len(known) < _MOST_ONES:
            known[shape] = found
    return found


def _expanded(xp: ModuleType, array: Array, shape: tuple[int, ...]) -> Array:
    """Of NumPy's arrays in less time than broadcast_to takes."""
    if xp is not np or array.__class__ is not np.ndarray:
        return xp.broadcast_to(array, shape)
    found: Array = np.ndarray(shape, array.dtype, array, 0, (0,) * len(shape))
    found.flags.writeable = False
    return found


def device_of(array: Array) -> str:
    """ "cpu" or "cuda:<index>"."""
    return "cpu" if isinstance(array, np.ndarray) else f"cuda:{array.data.device_id}"


def to_device(array: Array, device: str) -> Array:
    """Copy an array to "cpu", "cuda" (the current GPU) or "cuda:<index>"; itself when it is there already.

    Raises:
        ValueError: for any other device name.
        RuntimeError: when CuPy or the GPU is missing.
    """
    if device == "cpu":
        return array if isinstance(array, np.ndarray) else array.get()
    kind, _, index = device.partition(":")
    if kind != "cuda" or (index and not index.isdigit()):
        raise ValueError(f'unknown device {device!r}: use "cpu", "cuda" or "cuda:<index>"')
    cupy = _cupy(device)
    count = cupy.cuda.runtime.getDeviceCount()
    number = int(index) if index else cupy.cuda.runtime.getDevice()
    if number >= count:
        raise RuntimeError(f"device {device!r} asked for, but this machine has {count} GPU(s)")
    with cupy.cuda.Device(number):
        return cupy.asarray(array)


def _cupy(device: str) -> ModuleType:
    try:
        import cupy

        cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy raises its own error types when the driver is missing
        raise RuntimeError(f"device {device!r} needs CuPy and a CUDA driver: {error}") from error
    return cupy


def from_dlpack(source: Any) -> Array:
    """The array that shares memory with any object that speaks DLPack (torch, CuPy, JAX ...)."""
    kind, _ = source.__dlpack_device__()
    if int(kind) in (1, 3):  # kDLCPU, kDLCUDAHost
        return np.from_dlpack(source)
    return _cupy("cuda").from_dlpack(source)


def as_rows(array: Array) -> Array:
    """A matrix whose rows are what lies along the last axis. Where that has size 0, reshape(-1, 0) could not tell how
    many rows there are."""
    shape = array.shape
    return array if len(shape) == 2 else array.reshape(math.prod(shape[:-1]), shape[-1])


def flat_alike(xp: ModuleType, *arrays: Array) -> list[Array] | None:
    """Flat views of NumPy arrays of float32 or float64 in the order in which their numbers lie in memory, where that is
    the same for all and there are no gaps; else None."""
    first = arrays[0]
    if xp is not np or first.dtype not in (FLOAT32, FLOAT64):
        return None
    if any(a.dtype != first.dtype or a.shape != first.shape for a in arrays[1:]):
        return None
    if all(a.flags.c_contiguous for a in arrays):
        return [a.reshape(-1) for a in arrays]
    axes = sorted(range(first.ndim), key=lambda k: -first.strides[k])
    moved = [a.transpose(axes) for a in arrays]
    return [a.reshape(-1) for a in moved] if all(a.flags.c_contiguous for a in moved) else None


def add_at(xp: ModuleType, target: Array, key: Any, values: Array) -> None:
    """target[key] += values, counting every repetition of an index."""
    if xp is not np and target.dtype.kind == "c":
        # CuPy's add.at knows no complex numbers; the parts are views.
        xp.add.at(target.real, key, values.real)
        xp.add.at(target.imag, key, values.imag)
    else:
        xp.add.at(target, key, values)


def add_rows_at(xp: ModuleType, target: Array, rows: Array, values: Array) -> None:
    """target[rows[i]] += values[i] for a 1-D `rows`, much faster than add_at."""
    if xp is not np:
        add_at(xp, target, rows, values)
    elif not values.size:
        return
    elif target.dtype == values.dtype and target.dtype in (FLOAT32, FLOAT64) and target.flags.c_contiguous:
        width = math.prod(target.shape[1:])
        places = np.ascontiguousarray(rows, np.int64)
        kernels.add_rows(places, np.ascontiguousarray(values).reshape(len(rows), width), target.reshape(-1, width))
    else:
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        target[ordered[starts]] += np.add.reduceat(values[order], starts, axis=0)
