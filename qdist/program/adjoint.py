"""Adjoint differentiation: derivatives by all parameters of a program, for the price of three to four runs.

One forward run gives the ket |psi>, and one bra serves all outputs: the sum of O_k |psi>, weighted with the cotangents.
Then the inverse program runs on ket and bra together, and each block adds the derivatives by its angles (Jones and
Gacon, arXiv 2009.02823; Luo et al., arXiv 1912.10877). The memory is that of two states.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.errors import StateError
from qdist.circuit import PauliSum
from qdist.plan.tail import NO_TAIL, Tail
from qdist.program import batches, gradient_checks, one_row
from qdist.program.runner import Runner
from qdist.program.workspace import Workspace
from qdist.progress import Progress, counted, is_shown
from qdist.state.checking import checks, same
from qdist.state.measuring import expectation
from qdist.state.measuring.expectation import Observable, as_hermitian_sum, checked_observables
from qdist.state.moves.exchange import swap_bits
from qdist.state.outputs import Expectation, Output, as_output, pull_back
from qdist.state.statevector import StateVector

__all__ = [
    "check_differentiable",
    "check_start",
    "checked_cotangent",
    "jacobian",
    "queued_gradient",
    "sweep_back",
    "value_and_grad",
    "vjp",
]

METHODS = ("adjoint", "parameter-shift", "finite-difference")
_STATES_BACK = 2
"""The adjoint sweep works on ket and bra."""


def value_and_grad(
    program: Runner, observable: Observable, params: Any = None, method: str = "adjoint", coefficients: bool = False
) -> tuple[Any, ...]:
    """See ``Program.value_and_grad``."""
    batched = checks.is_batch(params)
    if method == "adjoint" and not batched and (found := one_row.gradient(program, observable, params)) is not None:
        return (*found, _by_coefficients(program, observable, params, batched)) if coefficients else found
    if method not in METHODS:
        raise StateError(f"method={method!r}: there are {', '.join(METHODS)}")
    check_differentiable(program)
    if batched:
        params = checks.checked_batch(params, program.circuit.num_parameters)
    if method == "adjoint":
        (value,), gradient = vjp(program, [observable], params, [np.ones(len(params)) if batched else 1.0])
    elif batched:
        batches.check_outputs(program, [as_output(observable, program.num_qubits)], len(params))
        rows = [gradient_checks.METHODS[method](program, observable, row) for row in counted("rows", params)]
        value, gradient = np.array([row[0] for row in rows]), np.array([row[1] for row in rows]).reshape(params.shape)
    else:
        value, gradient = gradient_checks.METHODS[method](program, observable, params)
    return (
        (value, gradient, _by_coefficients(program, observable, params, batched)) if coefficients else (value, gradient)
    )


def _by_coefficients(program: Runner, observable: Observable, params: Any, batched: bool) -> NDArray[np.float64]:
    """The derivatives by the coefficients of a sum: the expectation values of its terms."""
    if not isinstance(observable, PauliSum):
        raise StateError(f"coefficients=True needs a PauliSum, whose terms have an order; got {observable!r}")
    terms = [PauliSum([(string, 1.0)]) for string, _ in observable]
    if not batched:
        return program.evolved(params).expectations(terms)
    found = [program.evolved(row).expectations(terms) for row in counted("rows", params, program.comm)]
    return np.array(found).reshape(len(found), len(terms))


def vjp(
    program: Runner,
    outputs: Sequence[Observable | Output],
    params: Any,
    cotangents: Sequence[Any],
    kets: Any = None,
    initial: StateVector | None = None,
) -> tuple[list[Any], NDArray[np.float64]]:
    """See ``Program.vjp``. ``kets``: if the forward runs were made before; they are overwritten.

    Of a batch, where ``batches.fit``, those of ``run_rows``; else a list of the states of ``bind_for``'s program.
    """
    check_differentiable(program)
    if isinstance(outputs, str | dict) or not isinstance(outputs, Sequence):
        raise StateError(f"outputs must be a list of observables and outputs; got {outputs!r}")
    if not hasattr(cotangents, "__len__"):
        raise StateError(f"cotangents must be a list, one for each output; got {cotangents!r}")
    if len(cotangents) != len(outputs):
        raise StateError(f"{len(outputs)} outputs take as many cotangents; got {len(cotangents)}")
    wanted = [as_output(output, program.num_qubits) for output in outputs]
    if not checks.is_batch(params):
        checked = [checked_cotangent(program, o, g, ()) for o, g in zip(wanted, cotangents)]
        if initial is not None:
            return _vjp_from(program, wanted, params, checked, initial)
        if kets is None and one_row.takes(program, wanted):
            theta = program.noted(params).theta
            if theta is not None:
                return one_row.vjp(program, wanted, theta, checked)
        return _vjp(program, wanted, params, checked, None if kets is None else kets[0])
    if initial is not None:
        raise StateError("a batch of parameter sets here starts from |0...0>")
    theta = checks.checked_batch(params, program.circuit.num_parameters, program.comm)
    batches.check_outputs(program, wanted, len(theta))
    checked = [checked_cotangent(program, o, g, (len(theta),)) for o, g in zip(wanted, cotangents)]
    if kets is None and program.row_programs.takes(wanted):
        return _pulled_back(program, theta, *batches.row_vjp(program, wanted, program.source.extended(theta), checked))
    if batches.fit(program, wanted):
        bound = program.source.extended(theta)
        return _pulled_back(program, theta, *batches.vjp(program, wanted, bound, checked, kets))
    given = [None] * len(theta) if kets is None else kets
    each = counted("gradients", list(enumerate(theta)), program.comm)
    rows = [_vjp(program, wanted, row, [g[b] for g in checked], given[b]) for b, row in each]
    # A batch of no rows has shapes and dtypes too.
    values = [np.array([row[0][k] for row in rows], g.dtype if not rows else None) for k, g in enumerate(checked)]
    values = [value.reshape(g.shape) for value, g in zip(values, checked)]
    return values, np.array([row[1] for row in rows]).reshape(theta.shape)


def _pulled_back(
    program: Runner, theta: NDArray[np.float64], values: list[Any], gradient: NDArray[np.float64]
) -> tuple[list[Any], NDArray[np.float64]]:
    """Values, and the gradient by the parameters instead of by what executors bind."""
    return values, program.source.pulled_back(theta, gradient)


def jacobian(program: Runner, observables: Sequence[Observable], params: Any = None) -> NDArray[np.float64]:
    """See ``Program.jacobian``."""
    observables = checked_observables(observables)
    if not checks.is_batch(params):
        # All are checked before the first of them runs.
        sums = [as_hermitian_sum(o, program.num_qubits) for o in observables]
        if one_row.takes(program, [Expectation(one) for one in sums]):
            theta = program.noted(params).theta
            if theta is not None:
                return jacobian(program, sums, theta[None, : program.circuit.num_parameters])[0]
        rows = [vjp(program, [one], params, [1.0])[1] for one in counted("gradients", sums, program.comm)]
        return np.array(rows).reshape(len(observables), program.circuit.num_parameters)
    # One row for each set of parameters and each observable.
    theta, count = checks.checked_batch(params, program.circuit.num_parameters, program.comm), len(observables)
    cotangents = np.tile(np.eye(count), (len(theta), 1))
    _, gradients = vjp(program, observables, np.repeat(theta, count, axis=0), list(cotangents.T))
    return gradients.reshape(len(theta), count, program.circuit.num_parameters)


def check_differentiable(program: Runner) -> None:
    """Raises StateError for circuits that measure, reset or initialise mid-circuit, or branch."""
    begun = False
    for part in program.plan.parts:
        if part.instruction is None:
            begun = True
            continue
        gate, qubits, _, _, condition = part.instruction
        if gate.kind == "initialize" and not condition and not begun:
            continue
        what = f"{gate.name} of qubit{'s' if len(qubits) > 1 else ''} {', '.join(map(str, qubits))}"
        if condition:
            what += " under a classical condition"
        raise StateError(
            f"the circuit has a {what}, and only unitary circuits can be differentiated: leave it out, or measure at "
            "the end, which changes no expectation value; the mean over all outcomes has derivatives too, "
            "also without noise: qdist.noise.compile(circuit).value_and_grad(observable, params, shots=1000)"
        )


_SURELY = 1 - 1e-5
"""A probability that only rounding keeps from one."""


def check_start(program: Runner, start: StateVector) -> None:
    """Raises StateError where the circuit would reset or initialise qubits that are not 0 in a given state: that
    measures them, and what becomes of qubits that are entangled with them is random."""
    for gate, qubits, *_ in program.source.body if program.source.resets else ():
        if gate.kind in ("reset", "initialize"):
            chances = start.probabilities(qubits)
            if chances[0] < _SURELY * chances.sum():
                which = f"qubit{'s' if len(qubits) > 1 else ''} {', '.join(map(str, qubits))}"
                raise StateError(
                    f"the circuit's {gate.name} of {which}, which the given state does not have at 0, would measure "
                    "there, with a random outcome: leave it out, or give a state that is 0 there"
                )


def sweep_back(
    program: Runner,
    ket: StateVector,
    bra: StateVector,
    recover: bool = False,
    shift: Any = 0.0,
    bar: Progress | None = None,
) -> NDArray[np.float64]:
    """Undoes the program on both states, and returns this rank's part of 2 Re <bra|d ket> by each angle: float64.

    With ``recover`` the ket ends as it began; without, the sweep ends where the first parameter was. ``shift``: the
    multiple of the ket that is first subtracted from the bra, as ``Executor.run_back`` takes it. That changes no
    derivative, because Re <ket|d ket> = 0, but rounding errors are in proportion to the bra's norm, and H |psi> is
    mostly <H> |psi>.
    """
    gradient = np.zeros(len(program.affine.constants))
    steps, start = program.steps_back, program.start
    # Gates that were absorbed into the initial product state come before the first step.
    trainable_start = start.is_trainable
    recover = recover or trainable_start
    first = 0 if recover else next((k for k, (_, executor, _) in enumerate(steps) if executor.is_trainable), len(steps))
    for k in reversed(range(first, len(steps))):
        segment, executor, support = steps[k]
        goes_on = recover or k > first
        for (offset, ket_shard), (_, bra_shard) in zip(ket.shards(), bra.shards()):
            # Shards that were all zero were skipped; but a zero initial amplitude may have a nonzero derivative.
            if support != 0 or trainable_start or start.value(offset >> ket.shard_bits) != 0:
                executor.run_back(ket_shard, bra_shard, gradient, offset, support, goes_on, shift)
        shift = 0.0
        if bar is not None:
            bar.advance(_STATES_BACK * len(segment.stages))
        if goes_on and segment.swaps:
            swap_bits([ket, bra], segment.swaps)
        if goes_on and k:
            ket.layout = bra.layout = steps[k - 1][0].layout
    if trainable_start:
        shards = [(offset >> bra.shard_bits, complex(shard[0]).conjugate()) for offset, shard in bra.shards()]
        gradient += 2 * start.gradient(shards)
    return gradient


def _vjp(
    program: Runner,
    outputs: Sequence[Output],
    params: Any,
    cotangents: Sequence[Any],
    ket: StateVector | None = None,
) -> tuple[list[Any], NDArray[np.float64]]:
    with program.lock:
        runner, gates = program.for_gradients_at(params).bind_for(outputs, params)
        workspace = runner.workspaces.take()
        result = _locked_vjp(runner, gates, outputs, cotangents, ket, workspace)
        runner.workspaces.put_back(workspace)
    return result


def _vjp_from(
    program: Runner,
    outputs: Sequence[Output],
    params: Any,
    cotangents: Sequence[Any],
    initial: StateVector,
) -> tuple[list[Any], NDArray[np.float64]]:
    check_start(program, initial)
    program = program.for_gradients
    with program.lock:
        ket = program.run_with(program.values(params), initial, None, None)
        return _locked_vjp(program.of_states(initial.layout), NO_TAIL, outputs, cotangents, ket, Workspace())


def _locked_vjp(
    program: Runner,
    gates: Tail,
    outputs: Sequence[Output],
    cotangents: Sequence[Any],
    ket: StateVector | None,
    workspace: Workspace,
) -> tuple[list[Any], NDArray[np.float64]]:
    """For the values that this thread has bound, while no other thread can use the program."""
    if program.is_long and is_shown(program.comm):
        with Progress("gradient", (1 + _STATES_BACK) * program.plan.sweeps, gathers=True) as bar:
            return _gradient(program, gates, outputs, cotangents, ket, workspace, bar)
    return _gradient(program, gates, outputs, cotangents, ket, workspace, None)


def _gradient(
    program: Runner,
    gates: Tail,
    outputs: Sequence[Output],
    cotangents: Sequence[Any],
    ket: StateVector | None,
    workspace: Workspace,
    bar: Progress | None,
) -> tuple[list[Any], NDArray[np.float64]]:
    states = (ket is None and workspace.ket is None) + (workspace.bra is None)
    states += max((output.more_states for output in outputs), default=0)
    StateVector.check_room(program.num_qubits, program.dtype, program.comm, program.device, states)
    if ket is None:
        ket = workspace.ket = program.evolved(out=workspace.ket)
    program.hold()
    for _, executor, _ in program.steps_back:
        executor.bind_back()
    if workspace.bra is None:
        workspace.bra = StateVector.empty(ket.num_qubits, ket.dtype, program.comm, ket.layout, ket.device)
    bra, product = workspace.bra, workspace.room_of_product()
    bra.layout = ket.layout
    read, shift = pull_back(ket, outputs, cotangents, bra, product, gates)
    swept = sweep_back(program, ket, bra, shift=shift, bar=bar)
    values = read()
    gradient = ket.sum_over_ranks(program.affine.transposed(swept))
    theta = program.values(None).theta
    return values, gradient if theta is None else program.source.pulled_back(theta, gradient)


def queued_gradient(
    program: Runner, output: Expectation, theta: NDArray[np.float64], dtype: np.dtype[Any]
) -> tuple[Any, Any] | None:
    """The expectation value, of shape (), and its gradient by the parameters, as ``adjoint.vjp`` computes them, in
    arrays of this real dtype on the program's device, which has still to compute them. They are ready for whatever is
    queued to the same stream. None where the host has a part in it: on several ranks, for functions of parameters, and
    for gates whose derivatives are not linear in what the sweep sums up."""
    if program.backend.is_host or program.plan.far or program.source.functions is not None:
        return None
    check_differentiable(program)
    with program.lock:
        runner, gates = program.for_gradients_at(theta).chosen_for([output])
        if runner.is_long or len(runner.steps_back) != 1 or runner.start.is_trainable:
            return None
        ((_, executor, support),) = runner.steps_back
        if not executor.queues_back():
            return None
        workspace = runner.workspaces.take()
        if workspace.ket is None or workspace.bra is None:
            StateVector.check_room(runner.num_qubits, runner.dtype, runner.comm, runner.device, 2)
            like = runner.num_qubits, runner.dtype, runner.comm, runner.plan.layout, runner.device
            workspace.ket, workspace.bra = StateVector.empty(*like), StateVector.empty(*like)
        ket, bra = workspace.ket, workspace.bra
        ket.layout = runner.plan.layout
        pull_back = expectation.queued_pull_back(ket, output.observable, gates)
        if pull_back is not None:
            runner.values(theta)
            runner.evolved(out=ket)
            # The host computes what the sweep needs while the device runs.
            executor.bind_back()
            value, gradient = runner.backend.empty((), dtype), runner.backend.empty((len(theta),), dtype)
            product = workspace.room_of_product()
            pull_back(bra, product, value)
            executor.queue_back(ket.local, bra.local, support, product, gradient)
        runner.workspaces.put_back(workspace)
    return None if pull_back is None else (value, gradient)


def checked_cotangent(program: Runner, output: Output, cotangent: Any, batch: tuple[int, ...]) -> NDArray[Any]:
    """The cotangent as an array of its output's dtype and shape."""
    shape = batch + output.shape(program.num_qubits)
    if cotangent.__class__ is float and not shape and isfinite(cotangent):
        return same.values(program.comm, np.array(cotangent, output.dtype), "cotangent")
    array = np.asarray(cotangent)
    if array.shape != shape:
        raise StateError(f"the cotangent of {output!r} has the shape of its value, {shape}; got {array.shape}")
    if array.dtype.kind not in ("biufc" if output.dtype is np.complex128 else "biuf"):
        raise StateError(f"the cotangent of {output!r} is {np.dtype(output.dtype)}; got {array.dtype}")
    if not np.isfinite(array).all():
        raise StateError(f"the cotangent of {output!r} is not finite: {array}")
    return same.values(program.comm, array.astype(output.dtype), "cotangent")
