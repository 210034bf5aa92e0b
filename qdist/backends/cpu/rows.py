"""Row programs on the CPU: a vector's lanes are rows of the batch, and threads take blocks of rows."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends import memory
from qdist.native import kernels
from qdist.plan.observables.row_outputs import RowOutputRecords
from qdist.plan.rows import RowRecords

__all__ = ["CpuRows"]


class CpuRows:
    """A row program and the calls that run it. Safe for several threads at once."""

    def __init__(self, records: RowRecords, in_double: bool) -> None:
        self._native: kernels.RowProgram64 | kernels.RowProgram128
        self._native = (kernels.RowProgram128 if in_double else kernels.RowProgram64)(*records.arguments())
        self._real = np.dtype(np.float64 if in_double else np.float32)
        self._spare: NDArray[Any] | None = None
        self._kept_size = lru_cache(maxsize=16)(self._native.kept_size)

    def outputs(self, records: RowOutputRecords) -> kernels.RowOutputs:
        return kernels.RowOutputs(
            records.num_qubits, records.num_outputs, records.strings, records.coefficients, records.marginals
        )

    def kept_bytes(self, count: int) -> int:
        return self._kept_size(count) * self._real.itemsize

    def forward(
        self, rows: NDArray[np.float64], shared: NDArray[np.float64], outputs: kernels.RowOutputs, keep: bool
    ) -> tuple[NDArray[np.float64], Any] | None:
        values = np.empty((len(rows), outputs.count), rows.dtype)
        kets = self._room(len(rows)) if keep else None
        done = self._native.forward(_numbers(rows), _numbers(shared), outputs, kets, values)
        return (values, kets) if done else None

    def backward(
        self,
        rows: NDArray[np.float64],
        shared: NDArray[np.float64],
        outputs: kernels.RowOutputs,
        cotangents: NDArray[np.float64],
        by_rows: bool,
        by_shared: bool,
        kets: Any = None,
        values: NDArray[np.float64] | None = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, NDArray[np.float64] | None] | None:
        if values is None or kets is None:
            kets, values = None, np.empty((len(rows), outputs.count), rows.dtype)
        row_gradient = np.empty((len(rows), rows.shape[1]), rows.dtype) if by_rows else None
        shared_gradient = np.empty(len(shared), shared.dtype) if by_shared else None
        given = _numbers(rows), _numbers(shared), outputs, kets, values, _numbers(cotangents)
        done = self._native.backward(*given, row_gradient, shared_gradient)
        if kets is not None:
            self._spare = kets
        return (values, row_gradient, shared_gradient) if done else None

    def states(self, rows: NDArray[np.float64], shared: NDArray[np.float64], out: NDArray[Any]) -> bool:
        return self._native.states(rows, shared, out)

    def _room(self, count: int) -> NDArray[Any]:
        """Memory for the states of a forward run: that of an earlier one, if its backward run is over. New pages cost
        as much as a sweep."""
        size = self._kept_size(count)
        spare, self._spare = self._spare, None
        if spare is not None and len(spare) == size:
            return spare
        return memory.aligned_zeros(size, self._real)


def _numbers(array: Any) -> Any:
    """As the native module takes them: NumPy's array, or the capsule of what only lends its memory."""
    return array if array.__class__ is np.ndarray else array.__dlpack__()
