"""Batches of parameter sets: which way they go, and what they give.

Small circuits go as row programs (program/rows.py), where the device has kernels for them. What those do not take runs
state by state in the kernels of single circuits, all states of a part of the batch in one call if they are small.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends import ObservableKernel, StateError, on_host
from qdist.backends.memory import check_copies
from qdist.program.runner import Runner
from qdist.progress import counted
from qdist.state.checking import checks
from qdist.state.measuring import expectation
from qdist.state.measuring.expectation import Observable
from qdist.state.outputs import Expectation, Output, observables_of
from qdist.state.outputs import values as outputs_of_state
from qdist.state.statevector import StateVector

__all__ = [
    "check_outputs",
    "check_states",
    "check_unitary",
    "each_state",
    "expectations",
    "fit",
    "one_part",
    "output_values",
    "parts",
    "row_vjp",
    "states",
    "values",
    "values_of_states",
    "vjp",
]

# States of so many qubits go to the kernels in batches, threads over the rows; larger ones one by one.
_FEWEST_QUBITS, _MOST_QUBITS = 3, 16
_BATCH_BYTES = 1 << 26
"""Memory that the kets and bras of a batch may take at a time."""
_MOST_ROWS = 65535
"""The most rows of a CUDA grid."""


def fit(program: Runner, outputs: Sequence[Output]) -> bool:
    """Whether batches run in the kernels: small states on one rank from |0...0>, and nothing but expectation values."""
    return _in_one_call(program) and bool(observables_of(outputs))


def _in_one_call(program: Runner) -> bool:
    small = _FEWEST_QUBITS <= program.num_qubits <= _MOST_QUBITS and not program.plan.far
    return small and len(program.plan.parts) == 1 and program.plan.parts[0].instruction is None


_NONE = np.zeros(0)
"""Shared parameters, where all are of rows."""


def expectations(program: Runner, observable: Observable, params: Any) -> NDArray[np.float64]:
    """``Program.expectation`` of a batch without shots: one value a row."""
    theta = checks.checked_batch(params, program.circuit.num_parameters, program.comm)
    outputs = [Expectation(expectation.as_pauli_sum(observable, program.num_qubits))]
    _check_without_rows(program, outputs, len(theta))
    if program.plan.far or any(part.instruction is not None for part in program.plan.parts):
        each_row = counted("rows", theta, program.comm)
        return np.array([program.evolved(row).expectation(observable) for row in each_row])
    if program.row_programs.takes(outputs):
        rows = program.row_programs.of()
        found = rows.values(program.source.extended(theta), _NONE, rows.reading(outputs))
        assert found is not None, "the values are finite"
        return found[0][:, 0]
    if fit(program, outputs):
        return values(program, outputs, program.source.extended(theta))[:, 0]
    each = (x for some in parts(program, len(theta)) for x in states(program, theta[some]))
    return np.array([StateVector.from_amplitudes(x, device=program.device).expectation(observable) for x in each])


def output_values(program: Runner, outputs: Sequence[Output], theta: NDArray[np.float64]) -> list[NDArray[Any]]:
    """The values of any outputs for each row of checked parameters, each with the batch in front; of a unitary
    circuit."""
    bound = program.source.extended(theta)
    one_row = len(theta) == 1 and program.num_qubits > program.row_programs.one_row
    if program.row_programs.takes(outputs) and not one_row:
        rows = program.row_programs.of()
        reading = rows.reading(outputs)
        found = rows.values(bound, _NONE, reading)
        assert found is not None, "the values are finite"
        return reading.columns.values(found[0])
    if fit(program, outputs) and not one_row:
        return list(values(program, outputs, bound).T)
    every = [np.empty((len(theta), *o.shape(program.num_qubits)), o.dtype) for o in outputs]
    state = None
    for b, row in counted("rows", list(enumerate(theta)), program.comm):
        runner, gates = program.bind_for(outputs, row)
        state = runner.evolved(out=state)
        for numbers, value in zip(every, outputs_of_state(state, outputs, gates)):
            numbers[b] = value
    return every


def states(program: Runner, theta: NDArray[np.float64]) -> NDArray[Any]:
    """``Program.run_batch``."""
    check_unitary(program)
    check_states(program, len(theta))
    if not program.row_programs.unfit:
        states = program.row_programs.of().states(program.source.extended(theta), _NONE)
        assert states is not None, "the values are finite"
        return states
    if not program.plan.far:
        return on_host(program.run_rows(program.source.extended(theta)))
    found = np.empty((len(theta), 1 << program.num_qubits), program.dtype)
    for row, values in counted("rows", list(zip(found, theta)), program.comm):
        row[:] = program.evolved(values).amplitudes()
    return found


def each_state(program: Runner, theta: NDArray[np.float64]) -> Iterator[StateVector]:
    """The state of each row of checked parameters, one after the other; each is valid until the next. Small ones are
    computed many in a call, threads over the rows."""
    if not _in_one_call(program):
        for row in theta:
            yield program.evolved(row)
        return
    state = StateVector(program.num_qubits, dtype=program.dtype, device=program.device)
    ((_, amplitudes),) = state.shards()
    for some in parts(program, len(theta)):
        for ket in program.run_rows(program.source.extended(theta[some])):
            amplitudes[:] = ket
            yield state


def values(program: Runner, outputs: Sequence[Output], theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """The expectation values for each row of what executors bind: float64 of shape (batch, number of outputs)."""
    strings, _ = _plan(program, outputs, products=False)
    found = np.zeros((len(theta), len(outputs)))
    for some in counted("parts of the batch", parts(program, len(theta)), program.comm):
        kets = program.run_rows(theta[some])
        strings.add_values(kets, found[some])
    return found


def values_of_states(program: Runner, observables: Sequence[Observable], states: Any) -> NDArray[np.float64]:
    """The expectation values in given states of a program on one rank, on its device: (states, observables)."""
    outputs = [Expectation(observable) for observable in observables]
    found = np.zeros((len(states), len(outputs)))
    if program.num_qubits < _FEWEST_QUBITS:
        for row, state in zip(found, states):
            row[:] = StateVector.from_amplitudes(state, device=program.device).expectations(observables)
        return found
    strings, _ = _plan(program, outputs, products=False)
    for some in parts(program, len(states)):
        strings.add_values(states[some], found[some])
    return found


def vjp(
    program: Runner,
    outputs: Sequence[Output],
    theta: NDArray[np.float64],
    cotangents: Sequence[NDArray[Any]],
    kets: Any = None,
) -> tuple[list[Any], NDArray[np.float64]]:
    """``Program.vjp`` of a batch that fits the kernels of single circuits, in parts that take a bounded amount of
    memory; the kets may be given where they are ``one_part``."""
    program = program.for_gradients
    ((_, executor, _),) = program.steps_back
    strings, constants = _plan(program, outputs, traceless=True)
    found, weights = np.zeros((len(theta), len(outputs))), np.stack(cotangents, axis=1)
    angles = program.affine.rows(theta)
    by_angle = np.zeros_like(angles)
    for some in counted("parts of the batch", parts(program, len(theta)), program.comm):
        part = program.run_rows(theta[some]) if kets is None else kets
        bras = program.backend.empty(part.shape, program.dtype)
        strings.apply_rows(part, weights[some], bras, found[some])
        shifts = np.einsum("bk,bk->b", weights[some], found[some])
        with program.lock:
            executor.run_back_batch(part, bras, angles[some], shifts, by_angle[some])
    return list((found + constants).T), program.affine.transposed_rows(by_angle)


def row_vjp(
    program: Runner, outputs: Sequence[Output], theta: NDArray[np.float64], cotangents: Sequence[NDArray[Any]]
) -> tuple[list[Any], NDArray[np.float64]]:
    """``Program.vjp`` of a batch as a row program."""
    rows = program.row_programs.of()
    reading = rows.reading(outputs)
    flat = [np.reshape(g, (len(theta), -1 if len(theta) else math.prod(g.shape[1:]))) for g in cotangents]
    found = rows.vjp(theta, _NONE, reading, np.concatenate(flat, axis=1), by_shared=False)
    assert found is not None, "the values are finite"
    values, gradient, _ = found
    assert gradient is not None, "asked for"
    return reading.columns.values(values), gradient


def check_unitary(program: Runner) -> None:
    """Raises StateError for what cannot run as a batch."""
    if any(part.instruction is not None for part in program.plan.parts):
        raise StateError(
            "circuits that reset, initialise, branch or measure mid-circuit cannot run as a batch: run(params) takes "
            "one row at a time, expectation(observable, rows, shots=1000) all of them"
        )


def one_part(program: Runner, count: int) -> bool:
    """Whether the gradients of so many rows are computed all at once."""
    return len(parts(program, count)) == 1


def check_states(program: Runner, count: int) -> None:
    """Raises MemoryError, on all ranks, where the states of so many rows do not fit: every rank gets all of them."""
    state = program.dtype.itemsize << program.num_qubits
    # On several ranks a row's amplitudes come together beside the result.
    nbytes = (count + bool(program.plan.far)) * state
    what, way_out = f"the states of {count} rows of {program.num_qubits} qubits", "give fewer rows at a time"
    check_copies(program.comm, nbytes, what, way_out)
    if not program.plan.far:
        program.backend.check_room(program.comm, count * state, what, way_out)


def check_outputs(program: Runner, outputs: Sequence[Output], count: int) -> None:
    """Raises MemoryError, on all ranks, where the values and gradients of so many rows do not fit."""
    _check_without_rows(program, outputs, count)
    numbers = sum(math.prod(o.shape(program.num_qubits)) * np.dtype(o.dtype).itemsize for o in outputs)
    numbers += 8 * (program.circuit.num_parameters + 2 * len(program.affine.constants))
    check_copies(
        program.comm, count * numbers, f"the outputs and gradients of {count} rows", "give fewer rows at a time"
    )


def _check_without_rows(program: Runner, outputs: Sequence[Output], count: int) -> None:
    """Raises StateError for what is no output of such a program, where there is no row whose run would."""
    for output in outputs if count == 0 else ():
        output.frozen(program.num_qubits)


def _plan(
    program: Runner, outputs: Sequence[Output], products: bool = True, traceless: bool = False
) -> tuple[ObservableKernel, NDArray[np.float64]]:
    """The kernel for the strings of all observables and, where ``traceless``, the coefficients of the identity that it
    leaves out."""
    sums = [expectation.as_pauli_sum(o, program.num_qubits) for o in observables_of(outputs)]
    like = StateVector(program.num_qubits, program.dtype, layout=program.plan.layout, device=program.device)
    found = expectation.lowered(like, sums, real=True, products=products, traceless=traceless)
    (kernel,) = found.kernels
    return kernel, found.constants


def parts(program: Runner, count: int) -> list[slice]:
    """So many rows in parts whose kets and bras take a bounded amount of memory."""
    rows = min(_MOST_ROWS, max(1, _BATCH_BYTES // (2 * program.dtype.itemsize << program.num_qubits)))
    return [slice(start, min(start + rows, count)) for start in range(0, count, rows)]
