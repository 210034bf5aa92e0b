"""One parameter set of a small circuit as a batch of one row: a call of a kernel, with little around it.

The row has no parameters of its own, since phases of shared ones are one table where those of rows are a rotation each.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends import RowKernel
from qdist.circuit import PauliSum
from qdist.circuit.binding import ParameterValues
from qdist.program.runner import Runner
from qdist.state.measuring.expectation import Observable, as_pauli_sum
from qdist.state.outputs import Expectation, Output

__all__ = ["gradient", "takes", "value", "values", "vjp"]

_ROW = np.zeros((1, 0))
"""Parameters of rows, where all are shared by the one there is."""

_ONE = np.ones((1, 1))
"""The cotangent of one number."""


def takes(program: Runner, outputs: Sequence[Output]) -> bool:
    """Whether one parameter set goes as a batch of one row."""
    return program.num_qubits <= program.row_programs.one_row and program.row_programs.takes(outputs)


def value(program: Runner, observable: Observable, params: ParameterValues | None) -> float | None:
    """The expectation value for one parameter set or what is bound; None where it does not go so."""
    found = _reading(program, observable)
    if found is None or (theta := program.unchecked(params)) is None:
        return None
    kernel, outputs = found
    read = kernel.forward(_ROW, theta, outputs, False)
    program.note(theta, read is not None)
    assert read is not None, "the values are finite"
    return read[0].item()  # type: ignore[no-any-return]


def values(program: Runner, outputs: Sequence[Output], params: ParameterValues | None) -> list[Any] | None:
    """The same of several outputs that are numbers."""
    if not takes(program, outputs) or (theta := program.noted(params).theta) is None:
        return None
    rows = program.row_programs.of(())
    read = rows.values(_ROW, theta, rows.reading(outputs))
    assert read is not None, "the values are finite"
    return read[0][0].tolist()  # type: ignore[no-any-return]


def gradient(
    program: Runner, observable: Observable, params: ParameterValues | None
) -> tuple[float, NDArray[np.float64]] | None:
    """The expectation value and its derivatives by the parameters; None where it does not go so."""
    found = _reading(program, observable)
    if found is None or (theta := program.unchecked(params)) is None:
        return None
    kernel, outputs = found
    read = kernel.backward(_ROW, theta, outputs, _ONE, False, True)
    program.note(theta, read is not None)
    assert read is not None, "the values are finite"
    number, _, slopes = read
    assert slopes is not None, "asked for"
    return number.item(), program.source.pulled_back(theta, slopes)


def vjp(
    program: Runner, outputs: Sequence[Output], theta: NDArray[np.float64], cotangents: Sequence[NDArray[Any]]
) -> tuple[list[Any], NDArray[np.float64]]:
    """``Program.vjp`` of one parameter set."""
    rows = program.row_programs.of(())
    reading = rows.reading(outputs)
    flat = np.concatenate([g.ravel() for g in cotangents])[None]
    found = rows.vjp(_ROW, theta, reading, flat, by_rows=False)
    assert found is not None, "the values are finite"
    numbers, _, slopes = found
    assert slopes is not None, "asked for"
    slopes = program.source.pulled_back(theta, slopes)
    if reading.is_numbers:
        return numbers[0].tolist(), slopes
    return [float(v[0]) if v.ndim == 1 else v[0] for v in reading.columns.values(numbers)], slopes


def _reading(program: Runner, observable: Observable) -> tuple[RowKernel, Any] | None:
    """The kernel, and the observable as it reads it, found by the object, its text or its numbers; None where it has to
    go another way."""
    programs = program.row_programs
    last, found = programs.read_last
    if observable is last:
        return found
    if program.num_qubits > programs.one_row or programs.unfit:
        return None
    key = observable if observable.__class__ is str else as_pauli_sum(observable, program.num_qubits).key
    found = programs.read_alone.get(key)
    if found is None:
        rows = programs.of(())
        found = rows.kernel, rows.reading([Expectation(as_pauli_sum(observable, program.num_qubits))]).native
        programs.read_alone.put(key, found)
    if isinstance(observable, str | PauliSum):  # Others may change.
        programs.read_last = observable, found
    return found
