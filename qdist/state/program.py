"""Program: a circuit compiled once and run many times, and the short form of both."""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from copy import copy
from functools import cached_property
from threading import RLock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends import Executor, backend_on, chosen_device, on_host
from qdist.backends.errors import StateError
from qdist.circuit import Circuit
from qdist.circuit.binding import ParameterValues, flat_values
from qdist.circuit.measurements import is_random, split_final_measurements, without_idle_resets
from qdist.comm import Communicator
from qdist.plan.layout import Layout
from qdist.plan.levels import Level, inside_bits
from qdist.plan.observables.tail import NO_TAIL, Tail, without_tail
from qdist.plan.plan import Plan, Segment
from qdist.plan.planner import check_schedule, make_plan
from qdist.progress import Progress
from qdist.state import adjoint, averages, batches, checks, expectation, same
from qdist.state.alike import check_ranks
from qdist.state.compiled import Compiled, Values
from qdist.state.expectation import Observable
from qdist.state.measure import Seed, generator
from qdist.state.outputs import Output
from qdist.state.perthread import PerThread
from qdist.state.product_start import ProductStart
from qdist.state.readout import Readout
from qdist.state.shortened import Shortened
from qdist.state.shots import written
from qdist.state.statevector import StateVector

__all__ = ["FEWEST_CLOSE", "Program", "compile", "simulate"]

FEWEST_CLOSE = 5
"""A shard must hold a few vectors, or there is nothing to work on."""

MAX_STARTS = 8
"""Plans for given states that a program keeps: those of the layouts that were used last."""


