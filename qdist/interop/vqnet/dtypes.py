"""VQNet's numbers for dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np

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


def as_dtype(dtype: Any) -> np.dtype:
    """The NumPy dtype of one of VQNet's numbers; anything that NumPy takes for a dtype is accepted too.

    Raises ValueError for a number that VQNet does not have.
    """
    if isinstance(dtype, int) and not isinstance(dtype, bool):
        if not 0 <= dtype < len(_NAMES):
            raise ValueError(f"dtype={dtype}: VQNet's dtypes are 0 (kbool) to {len(_NAMES) - 1} (kcomplex128)")
        return np.dtype(_NAMES[dtype])
    return np.dtype(dtype)
