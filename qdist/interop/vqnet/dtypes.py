"""VQNet's numbers for dtypes, and the one that parameters have unless they are given another."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["as_dtype", "get_default_dtype", "real", "set_default_dtype"]

kbool, kuint8, kint8, kint16, kint32, kint64, kfloat32, kfloat64, kcomplex64, kcomplex128 = range(10)

_NAMES = (
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float32",
    "float64",
    "complex64",
    "complex128",
)
_default = kfloat32


def as_dtype(dtype: Any) -> np.dtype:
    """The NumPy dtype of one of VQNet's numbers; anything that NumPy takes for a dtype is accepted too.

    Raises ValueError for a number that VQNet does not have.
    """
    if isinstance(dtype, int) and not isinstance(dtype, bool):
        if not 0 <= dtype < len(_NAMES):
            raise ValueError(f"dtype={dtype}: VQNet's dtypes are 0 (kbool) to {len(_NAMES) - 1} (kcomplex128)")
        return np.dtype(_NAMES[dtype])
    return np.dtype(dtype)


def get_default_dtype() -> int:
    """Of layers and parameters that are made without a dtype: kfloat32 unless set_default_dtype was called."""
    return _default


def set_default_dtype(dtype: int) -> None:
    """kfloat32 or kfloat64 for layers and parameters that are made without a dtype from now on."""
    global _default
    if dtype not in (kfloat32, kfloat64):
        raise ValueError(f"dtype={dtype}: parameters are kfloat32 ({kfloat32}) or kfloat64 ({kfloat64}) by default")
    _default = dtype


def real(dtype: Any) -> np.dtype:
    """The dtype of a layer's parameters: the default one when not given."""
    return as_dtype(_default if dtype is None else dtype)
