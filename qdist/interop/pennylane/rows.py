"""Batches of tapes as row programs: parameters of the rows apart from those that all rows share, values and gradients.

The states of a forward run are kept for the backward run that follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .tapes import TapeProgram

__all__ = ["gradient", "takes", "values"]


def takes(found: TapeProgram, outputs: Sequence[Any], starts: NDArray[Any] | None) -> bool:
    """Whether such outputs of a batch (None: a measurement that is none) are computed by a row program."""
    if starts is not None or any(output is None for output in outputs):
        return False
    return found.program.row_programs.takes(outputs)


def values(
    found: TapeProgram, outputs: Sequence[Any], theta: NDArray[np.float64], columns: Sequence[int], keep: bool
) -> list[NDArray[np.float64]] | None:
    """Each output's values of all rows; None where a parameter is not finite.

    columns: of ``theta``, those that differ between rows.
    """
    program = found.program.row_programs.of(columns)
    reading = program.reading(outputs)
    read = program.values(*_divided(theta, columns), reading, keep)
    if read is None:
        return None
    found.kept_rows = (theta, tuple(columns), reading, *read) if keep else None
    return reading.columns.values(read[0])


def gradient(
    found: TapeProgram,
    outputs: Sequence[Any],
    theta: NDArray[np.float64],
    columns: Sequence[int],
    cotangents: Sequence[Any],
) -> NDArray[np.float64] | None:
    """An array of theta's shape whose entries are the derivatives by the rows' own parameters, and whose sums over the
    rows are those by the shared ones. None where a parameter is not finite."""
    program = found.program.row_programs.of(columns)
    reading = program.reading(outputs)
    kept, found.kept_rows = found.kept_rows, None
    read, kets = None, None
    if kept is not None and kept[1] == tuple(columns) and kept[2] is reading and np.array_equal(kept[0], theta):
        read, kets = kept[3:]
    rows, shared = _divided(theta, columns)
    flat = np.concatenate([np.reshape(g, (len(theta), -1)) for g in cotangents], axis=1)
    swept = program.vjp(rows, shared, reading, flat, bool(len(columns)), bool(len(shared)), read, kets)
    if swept is None:
        return None
    _, by_rows, by_shared = swept
    result = np.zeros_like(theta)
    if by_rows is not None:
        result[:, columns] = by_rows
    if by_shared is not None:
        result[0, _others(theta, columns)] = by_shared
    return result


def _divided(theta: NDArray[np.float64], columns: Sequence[int]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rows = np.ascontiguousarray(theta[:, list(columns)])
    return rows, np.ascontiguousarray(theta[0, _others(theta, columns)])


def _others(theta: NDArray[np.float64], columns: Sequence[int]) -> list[int]:
    chosen = set(columns)
    return [k for k in range(theta.shape[1]) if k not in chosen]
