"""Inputs of every kind and dtype, made from (rank, dtype, kind) alone: every rank can make every other rank's."""

import inspect
import os
from collections.abc import Callable, Sequence
from functools import wraps
from itertools import product
from typing import Any

import numpy as np

DTYPES = ["float32", "float64", "complex64", "complex128", "int32", "int64", "bool"]
KINDS = ["contiguous", "strided", "fortran", "read-only", "zero-size", "scalar", "big-endian", "list"]
FEW = "QDIST_TEST_FEW_KINDS"
"""Set where kinds that are only prepared in another way are left out."""
TESTED_KINDS = ["contiguous", "zero-size", "scalar"] if FEW in os.environ else KINDS


def each(**axes: Sequence[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Runs a test for every combination of these arguments, as parametrize would, in one item of pytest: an item takes
    longer than most calls, and on every rank."""

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(test)
        others = [p for name, p in signature.parameters.items() if name not in axes]

        @wraps(test)
        def run(**given: Any) -> None:
            for values in product(*axes.values()):
                case = dict(zip(axes, values, strict=True))
                try:
                    test(**given, **case)
                except Exception as error:
                    error.add_note(f"with {case}")
                    raise

        run.__signature__ = signature.replace(parameters=others)  # type: ignore[attr-defined]
        return run

    return decorate


def make(rank: int, dtype: str, kind: str, rows: int | None = None) -> np.ndarray | list:
    """Rank ``rank``'s input; with ``rows``, one of that many rows (a leading axis)."""
    rng = np.random.default_rng([rank, DTYPES.index(dtype), KINDS.index(kind), rows or 0])
    shape: tuple[int, ...] = {"zero-size": (0, 3), "scalar": (), "strided": (6, 8)}.get(kind, (3, 5))
    if rows is not None:
        shape = (rows, *shape)
    real = rng.integers(1, 4, shape)
    if np.dtype(dtype).kind == "b":
        values = real > 2
    elif np.dtype(dtype).kind == "c":
        values = real + 1j * rng.integers(-2, 3, shape)
    else:
        values = real
    x = np.asarray(values).astype(dtype)
    if kind == "strided":
        return x[..., ::2]
    if kind == "fortran":
        return np.asfortranarray(x)
    if kind == "read-only":
        x.flags.writeable = False
    if kind == "big-endian":
        return x.astype(x.dtype.newbyteorder(">"))
    if kind == "list":
        return x.tolist()
    return x


def expected_dtype(dtype: str, kind: str) -> np.dtype:
    """A list has the dtype that NumPy gives it; everything else keeps its own."""
    if kind != "list":
        return np.dtype(dtype)
    return np.asarray(make(0, dtype, kind)).dtype
