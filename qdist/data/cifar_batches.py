"""CIFAR-10's "python version": pickled dictionaries, read without letting them call anything.

A pickle names functions, and Python's own reader calls them. The files of this format need three of NumPy's; each is
replaced here by a stand-in that only keeps what it is given, and any other name is refused.
"""

from __future__ import annotations

import io
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["read_batch"]

_IMAGE = 3 * 32 * 32


class _Dtype:
    """Stands in for numpy.dtype: keeps the code of the element type."""

    def __init__(self, code: Any = None, *rest: Any) -> None:
        self.code = code

    def __setstate__(self, state: Any) -> None:
        pass  # The byte order, which single bytes do not have.


class _Array:
    """Stands in for numpy.ndarray: keeps its state."""

    state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state


def _reconstruct(*ignored: Any) -> _Array:
    """Stands in for NumPy's function of this name."""
    return _Array()


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    """Stands in for codecs.encode, by which Python 3 writes bytes in the format's old protocol."""
    if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError("bytes in another encoding than latin1")
    return text.encode("latin1")


_STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encode,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _STAND_INS:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which no file of this dataset does")
        return _STAND_INS[module, name]


def read_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images (n, 3, 32, 32) uint8 and labels (n,) int64 of data_batch_1 ... data_batch_5 or test_batch.

    Raises ValueError for a file that is none of these.
    """
    try:
        content = _Reader(io.BytesIO(path.read_bytes()), encoding="bytes").load()
    except (OSError, MemoryError):
        raise
    except Exception as error:  # A damaged pickle may fail in any way.
        raise ValueError(f"{path}: not a batch of CIFAR-10's Python version: {error}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path}: not a batch of CIFAR-10's Python version: a {type(content).__name__}, not a dict")
    named = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in content.items()}
    images, labels = _pixels(named.get("data")), named.get("labels")
    fits = isinstance(labels, list) and all(type(label) is int and 0 <= label <= 9 for label in labels)
    if images is None or not fits or len(labels) != len(images):  # type: ignore[arg-type]
        raise ValueError(f"{path}: 'data' must be uint8 of shape (n, {_IMAGE}), and 'labels' n numbers from 0 to 9")
    return images.reshape(-1, 3, 32, 32), np.array(labels, np.int64)


def _pixels(found: Any) -> np.ndarray | None:
    """The array whose state was kept, or None if it is not one of images."""
    if not isinstance(found, _Array) or not isinstance(found.state, tuple) or len(found.state) != 5:
        return None
    _, shape, dtype, by_columns, raw = found.state
    if not isinstance(dtype, _Dtype) or dtype.code not in ("u1", b"u1", "|u1", b"|u1") or not isinstance(raw, bytes):
        return None
    sizes = isinstance(shape, tuple) and len(shape) == 2 and all(type(n) is int and n >= 0 for n in shape)
    if not sizes or shape[1] != _IMAGE or math.prod(shape) != len(raw) or by_columns not in (True, False):
        return None
    return np.frombuffer(raw, np.uint8).reshape(shape, order="F" if by_columns else "C").copy(order="C")
