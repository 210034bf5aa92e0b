"""Program: a circuit compiled once and run many times, and the short form of both."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Never

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import Circuit
from qdist.circuit.binding import ParameterValues
from qdist.comm import Communicator
from qdist.hints import hinted, unexpected
from qdist.plan.levels import Level
from qdist.program import adjoint, batches, initial_states, one_row
from qdist.program import shots as shots_of
from qdist.program.runner import Runner
from qdist.program.source import Source
from qdist.program.tangent.derivatives import TangentProgram
from qdist.program.watch import Watch, watching
from qdist.progress import showing
from qdist.state.checking import checks
from qdist.state.measuring.estimates import Estimate, Estimates, check_exact
from qdist.state.measuring.expectation import Observable, as_pauli_sum, checked_observables
from qdist.state.measuring.measure import Seed, generator
from qdist.state.measuring.rotated import ReadoutError
from qdist.state.measuring.shadows import Shadow
from qdist.state.moves.exchange import checksums
from qdist.state.outputs import Expectation, Output, as_output, values
from qdist.state.perthread import PerThread
from qdist.state.statevector import StateVector
from qdist.state.unplanned import run_unplanned

__all__ = ["Program", "compile", "simulate"]


class Program(Runner):
    """A compiled circuit, made by ``qdist.compile``, whose arguments (circuit, comm, device, dtype, schedule) it takes;
    levels, of the memory, are for tests, and once, whether it will run one time, for ``simulate``. ``plan`` tells how
    it will run; ``circuit`` is its own copy, which cannot be changed, with gates of one's own taken apart.

    Binding new parameters re-uses the plan and costs microseconds.

    Measurements at the end of the circuit leave states and expectation values as they are without them: ``run`` draws
    ``bits`` from the state, and ``counts`` draws shots. Mid-circuit measurements and resets collapse the state, which
    is then that of one outcome: see ``is_random``.

    Several threads may use one Program: each has its own bound values and ``bits``, and their runs are serialised. (The
    threads of a run are the kernels' own.) On several ranks, the calls must come in the same order on all of them.

    >>> theta = Parameter("theta")
    >>> value, gradient = compile(Circuit(1).ry(theta, 0), dtype="complex128").value_and_grad("Z0", [0.5])
    >>> round(value, 6), gradient.round(6).tolist()
    (0.877583, [-0.479426])
    """

    def __init__(
        self,
        circuit: Circuit,
        *,
        comm: Communicator | None = None,
        device: str = "auto",
        dtype: Any = "complex64",
        levels: Sequence[Level] | None = None,
        schedule: str = "lazy",
        once: bool = False,
    ) -> None:
        source = Source.of(circuit, comm, device, dtype, levels, schedule)
        super().__init__(source, source.compiled(None, once=once))
        self._bits = PerThread((0,) * circuit.num_clbits)
        self._draws = source.draws

    def __repr__(self) -> str:
        counts = (self.num_qubits, "qubit"), (self.circuit.num_parameters, "parameter")
        numbers = ", ".join(f"{count} {what}{'' if count == 1 else 's'}" for count, what in counts)
        ranks = f"on {self.comm.size} ranks, " if self.comm is not None and self.comm.size > 1 else ""
        return f"<Program of {numbers}, {self.dtype}, {ranks}{self.device}>"

    def __deepcopy__(self, memo: Any) -> Program:
        return _compiled(self.circuit, self.comm, self.device, self.dtype, self.source.levels, self.source.schedule)

    def __reduce__(self) -> tuple[Any, ...]:
        """As its circuit and options: it is compiled again where it is loaded, and bound to nothing."""
        if self.comm is not None and self.comm.size > 1:
            raise TypeError(
                f"a program over {self.comm.size} ranks cannot be pickled: pickle program.circuit, and compile it there"
            )
        device = self.device.partition(":")[0]
        return _compiled, (self.circuit, None, device, self.dtype.name, self.source.levels, self.source.schedule)

    @property
    def bits(self) -> tuple[int, ...]:
        """The classical bits of this thread's last ``run``; those of any thread's where it had none."""
        return self._bits.get()

    def bind(self, params: ParameterValues | None = None) -> Program:
        """Computes all matrices for these parameter values, which are the same on all ranks; all of them call.

        This thread's calls without values then use them; a thread that has bound nothing uses those that were bound
        last. Raises CircuitError for missing or unknown parameters, and StateError where ranks have different values.
        """
        self.bound_to(params)
        return self

    def run(
        self,
        params: ParameterValues | None = None,
        *,
        initial: Any = None,
        seed: Seed = None,
        out: StateVector | None = None,
        progress: bool | None = None,
        checkpoint: str | Path | None = None,
        seconds: float = 60.0,
        verify: bool = False,
        **kwargs: Never,
    ) -> StateVector:
        """The state after the circuit. Measurements at its end leave it alone; ``bits`` are drawn from it.

        params: values for the circuit's parameters; None re-uses those of the last ``bind`` or ``run``.
        initial: the state to start from (left alone), in any layout, or its 2**n amplitudes; |0...0> by default. seed:
        for measurements and resets.
        out: a StateVector of this size to work in, so that nothing is allocated. progress: whether a bar is drawn on
        stderr if it takes longer than a second; by default in terminals and notebooks, as in all other methods.
        checkpoint: a file to which the state is saved between two stages whenever ``seconds`` have passed, and from
        which a run of the same circuit, values and number of ranks goes on; it is removed at the end.
        verify: whether to look for corrupted amplitudes: exchanges between ranks have checksums, one stage runs a
        second time on another rank, and norms are compared. Takes memory for another state.

        Raises StateError, on all ranks, for a checkpoint of another run, and where ``verify`` finds something.
        """
        if kwargs:
            raise unexpected(Program.run, kwargs)
        plain = initial is None and out is None and progress is None and checkpoint is None and not verify
        if plain and not (self._draws or self.is_long) and (small := self.run_small(params)) is not None:
            return small
        rng = generator(self.comm, seed) if self._draws else None
        values, initial = self.values(params), initial_states.given(self, initial)
        watch: Watch | None = None
        if checkpoint is not None or verify:
            watch = watching(self, values, initial, checkpoint, seconds, verify)
        if verify:
            with checksums():
                state = self.run_with(values, initial, rng, out, progress, watch)
        else:
            state = self.run_with(values, initial, rng, out, progress, watch)
        if state.readout is not None:
            self._bits.set(state.readout.draw(state, rng))
        return state

    @hinted
    def run_batch(self, params: Any = None, *, initial: Any = None, progress: bool | None = None) -> NDArray[Any]:
        """The states for a batch of parameter sets in one call: shape (batch, 2**n), logical order, this dtype.

        On several ranks they run one after the other, and every rank gets all of them.
        params: shape (batch, number of parameters); with ``initial`` also one set for all rows. initial: the states to
        start from, an array of shape (batch, 2**n) or a list of StateVectors, or one StateVector for all rows;
        |0...0> by default. Raises StateError for circuits that reset, initialise, branch, or
        measure before their end, and MemoryError where the states of all rows do not fit. progress: as for ``run``.
        """
        with showing(progress):
            if initial is not None:
                return initial_states.run_batch(self, params, initial_states.given(self, initial))
            return batches.states(self, checks.checked_batch(params, self.circuit.num_parameters, self.comm))

    def expectation(
        self,
        observable: Observable,
        params: Any = None,
        *,
        shots: int | None = None,
        seed: Seed = None,
        readout_error: ReadoutError = None,
        progress: bool | None = None,
        **kwargs: Never,
    ) -> Any:
        """The expectation value after the circuit: a float, or for a batch of parameter sets (2-D) one a row.

        What the circuit measures at its end changes nothing.

        Args:
            observable: Hermitian, in any form that ``StateVector.expectation`` takes.
            params: as for ``run``, or a batch of shape (batch, number of parameters).
            shots: an estimate from so many measurements instead of the exact value, an ``Estimate``: a float with a
                ``standard_error``. They are divided over groups of strings that can be measured together, by the sums
                of their coefficients. Needed where the circuit is random (see ``is_random``): then the mean over so
                many runs.
            seed: of the random numbers; the same seed gives the same numbers on any number of ranks and any device.
            readout_error: the probability that a measured bit is wrong; a pair (of reading 1 for 0, of reading 0 for
                1), or a pair for each qubit.
            progress: as for ``run``.

        Raises:
            StateError: for a random circuit without ``shots``, and for too few shots.
        """
        if kwargs:
            raise unexpected(Program.expectation, kwargs)
        if progress is not None:
            with showing(progress):
                return self.expectation(observable, params, shots=shots, seed=seed, readout_error=readout_error)
        exact = shots is None and seed is None and readout_error is None
        batched = checks.is_batch(params)
        if exact and not batched and (found := one_row.value(self, observable, params)) is not None:
            return found
        shots_of.check(self, shots)
        if shots is not None:
            estimates = shots_of.estimated(self, [observable], params, shots, seed, readout_error)
            if estimates.ndim == 2:
                return Estimates.of(estimates[:, 0], estimates.standard_error[:, 0], shots)
            return Estimate(estimates[0], estimates.standard_error[0], shots)
        check_exact(seed, readout_error)
        if batched:
            return batches.expectations(self, observable, params)
        output = Expectation(as_pauli_sum(observable, self.num_qubits))
        program, gates = self.bind_for([output], params)
        return values(program.evolved(), [output], gates)[0]

    @hinted
    def expectations(
        self,
        observables: Sequence[Observable],
        params: Any = None,
        *,
        shots: int | None = None,
        seed: Seed = None,
        readout_error: ReadoutError = None,
        progress: bool | None = None,
    ) -> NDArray[np.float64]:
        """The expectation values of several observables: float64 of shape (observables,), for a batch (batch,
        observables). With ``shots`` all are estimated from the same ones: an array with a ``standard_error``.

        params, seed, readout_error, progress and errors are those of ``expectation``.
        """
        if progress is not None:
            with showing(progress):
                return self.expectations(observables, params, shots=shots, seed=seed, readout_error=readout_error)
        listed = checked_observables(observables)
        shots_of.check(self, shots)
        if shots is not None:
            return shots_of.estimated(self, listed, params, shots, seed, readout_error)
        check_exact(seed, readout_error)
        if checks.is_batch(params):
            columns = [batches.expectations(self, observable, params) for observable in listed]
            return np.stack(columns, axis=1) if columns else np.zeros((len(params), 0))
        outputs = [Expectation(as_pauli_sum(observable, self.num_qubits)) for observable in listed]
        if (found := one_row.values(self, outputs, params)) is not None:
            return np.array(found)
        return self.evolved(params).expectations(listed)

    @hinted
    def sample(
        self,
        shots: int,
        params: ParameterValues | None = None,
        *,
        seed: Seed = None,
        qubits: int | Sequence[int] | None = None,
        readout_error: ReadoutError = None,
        progress: bool | None = None,
    ) -> NDArray[np.int64]:
        """`shots` basis states of ``qubits`` (all without) after the circuit: int64 indices, qubits[0] as bit 0.

        Where the circuit is random, shots with the same outcomes are one run. params, progress: as for ``run``; seed,
        readout_error: as for ``expectation``.
        ``counts`` counts the circuit's classical bits.
        """
        with showing(progress):
            return shots_of.sample(self, shots, params, seed, qubits, readout_error)

    @hinted
    def shadow(
        self,
        shots: int,
        params: ParameterValues | None = None,
        *,
        seed: Seed = None,
        readout_error: ReadoutError = None,
        progress: bool | None = None,
    ) -> Shadow:
        """A classical shadow of the state after the circuit: each shot measures every qubit in a random one of the
        bases X, Y and Z. ``shadow.expectation(observable)`` then estimates any observables from the same shots.

        params, progress: as for ``run``. seed, readout_error: as for ``expectation``.
        """
        with showing(progress):
            return shots_of.shadow_of(self, shots, params, seed, readout_error)

    def value_and_grad(
        self,
        observable: Observable,
        params: Any = None,
        *,
        method: str = "adjoint",
        coefficients: bool = False,
        initial: Any = None,
        progress: bool | None = None,
        **kwargs: Never,
    ) -> tuple[Any, ...]:
        """The expectation value after the circuit, and its derivatives by all parameters.

        Args:
            observable: Hermitian, in any form that ``StateVector.expectation`` takes.
            params: as for ``run``; or a batch of parameter sets, of shape (batch, number of parameters).
            method: "adjoint", which costs about four runs however many parameters there are; as checks of it, and as
                slow as they are simple, "parameter-shift" and "finite-difference".
            coefficients: whether to give a third result: the derivatives by the coefficients of a PauliSum, in its
                order, which are the expectation values of its terms.
            initial: the normalised state to start from, or for a batch one a row, as for ``run_batch``; |0...0> by
                default. For method "adjoint".
            progress: as for ``run``.

        Returns:
            (value, gradient): a float and a float64 array in the order of ``circuit.parameters``; for a batch arrays
            of shape (batch,) and (batch, number of parameters). The same on every rank.

        Raises:
            StateError: for circuits that measure, reset, branch, or initialise qubits mid-circuit.
        """
        if kwargs:
            raise unexpected(Program.value_and_grad, kwargs)
        if progress is not None:
            with showing(progress):
                return self.value_and_grad(
                    observable, params, method=method, coefficients=coefficients, initial=initial
                )
        if initial is not None:
            start = initial_states.given(self, initial)
            return initial_states.value_and_grad(self, observable, params, method, coefficients, start)
        return adjoint.value_and_grad(self, observable, params, method, coefficients)

    def vjp(
        self,
        outputs: Sequence[Observable | Output],
        params: Any,
        cotangents: Sequence[Any],
        *,
        initial: Any = None,
        progress: bool | None = None,
        **kwargs: Never,
    ) -> tuple[list[Any], NDArray[np.float64]]:
        """The values of several outputs, and the vector-Jacobian product with their cotangents, by one adjoint sweep.

        Args:
            outputs: any of ``Expectation(observable)``, for which the observable alone may stand,
                ``Variance(observable)``, ``Probabilities(qubits)``, ``Overlap(state)`` and ``State()``.
            params: as for ``run``; or a batch of parameter sets, of shape (batch, number of parameters).
            cotangents: the derivatives of a real loss L by each output, of its value's shape, for a batch with the
                batch in front. For a complex value a + ib: dL/da + i dL/db.
            initial: the normalised state to start from (left alone), or for a batch one a row, as for ``run_batch``;
                |0...0> by default.
            progress: as for ``run``.

        Returns:
            (values, gradient): a list with each output's value, and dL by all parameters in the order of
            ``circuit.parameters``, float64; for a batch both with the batch in front. The same on every rank.

        Raises:
            StateError: for circuits that measure, reset, branch, or initialise qubits mid-circuit, and for cotangents
                of another shape.
        """
        if kwargs:
            raise unexpected(Program.vjp, kwargs)
        if progress is not None:
            with showing(progress):
                return self.vjp(outputs, params, cotangents, initial=initial)
        initial = initial_states.given(self, initial)
        if initial is not None and initial_states.is_batch(params, initial):
            return initial_states.vjp(self, outputs, params, cotangents, initial)[:2]
        return adjoint.vjp(self, outputs, params, cotangents, initial=initial)

    @hinted
    def jacobian(
        self, observables: Sequence[Observable], params: Any = None, *, progress: bool | None = None
    ) -> NDArray[np.float64]:
        """The derivatives of several expectation values by all parameters, one adjoint sweep each.

        params: as for ``run``, or a batch. Returns float64 of shape (number of observables, number of parameters); for
        a batch with the batch in front. Raises StateError as ``value_and_grad`` does. progress: as for ``run``.
        """
        with showing(progress):
            return adjoint.jacobian(self, observables, params)

    def jvp(self, outputs: Sequence[Observable | Output], params: Any, tangents: Any) -> tuple[list[Any], list[Any]]:
        """The values of several outputs, and how fast they change along a direction: Jacobian-vector products.

        Takes one run of a state of one more qubit, however many parameters there are.

        Args:
            outputs: as for ``vjp``.
            params: as for ``run``; or a batch of parameter sets, of shape (batch, number of parameters).
            tangents: the direction, in any form that params may have; for a batch one a row, or one for all rows. A
                batch of tangents may also go with one parameter set.

        Returns:
            (values, changes): two lists with an entry for each output, for a batch with the batch in front. The same
            on every rank.

        Raises:
            StateError: as ``vjp`` does.
        """
        return self._tangents.jvp(outputs, params, tangents)

    def hvp(self, observable: Observable, params: Any, v: Any) -> NDArray[np.float64]:
        """The second derivatives of an expectation value by the parameters, times a vector: d/de grad(params + e v).

        observable: as ``value_and_grad`` takes it. params, v: as those and the tangents of ``jvp``. Takes one gradient
        of a circuit of one more qubit, and memory for as many states. Returns float64 of shape (number of parameters,),
        for a batch (batch, number of parameters). Raises as ``jvp`` does.
        """
        output = as_output(observable, self.num_qubits)
        rows = next((len(given) for given in (params, v) if checks.is_batch(given)), None)
        return self._tangents.second([output], params, [1.0 if rows is None else np.ones(rows)], v)[1]

    def curvature(
        self, outputs: Sequence[Observable | Output], params: Any, cotangents: Sequence[Any], tangents: Any
    ) -> tuple[list[Any], NDArray[np.float64]]:
        """``hvp`` for several outputs of any kind: their changes along the tangents, as ``jvp`` gives them, and the
        derivatives by the parameters of the changes' sum, weighted with the cotangents.

        Arguments are those of ``vjp`` and ``jvp``; for a batch all of params and cotangents have the batch in front.
        Raises as they do.
        """
        changes, gradient, _ = self._tangents.second(outputs, params, cotangents, tangents)
        return changes, gradient

    def metric_vector(self, params: Any, v: Any) -> NDArray[np.float64]:
        """The metric tensor (see ``metric_tensor``) times a vector, without the tensor: as long as a run and a gradient
        of a circuit of one more qubit.

        params, v: as params and tangents of ``jvp``. Returns float64 of shape (number of parameters,), for a batch
        (batch, number of parameters). Raises as ``jvp`` does.
        """
        return self._tangents.metric_vector(params, v)

    def metric_tensor(self, params: Any, *, progress: bool | None = None) -> NDArray[np.float64]:
        """The Fubini-Study metric Re(<d_i psi|d_j psi> - <d_i psi|psi><psi|d_j psi>), a fourth of the quantum Fisher
        information: float64 of shape (number of parameters, number of parameters), for a batch with the batch in front.

        One ``metric_vector`` a parameter. params: as for ``jvp``, and so what is raised. progress: as for ``run``.
        """
        with showing(progress):
            return self._tangents.metric_tensor(params)

    @cached_property
    def _tangents(self) -> TangentProgram:
        with self.lock:
            return TangentProgram(self)

    @hinted
    def counts(
        self,
        shots: int,
        params: ParameterValues | None = None,
        seed: Seed = None,
        *,
        progress: bool | None = None,
    ) -> dict[str, int]:
        """How often each setting of the classical bits came (bit strings, highest bit first), or of the qubits where
        the circuit measures nothing.

        Measurements that nothing follows are sampled from one run; otherwise shots with the same outcomes are one run.
        params, progress: as for ``run``. seed: of the random numbers. A dict, which notebooks show as bars.
        """
        number = checks.checked_shots(shots)
        with showing(progress):
            return shots_of.counts(self, number, params, seed)


def _compiled(circuit: Circuit, comm: Any, device: str, dtype: Any, levels: Any, schedule: str) -> Program:
    return Program(circuit, comm=comm, device=device, dtype=dtype, levels=levels, schedule=schedule)


@hinted
def compile(
    circuit: Circuit,
    *,
    comm: Communicator | None = None,
    device: str = "auto",
    dtype: Any = "complex64",
    schedule: str = "lazy",
) -> Program:
    """Plans a circuit once, to run it many times with different parameters.

    Args:
        circuit: copied; what is added to it later does not change the program.
        comm: the ranks that share the state, such as ``qdist.comm.init()``; without one this process holds all of it.
        device: "cpu"; "cuda" for a GPU (on several ranks, the one whose number is the rank's on its node, modulo their
            number) or "cuda:N" for GPU number N; or "auto": the GPU where every rank has one, its share of the state
            has at least 2**20 amplitudes, and they fit there; else the CPU.
        dtype: complex64 or complex128, of the amplitudes.
        schedule: when amplitudes travel between ranks: "lazy", as rarely as can be; or, to compare with, "in-order" and
            "paper" (see plan.planner.make_plan).

    Raises StateError for what cannot be, ValueError for an unknown schedule.

    >>> program = compile(Circuit(2).h(0).cx(0, 1))
    >>> program.run().probabilities([1]).round(3)
    array([0.5, 0.5])
    """
    return Program(circuit, comm=comm, device=device, dtype=dtype, schedule=schedule)


@hinted
def simulate(
    circuit: Circuit,
    params: ParameterValues | None = None,
    *,
    comm: Communicator | None = None,
    device: str = "auto",
    dtype: Any = "complex64",
    schedule: str = "lazy",
    seed: Seed = None,
    progress: bool | None = None,
) -> StateVector:
    """The state after a circuit: compile and run in one.

    Args:
        circuit: what to run, from |0...0>.
        params: values of its parameters: {Parameter, ParameterVector or name: value}, or a flat array in the order of
            ``circuit.parameters``.
        comm: the ranks that share the state, such as ``qdist.comm.init()``; without one this process holds all of it.
        device: "cpu", "cuda", "cuda:N" or "auto", as for ``compile``.
        dtype: complex64 or complex128.
        schedule: when amplitudes travel between ranks, as for ``compile``.
        seed: of what the circuit measures and resets: an int, a NumPy Generator, or None for other outcomes every time.
        progress: whether a bar is drawn on stderr if it takes longer than a second; by default in terminals and
            notebooks.

    Raises CircuitError and StateError for what cannot be, MemoryError where the state does not fit.

    >>> simulate(Circuit(1).x(0)).probabilities()
    array([0., 1.])
    """
    with showing(progress):
        if comm is None and schedule == "lazy" and (state := run_unplanned(circuit, params, device, dtype)) is not None:
            return state
        program = Program(circuit, comm=comm, device=device, dtype=dtype, schedule=schedule, once=True)
        return program.run(params, seed=seed, progress=progress)
