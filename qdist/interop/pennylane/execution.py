"""Running a tape without mid-circuit measurements: its state, or those of its batch, and what is read from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pennylane.tape import QuantumScript

from qdist.program import batches
from qdist.state.measuring.expectation import expectations
from qdist.state.outputs import Expectation
from qdist.state.statevector import StateVector

from . import rows
from .binding import bound
from .measurements import output_of, read
from .tapes import Compiler, TapeProgram

__all__ = ["analytic", "in_rows", "outputs_of", "rows_of", "stacked"]


def analytic(tape: QuantumScript, compiler: Compiler, wires: Any, keep: bool) -> Any:
    """The results of a tape without shots; ``keep``: whether its state is kept for a derivative that may follow."""
    found, place, theta, starts = bound(tape, compiler, wires)
    outputs = outputs_of(tape, place)
    if theta.ndim == 2:
        return _batch(tape, found, theta, starts, outputs, place, compiler, keep)
    sums = [output.observable for output in outputs if isinstance(output, Expectation)]
    first = found.first_state(theta) if starts is None else None
    if first is not None:
        # A derivative that follows begins with a run of its own.
        results = read(tape.measurements, outputs, first, place, compiler)
    elif starts is None and len(sums) == len(outputs):
        found.kept = None
        runner, gates = found.program.for_gradients_at(theta).bind_for(outputs, theta)
        ket = found.workspace = runner.evolved(out=found.workspace)
        layout = ket.layout
        results = list(expectations(ket, sums, gates))
        if keep:
            found.kept = theta, runner, layout
    else:
        results = read(tape.measurements, outputs, found.run(theta, starts), place, compiler)
    return _unpacked(results)


def outputs_of(tape: QuantumScript, place: Mapping[Any, int]) -> list[Any]:
    """The output of a Program for each measurement, None where there is none."""
    return [output_of(mp, place) for mp in tape.measurements]


def _batch(
    tape: QuantumScript,
    found: TapeProgram,
    theta: NDArray[np.float64],
    starts: NDArray[Any] | None,
    outputs: Sequence[Any],
    place: Mapping[Any, int],
    compiler: Compiler,
    keep: bool,
) -> Any:
    if rows.takes(found, outputs, starts):
        read_rows = rows.values(found, outputs, theta, found.row_columns(tape.operations), keep)
        if read_rows is not None:
            return _unpacked(read_rows)
    return in_rows(
        rows_of(found, theta, starts), lambda state: read(tape.measurements, outputs, state, place, compiler)
    )


def rows_of(found: TapeProgram, theta: NDArray[np.float64], starts: NDArray[Any] | None) -> Iterator[StateVector]:
    """The state of each row, valid until the next one; small ones that start from 0 are computed many at a time."""
    program = found.program
    if starts is not None:
        for k, row in enumerate(theta):
            yield found.run(row, starts[k] if starts.ndim == 2 else starts)
        return
    if program.plan.far or any(part.instruction is not None for part in program.plan.parts):
        for row in theta:
            yield found.run(row)
        return
    for some in batches.parts(program, len(theta)):
        for amplitudes in program.run_batch(theta[some]):
            yield StateVector.from_amplitudes(amplitudes, device=program.device)


def in_rows(states: Iterator[StateVector], read_one: Callable[[StateVector], list[Any]]) -> Any:
    """The results of all rows, each measurement's with the batch in front."""
    columns = zip(*[read_one(state) for state in states])
    return _unpacked([stacked(column) for column in columns])


def stacked(column: Sequence[Any]) -> Any:
    """The results of one measurement in all rows: an array, or a list of dictionaries."""
    return list(column) if isinstance(column[0], dict) else np.stack(column)


def _unpacked(results: Sequence[Any]) -> Any:
    return results[0] if len(results) == 1 else tuple(results)
