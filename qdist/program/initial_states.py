"""Runs and gradients of a batch that start from given states, one a row or one for all rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.errors import StateError
from qdist.circuit.binding import flat_values
from qdist.program import adjoint, batches
from qdist.program.runner import Runner
from qdist.progress import counted
from qdist.state.checking import checks, same
from qdist.state.outputs import Output, as_output, pull_back
from qdist.state.statevector import StateVector

__all__ = ["given", "is_batch", "run_batch", "value_and_grad", "vjp"]


def given(program: Runner, initial: Any) -> Any:
    """``initial`` as it was given, but amplitudes of one state, (2**n,), as that state."""
    if initial is None or isinstance(initial, StateVector):
        return initial
    if isinstance(initial, np.ndarray):
        return _state(program, initial) if initial.ndim == 1 and initial.dtype.kind in "biufc" else initial
    one = isinstance(initial, list | tuple) and len(initial) > 0 and all(isinstance(a, Number) for a in initial)
    return _state(program, initial) if one else initial


def is_batch(params: Any, initial: Any) -> bool:
    """Whether values or initial states are those of several rows."""
    return checks.is_batch(params) or not isinstance(initial, StateVector)


def run_batch(program: Runner, params: Any, initial: Any) -> NDArray[Any]:
    """See ``Program.run_batch``."""
    theta, starts = _rows(program, params, initial)
    batches.check_unitary(program)
    batches.check_states(program, len(theta))
    found = np.empty((len(theta), 1 << program.num_qubits), program.dtype)
    for row, values, start in counted("rows", zip(found, theta, starts), program.comm, len(theta)):
        row[:] = program.run_with(program.values(values), start, None, None).amplitudes()
    return found


def value_and_grad(
    program: Runner, observable: Any, params: Any, method: str, coefficients: bool, initial: Any
) -> tuple[Any, ...]:
    """See ``Program.value_and_grad``."""
    if method != "adjoint" or coefficients:
        raise StateError("initial= goes with method='adjoint' and without coefficients=True")
    if not is_batch(params, initial):
        (value,), gradient = adjoint.vjp(program, [observable], params, [1.0], initial=initial)
        return value, gradient
    theta, _ = _rows(program, params, initial)
    (value,), gradient, _ = vjp(program, [observable], params, [np.ones(len(theta))], initial)
    return value, gradient


def vjp(
    program: Runner,
    outputs: Sequence[Any],
    params: Any,
    cotangents: Sequence[Any],
    initial: Any,
    by_states: bool = False,
) -> tuple[list[Any], NDArray[np.float64], NDArray[Any] | None]:
    """``Program.vjp`` of a batch with given initial states.

    by_states: whether to give dL by the initial amplitudes too, (batch, 2**n): for a + ib dL/da + i dL/db, up to a
    multiple of the initial state, which only changes its norm.
    """
    adjoint.check_differentiable(program)
    theta, starts = _rows(program, params, initial)
    wanted = [as_output(output, program.num_qubits) for output in outputs]
    if len(cotangents) != len(wanted):
        raise StateError(f"{len(wanted)} outputs take as many cotangents; got {len(cotangents)}")
    batches.check_outputs(program, wanted, len(theta))
    checked = [adjoint.checked_cotangent(program, o, g, (len(theta),)) for o, g in zip(wanted, cotangents)]
    values = [np.zeros(g.shape, g.dtype) for g in checked]
    gradient = np.zeros((len(theta), program.circuit.num_parameters))
    states = np.zeros((len(theta), 1 << program.num_qubits), np.complex128) if by_states else None
    for b, (row, start) in counted("gradients", enumerate(zip(theta, starts)), program.comm, len(theta)):
        found, gradient[b], bra = _one(program, wanted, row, [g[b] for g in checked], start, by_states)
        for k, value in enumerate(found):
            values[k][b] = value
        if states is not None and bra is not None:
            states[b] = 2 * bra.amplitudes()
    return values, gradient, states


def _one(
    program: Runner,
    outputs: Sequence[Output],
    theta: NDArray[np.float64],
    cotangents: Sequence[Any],
    start: StateVector,
    by_state: bool,
) -> tuple[list[Any], NDArray[np.float64], StateVector | None]:
    """For one row: values, gradient, and the bra before the circuit if asked for."""
    program = program.for_gradients
    with program.lock:
        values = program.values(theta)
        ket = program.run_with(values, start, None, None)
        runner = program.of_states(start.layout)
        runner.hold()
        bra = StateVector(ket.num_qubits, ket.dtype, program.comm, ket.layout, ket.device)
        read, shift = pull_back(ket, outputs, cotangents, bra, bra.backend.empty((1,), np.dtype(np.float64)))
        by_angle = adjoint.sweep_back(runner, ket, bra, recover=by_state, shift=shift)
        gradient = ket.sum_over_ranks(program.affine.transposed(by_angle))
        if by_state and runner.steps_back:
            bra.layout = start.layout
    assert values.theta is not None, "values were given"
    return read(), program.source.pulled_back(values.theta, gradient), bra if by_state else None


def _rows(program: Runner, params: Any, initial: Any) -> tuple[NDArray[np.float64], Iterator[StateVector]]:
    """Values and an initial state for each row. Raises StateError where there are different numbers of them."""
    parameters = program.source.parameters
    count = None if isinstance(initial, StateVector) else _count(initial)
    if checks.is_batch(params):
        theta = checks.checked_batch(params, len(parameters), program.comm)
    else:
        one = same.values(program.comm, flat_values(parameters, [] if params is None else params))
        theta = np.tile(one, (1 if count is None else count, 1))
    if count is not None and count != len(theta):
        raise StateError(f"{len(theta)} parameter sets and {count} initial states: a batch has one of each a row")
    if isinstance(initial, StateVector):
        adjoint.check_start(program, initial)
        return theta, (initial for _ in range(len(theta)))
    return theta, (_checked(program, one) for one in initial)


def _count(initial: Any) -> int:
    """How many states were given. Text, and what has no rows, is none."""
    rows = hasattr(initial, "__len__") and getattr(initial, "ndim", 1) > 0
    if not rows or isinstance(initial, str | bytes | Mapping | Set):
        raise StateError(
            "initial is a StateVector, the 2**n amplitudes of one, or for a batch an array or a list of those, one a "
            f"row; got {initial!r}. StateVector.basis(n, '01') makes one of a basis state"
        )
    return len(initial)


def _checked(program: Runner, given: Any) -> StateVector:
    start = _state(program, given)
    adjoint.check_start(program, start)
    return start


def _state(program: Runner, given: Any) -> StateVector:
    if isinstance(given, StateVector):
        return given
    array = np.asarray(given)
    if array.shape != (1 << program.num_qubits,):
        raise StateError(
            f"an initial state of {program.num_qubits} qubits has {1 << program.num_qubits} amplitudes; got shape "
            f"{array.shape}"
        )
    return StateVector.from_amplitudes(array, program.dtype, program.comm, device=program.device)
