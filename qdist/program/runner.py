"""Runner: a compiled circuit, the values that each thread has bound, and how it runs. Program is its public face."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from functools import cached_property
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends import Executor, StateError
from qdist.backends.spread import Spread
from qdist.circuit.binding import ParameterValues, flat_values
from qdist.locks import open_in_forks
from qdist.plan.layout import Layout
from qdist.plan.plan import Plan, Segment
from qdist.plan.precision import most_of_one_path
from qdist.plan.tail import NO_TAIL, Tail, without_tail
from qdist.program.compiled import Compiled, Values
from qdist.program.product_start import ProductStart
from qdist.program.rows import RowPrograms
from qdist.program.shortened import Shortened
from qdist.program.source import Source
from qdist.program.watch import Watch
from qdist.program.workspace import Workspaces
from qdist.progress import Progress, is_shown
from qdist.state.checking import same
from qdist.state.checking.alike import check_ranks
from qdist.state.measuring.branches import Branches
from qdist.state.measuring.readout import Readout
from qdist.state.outputs import Output, observables_of
from qdist.state.perthread import PerThread
from qdist.state.recent import Recent
from qdist.state.small_states import SMALL_QUBITS, SmallStates
from qdist.state.statevector import StateVector

__all__ = ["MAX_STARTS", "Runner"]

MAX_STARTS = 8
"""Plans for given states that are kept: those of the layouts that were used last."""

_LONG_ON_CPU, _LONG_ON_GPU = 1 << 27, 1 << 33
"""Amplitudes of a shard times sweeps from which a run may take a second: shorter ones have no progress to show."""


class Runner:
    """Runs a circuit, from |0...0> or from a given state.

    bound, lock: the values that each thread has bound, and the mutex of runs, if shared with another runner.
    for_gradients: whether it was compiled for them.
    """

    def __init__(
        self,
        source: Source,
        compiled: Compiled,
        bound: PerThread[Values | None] | None = None,
        lock: Any = None,
        for_gradients: bool = False,
    ) -> None:
        self.source, self._for_gradients = source, for_gradients
        self.circuit, self.comm, self.dtype, self.affine = source.circuit, source.comm, source.dtype, source.affine
        self.backend, self.device = source.backend, source.backend.device
        # Executors hold one set of matrices: one thread at a time.
        self.lock = lock or open_in_forks(RLock())
        self._bound: PerThread[Values | None] = bound or PerThread(None)
        # The classical bits of every run where no mid-circuit operation is random.
        bits = (0,) * source.circuit.num_clbits
        self._readout = Readout(bits, source.readings, False) if source.readings else None
        self._resets = source.resets
        self.workspaces = Workspaces()
        self._from: Recent[Compiled] = Recent(MAX_STARTS)
        self._of_states: Recent[Runner] = Recent(MAX_STARTS)
        self._from_zero = compiled
        self.plan: Plan = compiled.plan
        self.row_programs = RowPrograms(source, compiled.plan)
        self._shape = (len(source.parameters),)
        # Nothing has to be done to values of the parameters, nor asked of other ranks.
        self._binds_plain = (
            source.functions is None and (source.comm is None or source.comm.size == 1) and self.backend.is_host
        )
        # Fast path for small circuits: gates alone, on one shard.
        one = len(compiled.parts) == len(compiled.executors) == 1 and self.plan.parts[0].instruction is None
        self._single = compiled.executors[0] if one and not source.far and not compiled.keeps_norm else None
        work = self.plan.sweeps << self.plan.shard_bits
        self.is_long = work >= (_LONG_ON_CPU if source.backend.is_host else _LONG_ON_GPU)
        """Whether a run may take long enough to show its progress."""

    @property
    def num_qubits(self) -> int:
        """Of the circuit."""
        return self.circuit.num_qubits

    @property
    def is_random(self) -> bool:
        """Whether two runs may end in different states: the circuit measures or resets mid-circuit. Final
        measurements do not count."""
        return self._from_zero.is_random

    @property
    def start(self) -> ProductStart:
        """The initial product state: the first amplitude of each shard."""
        return self._from_zero.start

    @property
    def steps_back(self) -> list[tuple[Segment, Executor, int]]:
        """What the adjoint sweep undoes: see ``Compiled``."""
        return self._from_zero.steps_back

    @cached_property
    def _short(self) -> tuple[Runner, Shortened] | None:
        """The runner without the tail of last gates, which observables absorb, and the test whether that pays; None
        where there is no tail."""
        plan, gates = without_tail(self.plan)
        if not gates:
            return None
        compiled = Compiled(plan, self.affine, self.backend, self.is_random)
        runner = Runner(self.source, compiled, self._bound, self.lock, self._for_gradients)
        return runner, Shortened(plan, gates, self.plan, self.backend)

    @cached_property
    def for_gradients(self) -> Runner:
        """The runner that derivatives are computed with: another one where they take a higher precision."""
        if self._for_gradients or self.plan.in_double or not self.plan.gradients_in_double:
            return self
        return Runner(self.source, self.source.compiled(None, gradients=True), self._bound, self.lock, True)

    def for_gradients_at(self, params: ParameterValues | None) -> Runner:
        """The runner that derivatives at these values, or at those that this thread has bound, are computed with: where
        angles decide, this one if they spread the state, else ``for_gradients``."""
        if self._spread is None:
            return self.for_gradients
        most = most_of_one_path(self.num_qubits)
        angles = self.noted(params).of_angles(self.affine)
        with self.lock:
            return self if self._spread.probability(angles, most) < most else self.for_gradients

    @cached_property
    def _spread(self) -> Spread | None:
        """What decides; None where there is nothing to decide."""
        return Spread(self.plan) if self.plan.angles_decide and not self._for_gradients else None

    def of_states(self, layout: Layout) -> Runner:
        """The runner whose adjoint sweep ends in a given state with this layout, not in |0...0>."""
        runner = self._of_states.get(layout)
        if runner is None:
            compiled = self.source.compiled(layout, self._for_gradients)
            runner = Runner(self.source, compiled, self._bound, self.lock, self._for_gradients)
            self._of_states.put(layout, runner)
        return runner

    def release(self) -> None:
        """Gives back the memory that gradients keep for the next one."""
        with self.lock:
            self.workspaces.take()
            short, other = self.__dict__.get("_short"), self.__dict__.get("for_gradients")  # If they were ever needed.
            if short is not None:
                short[0].workspaces.take()
            if other is not None and other is not self:
                other.release()

    # Values ----------------------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Binds the executors to this thread's values, until ``lock`` is released."""
        self._from_zero.hold(self.values(None))

    def values(self, params: ParameterValues | None) -> Values:
        """What this thread runs with: these values, or those that it has bound."""
        bound = self._bound.get() if params is None else None
        return self.bound_to(params) if bound is None else bound

    def bound_to(self, params: ParameterValues | None) -> Values:
        """These values, to which this thread is bound from now on."""
        if self._binds_plain and self._is_plain(params) and self._from_zero.executors:
            theta = params.copy()  # type: ignore[union-attr]
        else:
            theta = flat_values(self.source.parameters, [] if params is None else params)
            theta = self.source.extended(same.values(self.comm, theta))
        with self.lock:
            values = self._held(theta)
        self._bound.set(values)
        return values

    def _held(self, theta: NDArray[np.float64]) -> Values:
        """Binds the executors to these values. Raises CircuitError where one is not finite."""
        values = Values(theta)
        if not self._from_zero.hold(values):
            flat_values(self.source.parameters, theta)  # Says which.
        return values

    def noted(self, params: ParameterValues | None) -> Values:
        """What ``values`` gives, without binding the executors to them: they are when they next run."""
        bound = self._bound.get() if params is None else None
        if bound is None:
            theta = flat_values(self.source.parameters, [] if params is None else params)
            bound = Values(self.source.extended(same.values(self.comm, theta)))
            self._bound.set(bound)
        return bound

    def unchecked(self, params: ParameterValues | None) -> NDArray[np.float64] | None:
        """What executors bind for these values, or for those that this thread has bound: for kernels that tell whether
        all are finite, which ``note`` is then told. None where angles are bound, not parameters."""
        if self._binds_plain and self.backend.is_host and self._is_plain(params):
            return params.copy()  # type: ignore[union-attr, no-any-return]
        return self.noted(params).theta

    def note(self, theta: NDArray[np.float64], finite: bool) -> None:
        """Binds this thread to what ``unchecked`` gave. Raises CircuitError where a value is not finite."""
        if not finite:
            flat_values(self.source.parameters, theta)  # Says which.
        bound = self._bound.get()
        if bound is None or bound.theta is not theta:
            self._bound.set(Values(theta))

    def _is_plain(self, params: Any) -> bool:
        """Whether values are an array of the right shape and dtype."""
        return type(params) is np.ndarray and params.dtype == np.float64 and params.shape == self._shape

    def bind_angles(self, angles: NDArray[np.float64]) -> None:
        """Binds this thread to angles, in the order of ``affine``, whatever the parameters say."""
        self._bound.set(Values(angles=same.values(self.comm, angles.copy(), "angle")))

    def bind_for(self, outputs: Sequence[Output], params: ParameterValues | None) -> tuple[Runner, Tail]:
        """What ``chosen_for`` gives, the runner bound to these parameters."""
        runner, gates = self.chosen_for(outputs)
        runner.values(params)
        return runner, gates

    def chosen_for(self, outputs: Sequence[Output]) -> tuple[Runner, Tail]:
        """The runner for these outputs, and the tail of gates that it leaves to the observables. This one with no tail
        where nothing is gained, or where an output is no expectation value."""
        observables = observables_of(outputs)
        with self.lock:
            if observables and self._short is not None and self._short[1].gains(observables):
                return self._short[0], self._short[1].gates
        return self, NO_TAIL

    # Runs ------------------------------------------------------------------------------------------------------------

    def evolved(self, params: ParameterValues | None = None, out: StateVector | None = None) -> StateVector:
        """What ``run`` gives where nothing is random mid-circuit; nothing is drawn from it for ``bits``."""
        return self.run_with(self.values(params), None, None, out)

    def run_with(
        self,
        values: Values,
        initial: StateVector | None,
        rng: Any,
        out: StateVector | None,
        progress: bool | None = None,
        watch: Watch | None = None,
    ) -> StateVector:
        """The state after the circuit for these values; nothing is drawn from it for the bits measured at the end."""
        if progress is None:
            progress = self.is_long and is_shown(self.comm)
        elif progress:
            progress = is_shown(self.comm, True)
        plain = initial is None and not progress and watch is None
        if self._single is not None and plain and (out is None or self._fits(out)):
            return self._run_single(self._single, values, out)
        self._check_fits(initial, out)
        bits = [0] * self.circuit.num_clbits
        with self.lock:
            compiled = self._from_zero if initial is None else self._compiled_from(initial.layout)
            compiled.hold(values)
            state = self._begun(out) if initial is None else _copied(initial, out)
            with Progress("sweeps", compiled.plan.sweeps, shown=True) if progress else nullcontext() as bar:
                # In the initial product state only the first amplitude of a shard can be nonzero.
                if watch is not None:
                    state = watch.resumed(state, bits, rng)
                compiled.run(state, 0 if initial is None else -1, bits, rng, bar, watch)
                if watch is not None:
                    watch.end(state)
        depends = compiled.is_random or (initial is not None and initial.is_random)
        state.readout = Readout(tuple(bits), self.source.readings, True) if depends else self._readout
        return state

    def run_small(self, params: ParameterValues | None) -> StateVector | None:
        """What ``run_with`` gives, in microseconds, where nothing is drawn; None where the state is not small."""
        if self._single is None or self._small is None:
            return None
        if params is None or not (self._binds_plain and self._is_plain(params)):
            return self._run_single(self._single, self.values(params), None)
        with self.lock:
            values = self._held(params.copy())  # type: ignore[union-attr]
            out = self._small.new()
            self._single.run_from_zero(out.local)
        self._bound.set(values)
        out.readout = self._readout
        return out

    def _run_single(self, executor: Executor, values: Values, out: StateVector | None) -> StateVector:
        with self.lock:
            self._from_zero.hold(values)
            if out is None:
                out = self._unset() if self._small is None else self._small.new()
            executor.run_from_zero(out.local)
        out.readout = self._readout
        return out

    @cached_property
    def _small(self) -> SmallStates | None:
        """Where states of few qubits come from."""
        return SmallStates(self._unset()) if self.num_qubits <= SMALL_QUBITS else None

    def _unset(self) -> StateVector:
        return StateVector.empty(self.num_qubits, self.dtype, self.comm, self.plan.layout, self.device)

    def run_rows(self, theta: NDArray[np.float64]) -> Any:
        """The states of a batch, on the program's device: for unitary circuits on one rank. ``theta`` is checked."""
        states = self.backend.zeros(len(theta) << self.num_qubits, self.dtype)
        states = states.reshape(len(theta), 1 << self.num_qubits)
        states[:, 0] = 1
        if self._from_zero.parts:
            ((_, (executor,)),) = self._from_zero.parts  # A unitary circuit on one shard.
            with self.lock:
                executor.run_batch(states, self.affine.rows(theta))
        return states

    def run_each(self, values: Values, states: Any) -> None:
        """Runs on each row of an array of states, in place: on one rank, on the program's device."""
        with self.lock:
            compiled = self._compiled_from(self.plan.layout)
            compiled.hold(values)
            for executor in compiled.executors:
                for state in states:
                    executor.run(state)

    def runs(
        self, count: int, params: ParameterValues | None, rng: np.random.Generator
    ) -> Iterator[tuple[StateVector, NDArray[np.int64]]]:
        """So many runs with the same values, whatever other threads bind: the state of all that had the same outcomes,
        and their numbers. Each state is valid until the next."""
        values, state, branches = self.values(params), None, Branches(count, rng)
        with Progress("shots", count, shown=is_shown(self.comm)) as bar:
            while branches.begin():
                state = self.run_with(values, None, branches, state, progress=False)
                yield state, branches.members
                bar.advance(len(branches.members))

    def _fits(self, out: StateVector) -> bool:
        if not isinstance(out, StateVector):
            return False
        same = (out.dtype, out.num_qubits, out.device) == (self.dtype, self.num_qubits, self.device)
        return same and out.layout is self.plan.layout and out.shard_bits == self.num_qubits

    def _check_fits(self, initial: StateVector | None, out: StateVector | None) -> None:
        for name, state in (("initial", initial), ("out", out)):
            if state is not None and not isinstance(state, StateVector):
                way = ", or the 2**n amplitudes of one" if name == "initial" else ""
                is_array = isinstance(state, np.ndarray)
                got = f"an array of shape {state.shape}" if is_array else type(state).__name__
                raise StateError(f"{name} is a StateVector{way}; got {got}")
            if state is not None and (state.num_qubits, state.dtype) != (self.num_qubits, self.dtype):
                fits = state.num_qubits == self.num_qubits
                way = f"; {name}.astype('{self.dtype}') is one" if fits else ""
                raise StateError(
                    f"{name} is a state of {state.num_qubits} qubits in {state.dtype}; the program needs "
                    f"{self.num_qubits} in {self.dtype}{way}"
                )
            if state is not None and state.device != self.device:
                raise StateError(
                    f"{name} is on {state.device}; the program runs on {self.device}: make both on one device"
                )
            if state is not None:
                check_ranks(name, state, self.comm)
        if initial is not None:
            same.arguments(self.comm, "layout of the initial state", initial.layout.positions)

    def _begun(self, out: StateVector | None) -> StateVector:
        """The initial product state of a run from |0...0>."""
        if out is None:
            out = StateVector(self.num_qubits, self.dtype, self.comm, self.plan.layout, self.device)
        else:
            out.layout = self.plan.layout
            out.local.fill(0)
        for offset, shard in out.shards():
            self.backend.set_first(shard, self._from_zero.start.value(offset >> out.shard_bits))
        return out

    def _compiled_from(self, layout: Layout) -> Compiled:
        """The plan for given states with this layout, from a cache of the last few."""
        plan = self.plan
        if layout == plan.layout and not plan.only_from_zero and not self._resets:
            return self._from_zero
        compiled = self._from.get(layout)
        if compiled is None:
            compiled = self.source.compiled(layout, self._for_gradients)
            self._from.put(layout, compiled)
        return compiled


def _copied(initial: StateVector, out: StateVector | None) -> StateVector:
    """A given state, where a run may work on it."""
    if out is None:
        return initial.copy()
    if out is not initial:
        out.layout = initial.layout
        out.local[:] = initial.local
    return out
