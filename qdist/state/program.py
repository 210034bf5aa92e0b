"""Program: a circuit compiled once and run many times, and the short form of both."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import AffineMap, Circuit
from qdist.circuit.binding import ParameterValues, flat_values
from qdist.comm import Communicator
from qdist.cuda.tile import shape_of, tile_level
from qdist.plan.layout import Layout
from qdist.plan.levels import Level, inside_bits
from qdist.plan.operations import Operation
from qdist.plan.plan import Part, Plan, Segment
from qdist.plan.planner import check_schedule, make_plan
from qdist.plan.tail import without_tail
from qdist.progress import Progress
from qdist.state import adjoint, batches, checks, devices, expectation, same
from qdist.state.alike import check_ranks
from qdist.state.cpu import CpuProgram
from qdist.state.cuda import CudaProgram
from qdist.state.errors import StateError
from qdist.state.exchange import swap_bits
from qdist.state.expectation import Observable
from qdist.state.measure import Seed, generator
from qdist.state.outputs import Output
from qdist.state.prepare import prepare
from qdist.state.product_start import ProductStart
from qdist.state.shortened import Shortened
from qdist.state.shots import final_measurements, spread, tally
from qdist.state.statevector import StateVector

__all__ = ["FEWEST_CLOSE", "Program", "compile", "simulate"]

FEWEST_CLOSE = 5
"""A shard must hold a few vectors, or there is nothing to work on."""

MAX_STARTS = 8
"""Plans for given states that a program keeps: those of the layouts that were used last."""


class Program:
    """A compiled circuit. ``plan`` tells how it will run; ``bits`` the classical bits of the last run.

    Made by ``qdist.compile``. Binding new parameters re-uses the plan and costs microseconds.
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
        self.circuit = circuit
        self.dtype = checks.checked_dtype(dtype)
        self.comm = comm
        same.circuit(comm, circuit, self.dtype.name, schedule, device.partition(":")[0])
        self.device = devices.chosen_device(device, circuit.num_qubits, self.dtype, comm)
        if levels is None and self.device != "cpu":
            levels = [tile_level(circuit.num_qubits - far, shape_of(self.dtype))]
        self._levels, self._far, self._schedule = levels, far, schedule
        self._inside = far if comm is None else _inside_bits(comm)
        self.bits: tuple[int, ...] = (0,) * circuit.num_clbits
        self.affine, self._parameters = circuit.affine(), circuit.parameters
        self._use(self._compiled(None))

    def _use(self, compiled: _Compiled) -> None:
        """Takes this for what runs from |0...0>, and forgets what was bound and planned before."""
        self._bound: Callable[[CpuProgram], Any] | None = None
        # Whether what is bound has not reached the kernels yet, because a shorter program ran instead of this one.
        self._is_behind = False
        self.workspace: tuple[StateVector | None, StateVector] | None = None
        self._from: OrderedDict[Layout, _Compiled] = OrderedDict()
        self._from_zero = compiled
        self.plan: Plan = compiled.plan
        self._parts, self._natives = compiled.parts, list(compiled.natives)
        # The usual case, which small circuits should reach without detours: gates alone, on one shard.
        alone = len(self._parts) == len(self._natives) == 1 and self.plan.parts[0].instruction is None
        self._single = self._natives[0] if alone and not self._far else None

    @property
    def num_qubits(self) -> int:
        return self.circuit.num_qubits

    @property
    def is_random(self) -> bool:
        """Whether two runs may differ: the circuit measures or resets."""
        return any(p.instruction is not None and not p.instruction.gate.is_unitary for p in self.plan.parts)

    def bind(self, params: ParameterValues | None = None) -> Program:
        """Computes all matrices for these parameter values, which are the same on all ranks; all of them call.

        Raises CircuitError for missing or unknown parameters, and StateError where ranks have different values.
        """
        plain = type(params) is np.ndarray and params.dtype == np.float64 and params.shape == (len(self._parameters),)
        theta: Any = params if plain else flat_values(self._parameters, [] if params is None else params)
        theta = same.values(self.comm, theta)
        for native in self._natives:
            if not native.bind(theta):
                flat_values(self._parameters, theta)  # Says which value is not finite.
        if self.plan.folded:
            self._from_zero.start.bind(self.affine(theta))
        # A copy: plans for other starts are made when they are wanted, and bound to what is bound now.
        values = theta.copy()
        self._bound, self._is_behind = lambda native: native.bind(values), False
        return self

    def bind_angles(self, angles: NDArray[np.float64]) -> Program:
        """Computes all matrices for these angles, in the order of ``affine``, whatever the parameters say."""
        angles = same.values(self.comm, angles, "angle")
        for native in self._natives:
            native.bind_angles(angles)
        self._from_zero.start.bind(angles)
        values = angles.copy()
        self._bound, self._is_behind = lambda native: native.bind_angles(values), False
        return self

    def _bind_as(self, bound: Callable[[CpuProgram], Any]) -> None:
        for native in self._natives:
            bound(native)
        self._bound, self._is_behind = bound, False

    @property
    def start(self) -> ProductStart:
        """What the first amplitude of each shard is when a run begins with |0...0>."""
        return self._from_zero.start

    @property
    def steps(self) -> list[tuple[Segment, CpuProgram, int]]:
        """All segments in the order they run, with their kernels and the bits that are live before them: those outside
        of which amplitudes are still zero, 0 at the beginning and -1 (any) after that."""
        live = 0
        found = []
        for part, compiled in self._parts:
            for segment, native in zip(part.segments, compiled):
                found.append((segment, native, live))
                live = -1
            if not compiled and part.instruction is not None:
                live = -1
        return found

    @cached_property
    def _short(self) -> Shortened | None:
        plan, gates = without_tail(self.plan)
        if not gates:
            return None
        program = copy(self)
        program._use(_Compiled(plan, self.affine, self.device))
        program._from_zero.start = self._from_zero.start
        return Shortened(program, gates, self.plan)

    def bind_for(
        self, outputs: Sequence[Observable | Output], params: ParameterValues | None
    ) -> tuple[Program, tuple[Operation, ...]]:
        """The program to run for the values of outputs, bound to these parameters, and gates to leave to the
        observables: its last ones, where they only move amplitudes. None of them, and this program, where nothing is
        gained, or where there is more than observables."""
        observables = [output for output in outputs if not isinstance(output, Output)]
        plain = len(observables) == len(outputs)
        if not plain or self._short is None or not self._short.gains(observables):
            if params is not None or self._bound is None:
                self.bind(params)
            return self, ()
        short = self._short.program
        if params is not None or self._bound is None:
            short.bind(params)
            self._bound, self._is_behind = short._bound, True
        elif short._bound is not self._bound:
            short._bind_as(self._bound)
        return short, self._short.gates

    def run(
        self,
        params: ParameterValues | None = None,
        *,
        initial: StateVector | None = None,
        seed: Seed = None,
        out: StateVector | None = None,
        progress: bool = False,
    ) -> StateVector:
        """The state after the circuit.

        params: values for the circuit's parameters; None re-uses those of the last ``bind`` or ``run``.
        initial: the state to start from (left alone), in any layout; |0...0> by default. seed: for measurements and
        resets.
        out: a StateVector of this size to work in, so that nothing is allocated. progress: a bar on stderr, if it
        takes longer than a second.
        """
        if params is not None or self._bound is None:
            self.bind(params)
        elif self._is_behind:
            self._bind_as(self._bound)
        if self._single is not None and initial is None and out is not None and not progress and self._fits(out):
            self._single.run_from_zero(out.local)
            return out
        state, compiled = self._start(initial, out)
        rng = generator(self.comm, seed) if self.is_random else None
        bits = [0] * self.circuit.num_clbits
        # Before anything ran on |0...0>, only the first amplitude of a shard can be nonzero.
        live = 0 if initial is None else -1
        with Progress("sweeps", compiled.plan.sweeps, shown=True) if progress else nullcontext() as bar:
            for part, natives in compiled.parts:
                runs = part.instruction is None or _holds(part, bits)
                for segment, native in zip(part.segments, natives):
                    # Qubits move whether or not a condition holds, so that the layout is always the planned one.
                    if segment.swaps:
                        swap_bits(state, segment.swaps)
                    state.layout = segment.layout
                    if runs:
                        self._sweep(state, native, live, bar)
                        live = -1
                if runs and not natives and part.instruction is not None:
                    _perform(part, state, bits, rng)
                    live = -1
        self.bits = tuple(bits)
        return state

    def run_batch(self, params: Any) -> NDArray[Any]:
        """The states for a batch of parameter sets in one call: shape (batch, 2**n), logical order, this dtype.

        On several ranks they run one after the other, and every rank gets all of them.
        params: shape (batch, number of parameters). Raises StateError for circuits that measure, reset or initialise,
        and MemoryError where the states of all rows do not fit.
        """
        theta = checks.checked_batch(params, self.circuit.num_parameters, self.comm)
        if any(part.instruction is not None for part in self.plan.parts):
            raise StateError("circuits that measure, reset, initialise or branch cannot run as a batch")
        batches.check_states(self, len(theta))
        if self.plan.far:
            states = np.empty((len(theta), 1 << self.num_qubits), self.dtype)
            for row, values in zip(states, theta):
                row[:] = self.run(values).amplitudes()
            return states
        return devices.on_host(self.run_rows(theta))

    def run_rows(self, theta: NDArray[np.float64]) -> Any:
        """What ``run_batch`` gives, where this program's device is: for unitary circuits on one rank. ``theta`` has
        been checked."""
        states = devices.zeros(len(theta) << self.num_qubits, self.dtype, self.device)
        states = states.reshape(len(theta), 1 << self.num_qubits)
        states[:, 0] = 1
        if self._parts:
            ((_, (native,)),) = self._parts  # A unitary circuit on one shard.
            native.run_batch(states, self.affine.rows(theta))
        return states

    def expectation(self, observable: Observable, params: Any = None) -> Any:
        """The expectation value after the circuit: a float, or for a batch of parameter sets (2-D) one a row."""
        if params is not None and not isinstance(params, dict) and np.ndim(params) == 2:
            if self.plan.far:
                theta = checks.checked_batch(params, self.circuit.num_parameters, self.comm)
                return np.array([self.run(row).expectation(observable) for row in theta])
            if self.device != "cpu" and batches.fit(self, [observable]):
                return batches.values(self, [observable], checks.checked_batch(params, self.circuit.num_parameters))[
                    :, 0
                ]
            theta = checks.checked_batch(params, self.circuit.num_parameters)
            states = (x for some in batches.parts(self, len(theta)) for x in self.run_batch(theta[some]))
            return np.array(
                [StateVector.from_amplitudes(x, device=self.device).expectation(observable) for x in states]
            )
        program, gates = self.bind_for([observable], params)
        return float(expectation.expectations(program.run(), [observable], gates)[0])

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
        if not any(i.clbits for i in self.circuit):
            return self.run(params, seed=seed).counts(shots, seed=seed)
        measured = final_measurements(self.circuit)
        if measured is not None:
            unitary = self.circuit.remove_final_measurements()
            before = Program(unitary, comm=self.comm, device=self.device, dtype=self.dtype, schedule=self._schedule)
            clbits, qubits = zip(*measured.items())
            samples = before.run(params).sample(shots, seed=seed, qubits=qubits)
            outcomes = spread(samples, clbits)
        else:
            rng = generator(self.comm, seed)
            self.bind(params)
            outcomes = np.empty(shots, np.int64)
            for shot in range(shots):
                self.run(seed=rng)
                outcomes[shot] = sum(bit << k for k, bit in enumerate(self.bits))
        return tally(outcomes, self.circuit.num_clbits)

    def _compiled(self, start: Layout | None) -> _Compiled:
        """The circuit compiled for |0...0>, or for a state with this layout."""
        plan = make_plan(
            self.circuit,
            self.dtype,
            self._levels,
            self._far,
            inside=self._inside,
            schedule=self._schedule,
            start=start,
        )
        same.plan(self.comm, plan)
        return _Compiled(plan, self.affine, self.device)

    @staticmethod
    def _sweep(state: StateVector, native: CpuProgram, live: int, bar: Progress | None) -> None:
        for offset, shard in state.shards():
            # At the start most shards may be zero altogether.
            if live != 0 or shard[0] != 0:
                native.run(shard, offset, live, bar.advance if bar is not None else None)

    def _fits(self, out: StateVector) -> bool:
        same = (out.dtype, out.num_qubits, out.device) == (self.dtype, self.num_qubits, self.device)
        return same and out.layout is self.plan.layout and out.shard_bits == self.num_qubits

    def _start(self, initial: StateVector | None, out: StateVector | None) -> tuple[StateVector, _Compiled]:
        """The state to run on, and what runs on it."""
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
        if initial is None:
            if out is None:
                out = StateVector(self.num_qubits, self.dtype, self.comm, self.plan.layout, self.device)
            else:
                out.layout = self.plan.layout
                out.local.fill(0)
            for offset, shard in out.shards():
                shard[0] = self._from_zero.start.value(offset >> out.shard_bits)
            return out, self._from_zero
        same.arguments(self.comm, "layout of the initial state", initial.layout.positions)
        if out is None:
            out = initial.copy()
        elif out is not initial:
            out.layout = initial.layout
            out.local[:] = initial.local
        return out, self._compiled_from(initial.layout)

    def _compiled_from(self, layout: Layout) -> _Compiled:
        """What runs on a given state with this layout; planned when it is wanted first, or again after a long time."""
        if layout == self.plan.layout and not self.plan.folded:
            return self._from_zero
        if layout in self._from:
            self._from.move_to_end(layout)
        else:
            compiled = self._from[layout] = self._compiled(layout)
            for native in compiled.natives:
                assert self._bound is not None
                self._bound(native)
            if len(self._from) > MAX_STARTS:
                self._from.popitem(last=False)
            self._natives = [n for one in (self._from_zero, *self._from.values()) for n in one.natives]
        return self._from[layout]


class _Compiled:
    """A plan with its kernels."""

    def __init__(self, plan: Plan, affine: AffineMap, device: str) -> None:
        self.plan = plan
        self.start = ProductStart(plan)
        close = plan.num_qubits - plan.far

        def executor(segment: Segment) -> Any:
            if device == "cpu":
                return CpuProgram(close, plan.dtype, segment.stages, affine)
            return CudaProgram(close, plan.dtype, segment.stages, affine, devices.device_number(device))

        self.parts = [(part, [executor(segment) for segment in part.segments]) for part in plan.parts]
        self.natives = [native for _, natives in self.parts for native in natives]


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


def _holds(part: Part, bits: list[int]) -> bool:
    assert part.instruction is not None
    return all(test.holds(bits) for test in part.instruction.condition)


def _perform(part: Part, state: StateVector, bits: list[int], rng: Any) -> None:
    """A measurement, reset or initialisation."""
    assert part.instruction is not None
    gate, qubits, _, clbits, _ = part.instruction
    if gate.kind == "measure":
        bits[clbits[0]] = state.measure(qubits, seed=rng)
    elif gate.kind == "reset":
        state.reset_qubit(qubits[0], seed=rng)
    elif gate.kind == "initialize":
        prepare(state, gate, qubits, rng)