class Program:
    """A compiled circuit. ``plan`` tells how it will run; ``circuit`` is its own copy, which cannot be changed.

    Made by ``qdist.compile``. Binding new parameters re-uses the plan and costs microseconds.

    Measurements at the end of the circuit leave states and expectation values as they are without them: ``run`` draws
    ``bits`` from the state, and ``counts`` draws shots. What is measured or reset on the way collapses the state, which
    is then that of one outcome: see ``is_random``.

    Several threads may use one Program: each has its own bound values and ``bits``, and their runs take turns. (The
    threads of a run are the kernels' own.) On several ranks, the calls must come in the same order on all of them.
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
    ) -> None:
        check_schedule(schedule)
        far = 0 if comm is None else (comm.size - 1).bit_length()
        if comm is not None and far and circuit.num_qubits - far < FEWEST_CLOSE:
            raise StateError(
                f"{circuit.num_qubits} qubits on {comm.size} ranks leave each fewer than {FEWEST_CLOSE}: use at most "
                f"{1 << max(0, circuit.num_qubits - FEWEST_CLOSE)} ranks"
            )
        self.circuit = circuit.frozen()
        self.dtype = checks.checked_dtype(dtype)
        self.comm = comm
        same.circuit(comm, circuit, self.dtype.name, schedule, str(device).partition(":")[0])
        self.device = chosen_device(device, circuit.num_qubits, self.dtype, comm)
        self.backend = backend_on(self.device)
        self._levels, self._far, self._schedule = levels, far, schedule
        self._inside = far if comm is None else _inside_bits(comm)
        # Kernels hold one set of matrices, and a gradient works in memory that stays: one thread at a time.
        self.lock = RLock()
        self._bound: PerThread[Values | None] = PerThread(None)
        self._bits = PerThread((0,) * circuit.num_clbits)
        self._body, self._sources = split_final_measurements(self.circuit.instructions)
        # What every run says of the classical bits where nothing is random on the way.
        self._readout = Readout(self._bits.get(), self._sources, False) if self._sources else None
        drawing = {i.gate.kind for i in self._body if not i.gate.is_unitary}
        # What is known of |0...0> makes a difference to resets alone.
        self._resets = not drawing.isdisjoint(("reset", "initialize"))
        self._draws = bool(self._sources) or self._resets or "measure" in drawing
        self.affine, self._parameters = self.circuit.affine(), self.circuit.parameters
        self._use(self._compiled(None))

    def _use(self, compiled: Compiled) -> None:
        """Takes this for what runs from |0...0>, and forgets what was planned before."""
        self.workspace: tuple[StateVector | None, StateVector] | None = None
        self._from: OrderedDict[Layout, Compiled] = OrderedDict()
        self._from_zero = compiled
        self.plan: Plan = compiled.plan
        # The usual case, which small circuits should reach without detours: gates alone, on one shard.
        alone = len(compiled.parts) == len(compiled.natives) == 1 and self.plan.parts[0].instruction is None
        self._single = compiled.natives[0] if alone and not self._far and not compiled.keeps_norm else None

    @property
    def num_qubits(self) -> int:
        return self.circuit.num_qubits

    @property
    def bits(self) -> tuple[int, ...]:
        """The classical bits of this thread's last ``run``; those of any thread's where it had none."""
        return self._bits.get()

    @property
    def is_random(self) -> bool:
        """Whether two runs may end in different states: the circuit measures or resets on the way. What it measures at
        the end does not count."""
        return self._from_zero.is_random

    def bind(self, params: ParameterValues | None = None) -> Program:
        """Computes all matrices for these parameter values, which are the same on all ranks; all of them call.

        This thread's calls without values then use them; a thread that has bound nothing uses those that were bound
        last. Raises CircuitError for missing or unknown parameters, and StateError where ranks have different values.
        """
        self._bind(params)
        return self

    def _bind(self, params: ParameterValues | None) -> Values:
        plain = type(params) is np.ndarray and params.dtype == np.float64 and params.shape == (len(self._parameters),)
        if plain and self._from_zero.natives:
            theta = params.copy()  # type: ignore[union-attr]
        else:
            theta = flat_values(self._parameters, [] if params is None else params)
        values = Values(same.values(self.comm, theta))
        with self.lock:
            if not self._from_zero.hold(values):
                flat_values(self._parameters, theta)  # Says which value is not finite.
        self._bound.set(values)
        return values

    def bind_angles(self, angles: NDArray[np.float64]) -> Program:
        """Computes all matrices for these angles, in the order of ``affine``, whatever the parameters say."""
        self._bound.set(Values(angles=same.values(self.comm, angles.copy(), "angle")))
        return self

    def _values(self, params: ParameterValues | None) -> Values:
        """What this thread runs with: these values, or those that it has bound."""
        bound = self._bound.get() if params is None else None
        return self._bind(params) if bound is None else bound

    @property
    def start(self) -> ProductStart:
        """What the first amplitude of each shard is when a run begins with |0...0>."""
        return self._from_zero.start

    @property
    def steps(self) -> list[tuple[Segment, Executor, int]]:
        """All segments in the order they run: see ``Compiled.steps``."""
        return self._from_zero.steps

    @property
    def steps_back(self) -> list[tuple[Segment, Executor, int]]:
        """The same, ready to be undone."""
        self._from_zero.lower_back()
        return self._from_zero.steps

    def hold(self) -> None:
        """Has the kernels bound to this thread's values, until ``lock`` is released."""
        self._from_zero.hold(self._values(None))

    @cached_property
    def _short(self) -> Shortened | None:
        plan, gates = without_tail(self.plan)
        if not gates:
            return None
        program = copy(self)
        program._use(Compiled(plan, self.affine, self.backend, self.is_random))
        return Shortened(program, gates, self.plan)

    def bind_for(self, outputs: Sequence[Observable | Output], params: ParameterValues | None) -> tuple[Program, Tail]:
        """The program to run for the values of outputs, bound to these parameters, and gates to leave to the
        observables: its last ones, where they only move amplitudes. None of them, and this program, where nothing is
        gained, or where there is more than observables."""
        observables = [output for output in outputs if not isinstance(output, Output)]
        program: Program = self
        gates: Tail = NO_TAIL
        with self.lock:
            if len(observables) == len(outputs) and self._short is not None and self._short.gains(observables):
                program, gates = self._short.program, self._short.gates
        program._values(params)
        return program, gates

    def run(
        self,
        params: ParameterValues | None = None,
        *,
        initial: StateVector | None = None,
        seed: Seed = None,
        out: StateVector | None = None,
        progress: bool = False,
    ) -> StateVector:
        """The state after the circuit. Measurements at its end leave it alone; ``bits`` are drawn from it.

        params: values for the circuit's parameters; None re-uses those of the last ``bind`` or ``run``.
        initial: the state to start from (left alone), in any layout; |0...0> by default. seed: for measurements and
        resets.
        out: a StateVector of this size to work in, so that nothing is allocated. progress: a bar on stderr, if it
        takes longer than a second.
        """
        rng = generator(self.comm, seed) if self._draws else None
        state = self._evolved(self._values(params), initial, rng, out, progress)
        if state.readout is not None:
            self._bits.set(state.readout.draw(state, rng))
        return state

    def evolved(self, params: ParameterValues | None = None, out: StateVector | None = None) -> StateVector:
        """What ``run`` gives where nothing is random on the way; nothing is drawn from it for ``bits``."""
        return self._evolved(self._values(params), None, None, out)

    def _evolved(
        self, values: Values, initial: StateVector | None, rng: Any, out: StateVector | None, progress: bool = False
    ) -> StateVector:
        if self._single is not None and initial is None and out is not None and not progress and self._fits(out):
            with self.lock:
                self._from_zero.hold(values)
                self._single.run_from_zero(out.local)
            out.readout = self._readout
            return out
        self._check_fits(initial, out)
        bits = [0] * self.circuit.num_clbits
        with self.lock:
            compiled = self._from_zero if initial is None else self._compiled_from(initial.layout)
            compiled.hold(values)
            state = self._begun(out) if initial is None else _copied(initial, out)
            with Progress("sweeps", compiled.plan.sweeps, shown=True) if progress else nullcontext() as bar:
                # Before anything ran on |0...0>, only the first amplitude of a shard can be nonzero.
                compiled.run(state, 0 if initial is None else -1, bits, rng, bar)
        depends = compiled.is_random or (initial is not None and initial.is_random)
        state.readout = Readout(tuple(bits), self._sources, True) if depends else self._readout
        return state

    def run_batch(self, params: Any) -> NDArray[Any]:
        """The states for a batch of parameter sets in one call: shape (batch, 2**n), logical order, this dtype.

        On several ranks they run one after the other, and every rank gets all of them.
        params: shape (batch, number of parameters). Raises StateError for circuits that reset, initialise, branch, or
        measure before their end, and MemoryError where the states of all rows do not fit.
        """
        theta = checks.checked_batch(params, len(self._parameters), self.comm)
        if any(part.instruction is not None for part in self.plan.parts):
            raise StateError("circuits that reset, initialise, branch or measure on the way cannot run as a batch")
        batches.check_states(self, len(theta))
        if self.plan.far:
            states = np.empty((len(theta), 1 << self.num_qubits), self.dtype)
            for row, values in zip(states, theta):
                row[:] = self.evolved(values).amplitudes()
            return states
        return on_host(self.run_rows(theta))

    def run_rows(self, theta: NDArray[np.float64]) -> Any:
        """What ``run_batch`` gives, where this program's device is: for unitary circuits on one rank. ``theta`` has
        been checked."""
        states = self.backend.zeros(len(theta) << self.num_qubits, self.dtype)
        states = states.reshape(len(theta), 1 << self.num_qubits)
        states[:, 0] = 1
        if self._from_zero.parts:
            ((_, (native,)),) = self._from_zero.parts  # A unitary circuit on one shard.
            with self.lock:
                native.run_batch(states, self.affine.rows(theta))
        return states

    def expectation(
        self, observable: Observable, params: Any = None, *, shots: int | None = None, seed: Seed = None
    ) -> Any:
        """The expectation value after the circuit: a float, or for a batch of parameter sets (2-D) one a row.

        What the circuit measures at its end changes nothing. Where it is random (see ``is_random``), every run has a
        value of its own: with ``shots`` the mean over so many runs is given, with random numbers from ``seed``.

        Raises:
            StateError: for a random circuit without ``shots``, and for ``shots`` where all runs are the same.
        """
        averages.check(self, shots)
        if checks.is_batch(params):
            return batches.expectations(self, observable, params, shots, seed)
        if shots is not None:
            return averages.mean(self, observable, params, shots, seed)
        program, gates = self.bind_for([observable], params)
        return float(expectation.expectations(program.evolved(), [observable], gates)[0])

    def value_and_grad(
        self, observable: Observable, params: Any = None, *, method: str = "adjoint", coefficients: bool = False
    ) -> tuple[Any, ...]:
        """The expectation value after the circuit, and its derivatives by all parameters.

        Args:
            observable: Hermitian, in any form that ``StateVector.expectation`` takes.
            params: as for ``run``; or a batch of parameter sets, of shape (batch, number of parameters).
            method: "adjoint", which costs about three runs however many parameters there are; as checks of it, and as
                slow as they are simple, "parameter-shift" and "finite-difference".
            coefficients: whether to give a third result: the derivatives by the coefficients of a PauliSum, in its
                order, which are the expectation values of its terms.

        Returns:
            (value, gradient): a float and a float64 array in the order of ``circuit.parameters``; for a batch arrays
            of shape (batch,) and (batch, number of parameters). The same on every rank.

        Raises:
            StateError: for circuits that measure, reset, branch, or initialise qubits on the way.
        """
        return adjoint.value_and_grad(self, observable, params, method, coefficients)

    def vjp(
        self, outputs: Sequence[Observable | Output], params: Any, cotangents: Sequence[Any]
    ) -> tuple[list[Any], NDArray[np.float64]]:
        """The values of several outputs, and what their cotangents make of the derivatives: one sweep in all.

        Args:
            outputs: observables (their expectation values), and any of ``Variance(observable)``,
                ``Probabilities(qubits)``, ``Overlap(state)`` and ``State()`` of ``qdist.state``.
            params: as for ``run``; or a batch of parameter sets, of shape (batch, number of parameters).
            cotangents: the derivatives of a real loss L by each output, of its value's shape, for a batch with the
                batch in front. For a complex value a + ib: dL/da + i dL/db.

        Returns:
            (values, gradient): a list with each output's value, and dL by all parameters in the order of
            ``circuit.parameters``, float64; for a batch both with the batch in front. The same on every rank.

        Raises:
            StateError: for circuits that measure, reset, branch, or initialise qubits on the way, and for cotangents
                of another shape.
        """
        return adjoint.vjp(self, outputs, params, cotangents)

    def jacobian(self, observables: Sequence[Observable], params: Any = None) -> NDArray[np.float64]:
        """The derivatives of several expectation values by all parameters, one sweep each.

        Returns float64 of shape (number of observables, number of parameters); for a batch with the batch in front.
        Raises StateError as ``value_and_grad`` does.
        """
        return adjoint.jacobian(self, observables, params)

    def counts(self, shots: int, params: ParameterValues | None = None, seed: Seed = None) -> dict[str, int]:
        """How often each setting of the classical bits came (bit strings, highest bit first), or of the qubits where
        the circuit measures nothing.

        Measurements that nothing follows are sampled from one run; otherwise every shot is a run of its own.
        """
        if shots < 0:
            raise StateError(f"shots={shots}: not a number of shots")
        rng = generator(self.comm, seed)
        if not self.is_random:
            return self._evolved(self._values(params), None, rng, None).counts(shots, rng)
        measures = any(i.clbits for i in self.circuit)
        found: Counter[str] = Counter()
        for state in self.runs(shots, params, rng):
            if measures:
                assert state.readout is not None, "the circuit is random"
                found[written(state.readout.draw(state, rng))] += 1
            else:
                found.update(state.counts(1, rng, range(self.num_qubits)))
        return dict(sorted(found.items()))

    def runs(self, count: int, params: ParameterValues | None, rng: np.random.Generator) -> Iterator[StateVector]:
        """So many runs with the same values, whatever other threads bind: each state is valid until the next."""
        values, state = self._values(params), None
        for _ in range(count):
            state = self._evolved(values, None, rng, state)
            yield state

    def _compiled(self, start: Layout | None) -> Compiled:
        """The circuit, without the measurements at its end, compiled for |0...0>, or for a state with this layout."""
        body = without_idle_resets(self._body) if start is None else self._body
        plan = make_plan(
            self.circuit.with_instructions(body),
            self.dtype,
            self._levels,
            self._far,
            target=self.backend.target(self.dtype),
            inside=self._inside,
            schedule=self._schedule,
            start=start,
        )
        same.plan(self.comm, plan)
        return Compiled(plan, self.affine, self.backend, is_random(body, self.num_qubits, start is None))

    def _fits(self, out: StateVector) -> bool:
        same = (out.dtype, out.num_qubits, out.device) == (self.dtype, self.num_qubits, self.device)
        return same and out.layout is self.plan.layout and out.shard_bits == self.num_qubits

    def _check_fits(self, initial: StateVector | None, out: StateVector | None) -> None:
        for name, state in (("initial", initial), ("out", out)):
            if state is not None and (state.num_qubits, state.dtype) != (self.num_qubits, self.dtype):
                raise StateError(
                    f"{name} is a state of {state.num_qubits} qubits in {state.dtype}; the program needs "
                    f"{self.num_qubits} in {self.dtype}"
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
        """What a run from |0...0> begins with."""
        if out is None:
            out = StateVector(self.num_qubits, self.dtype, self.comm, self.plan.layout, self.device)
        else:
            out.layout = self.plan.layout
            out.local.fill(0)
        for offset, shard in out.shards():
            shard[0] = self._from_zero.start.value(offset >> out.shard_bits)
        return out

    def _compiled_from(self, layout: Layout) -> Compiled:
        """What runs on a given state with this layout; planned when it is wanted first, or again after a long time."""
        if layout == self.plan.layout and not self.plan.folded and not self._resets:
            return self._from_zero
        if layout in self._from:
            self._from.move_to_end(layout)
        else:
            self._from[layout] = self._compiled(layout)
            if len(self._from) > MAX_STARTS:
                self._from.popitem(last=False)
        return self._from[layout]


def compile(
    circuit: Circuit,
    *,
    comm: Communicator | None = None,
    device: str = "auto",
    dtype: Any = "complex64",
    schedule: str = "lazy",
) -> Program:
    """Plans a circuit once, to run it many times with different parameters.

    dtype: complex64 or complex128. device: "cpu"; "cuda" for a GPU (on several ranks, the one whose number is the
    rank's on its node, modulo their number) or "cuda:N" for GPU number N; or "auto": the GPU where every rank has one,
    its share of the state has at least 2**20 amplitudes, and they fit there; else the CPU. schedule: when amplitudes
    travel between ranks: "lazy", as rarely as can be; or, to compare with, "in-order" and "paper" (see
    plan.planner.make_plan). Raises StateError for what cannot be, ValueError for an unknown schedule.

    >>> program = compile(Circuit(2).h(0).cx(0, 1))
    >>> program.run().probabilities([1])
    array([0.5, 0.5])
    """
    return Program(circuit, comm=comm, device=device, dtype=dtype, schedule=schedule)


def simulate(
    circuit: Circuit,
    params: ParameterValues | None = None,
    *,
    comm: Communicator | None = None,
    device: str = "auto",
    dtype: Any = "complex64",
    schedule: str = "lazy",
    seed: Seed = None,
    progress: bool = False,
) -> StateVector:
    """The state after a circuit: compile and run in one."""
    program = compile(circuit, comm=comm, device=device, dtype=dtype, schedule=schedule)
    return program.run(params, seed=seed, progress=progress)


def _inside_bits(comm: Communicator) -> int:
    """How many far positions tell shards of one node apart: all of them if there is one node."""
    nodes = [0] * comm.size if comm.num_nodes == 1 else comm.all_gather_object(comm.node)
    return inside_bits(comm.size, (rank for rank in range(1, comm.size) if nodes[rank] != nodes[rank - 1]))


def _copied(initial: StateVector, out: StateVector | None) -> StateVector:
    """A given state, where a run may work on it."""
    if out is None:
        return initial.copy()
    if out is not initial:
        out.layout = initial.layout
        out.local[:] = initial.local
    return out
