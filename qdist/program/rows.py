"""Row programs of a compiled circuit: batches of small states in one call of a kernel, values and gradients alike."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.backends import RowKernel
from qdist.circuit.measurements import without_idle_resets
from qdist.plan.observables.row_outputs import lowered_outputs
from qdist.plan.plan import Plan
from qdist.plan.rows import RowRecords, lowered, row_operations
from qdist.program import row_outputs
from qdist.program.row_outputs import Columns
from qdist.program.source import Source
from qdist.progress import Progress, is_shown
from qdist.state.outputs import Output
from qdist.state.recent import Recent

__all__ = ["Reading", "RowProgram", "RowPrograms"]

_KEPT_BYTES = 1 << 26
"""States of a forward run that are kept for its backward run."""

_LONG = 1 << 24
"""Amplitudes of all rows from which a call may take a second, and shows its progress."""


class Reading(NamedTuple):
    """Outputs as the kernel takes them, and as the caller has them."""

    native: Any
    columns: Columns
    is_flat: bool
    """Whether the kernel's columns are the outputs, one behind the other: there are no variances."""
    is_numbers: bool
    """Whether each of them is a number, and so an output by itself."""


class RowProgram:
    """A circuit of which some parameters are given for every row and the others for all rows together."""

    def __init__(self, kernel: RowKernel, records: RowRecords, dtype: np.dtype[Any]) -> None:
        self.kernel, self._records, self._dtype = kernel, records, dtype
        self.num_qubits, self.num_operations = records.num_qubits, len(records.rotations) + len(records.operations)
        self._readings: Recent[Reading] = Recent(16)

    def reading(self, outputs: Sequence[Output]) -> Reading:
        """Outputs that are fit (``row_outputs.unfit``). Raises StateError for observables that are not Hermitian."""
        n = self._records.num_qubits
        key = row_outputs.key(outputs, n)
        found = self._readings.get(key)
        if found is None:
            columns = row_outputs.columns(outputs, n)
            native = self.kernel.outputs(lowered_outputs(self._records.frame, columns.parts))
            is_flat = not columns.has_variances
            found = Reading(native, columns, is_flat, is_flat and not any(columns.shapes))
            self._readings.put(key, found)
        return found

    def values(
        self, rows: NDArray[np.float64], shared: NDArray[np.float64], reading: Reading, keep: bool = False
    ) -> tuple[NDArray[np.float64], Any] | None:
        """The kernel's values, (batch, columns), and the states if they are kept: few enough, and asked for. None where
        a parameter is not finite."""
        count = len(rows)
        keep = keep and self.kernel.kept_bytes(count) <= _KEPT_BYTES
        if not reading.is_flat:
            # Differences of large numbers.
            rows = rows.astype(np.float64, copy=False)
        if count << self.num_qubits < _LONG:
            return self.kernel.forward(rows, shared, reading.native, keep)
        with self._progress(len(rows)):
            return self.kernel.forward(rows, shared, reading.native, keep)

    def vjp(
        self,
        rows: NDArray[np.float64],
        shared: NDArray[np.float64],
        reading: Reading,
        cotangents: NDArray[Any],
        by_rows: bool = True,
        by_shared: bool = True,
        values: NDArray[np.float64] | None = None,
        kets: Any = None,
    ) -> tuple[NDArray[np.float64], NDArray[np.float64] | None, NDArray[np.float64] | None] | None:
        """The kernel's values, and the derivatives by the parameters of rows and by the shared ones, as far as wanted.

        cotangents: (batch, numbers of all outputs), one output behind the other. values, kets: as ``values`` gave
        them. None where a parameter is not finite.
        """
        if values is None and not reading.is_flat:
            found = self.values(rows, shared, reading, keep=True)
            if found is None:
                return None
            values, kets = found
        weights = cotangents
        if not reading.is_flat or cotangents.__class__ is np.ndarray:
            weights = reading.columns.cotangents(cotangents, values)
        if len(rows) << self.num_qubits < _LONG:
            return self.kernel.backward(rows, shared, reading.native, weights, by_rows, by_shared, kets, values)
        with self._progress(len(rows)):
            return self.kernel.backward(rows, shared, reading.native, weights, by_rows, by_shared, kets, values)

    def states(self, rows: NDArray[np.float64], shared: NDArray[np.float64]) -> NDArray[Any] | None:
        """(batch, 2**n) in logical order; None where a parameter is not finite."""
        found = np.empty((len(rows), 1 << self._records.num_qubits), self._dtype)
        with self._progress(len(rows)):
            return found if self.kernel.states(rows, shared, found) else None

    def _progress(self, count: int) -> Progress:
        """One call of a kernel has no steps to count: what is shown is the time. Short calls do without."""
        return Progress(f"{count} rows", shown=count << self.num_qubits >= _LONG and is_shown())


class RowPrograms:
    """The row programs of a circuit: one for each choice of what is of rows."""

    def __init__(self, source: Source, plan: Plan) -> None:
        self._source, self._plan = source, plan
        self._made: dict[tuple[tuple[int, ...], tuple[int, ...] | None], RowProgram] = {}
        self.read_alone: Recent[tuple[RowKernel, Any]] = Recent(16)
        """The kernel of one parameter set, and observables as it reads them."""
        self.read_last: tuple[Any, Any] = None, None
        """The observable that was read last, and what was found for it."""

    @cached_property
    def unfit(self) -> str:
        """Why there are none; empty where there are."""
        return self._plan.rows_unfit

    @cached_property
    def one_row(self) -> int:
        """Qubits up to which one parameter set goes as a batch of one row."""
        return self._plan.one_row

    def takes(self, outputs: Sequence[Output]) -> bool:
        """Whether such outputs of a batch are computed by a row program."""
        return not self.unfit and not row_outputs.unfit(outputs, self._plan.num_qubits)

    def of(
        self, row_parameters: Sequence[int] | None = None, shared_parameters: Sequence[int] | None = None
    ) -> RowProgram:
        """The one in which these parameters are of rows (by default all), in this order, and the others shared: in this
        order, by default that of the circuit's."""
        source = self._source
        own = tuple(range(source.affine.num_parameters)) if row_parameters is None else tuple(row_parameters)
        chosen = own, None if shared_parameters is None else tuple(shared_parameters)
        found = self._made.get(chosen)
        if found is None:
            circuit = source.circuit.with_instructions(without_idle_resets(source.body))
            records = lowered(self._plan.num_qubits, row_operations(circuit), source.affine, *chosen)
            found = RowProgram(source.backend.rows(records, self._plan.rows_in_double), records, source.dtype)
            self._made[chosen] = found
        return found
