"""A tape's operations as a Program, compiled once for all tapes of a structure and bound to the values of each."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pennylane as qml
from numpy.typing import NDArray
from pennylane.measurements import StateMP
from pennylane.operation import Operator
from pennylane.tape import QuantumScript

from qdist.backends import StateError
from qdist.circuit import Circuit, Parameter, ParameterVector
from qdist.comm import Communicator
from qdist.plan.layout import Layout
from qdist.program.program import Program
from qdist.program.runner import Runner
from qdist.program.source import FEWEST_CLOSE
from qdist.state.recent import Recent
from qdist.state.statevector import StateVector
from qdist.state.unplanned import run_unplanned

from . import operations

__all__ = ["Compiler", "TapeProgram", "places", "standard_order"]


class TapeProgram:
    """A Program, and where the parameters of its tape are found in it.

    The program has one parameter for each angle of the tape's operations, in the tape's order. Amplitudes that a tape
    begins with are not in it: they are the state it starts from. It is planned when it is first needed, which a first
    run for one set of values is not: many tapes are not run again, and to plan a small one takes far longer than to run
    it.
    """

    def __init__(
        self,
        circuit: Circuit,
        options: Mapping[str, Any],
        angles: Sequence[int],
        used: NDArray[np.intp],
        slots: Sequence[int],
        order: Sequence[Any] | None,
    ) -> None:
        self._circuit, self._options = circuit, options
        self._has_run = False
        self.angles = angles
        """How many angles each operation has."""
        self.used = used
        """Which of all angles the program's parameters are: nothing depends on the others."""
        self.slots = slots
        """Which angle each parameter of the tape's operations is, in the order of ``tape.par_info``; -1: it is data."""
        self.order = order
        """The tape's wires, where it begins with amplitudes."""
        self.workspace: StateVector | None = None
        """The state of the last run, whose memory the next one takes."""
        self.kept: tuple[NDArray[np.float64], Runner, Layout] | None = None
        """What the workspace is the state of, if a derivative can go on from it: the values, who ran, the layout."""
        self.kept_rows: Any = None
        """The same of a batch: see rows.py."""

    @cached_property
    def program(self) -> Program:
        return Program(self._circuit, **self._options)

    @property
    def _is_planned(self) -> bool:
        return "program" in self.__dict__

    def release(self) -> None:
        """Gives back the memory of states."""
        self.workspace = self.kept = self.kept_rows = None
        if self._is_planned:
            self.program.release()

    def first_state(self, theta: NDArray[np.float64]) -> StateVector | None:
        """The state for these values, if this is the first run and needs no plan."""
        first, self._has_run = not (self._has_run or self._is_planned), True
        if not first or self._options["comm"] is not None:
            return None
        return run_unplanned(self._circuit, theta, self._options["device"], self._options["dtype"])

    def starts(self, ops: Sequence[Operator]) -> NDArray[Any] | None:
        """The amplitudes that operations begin with: of all rows of a batch if they have their own. None: all 0."""
        if self.order is None:
            return None
        amplitudes = operations.amplitudes_of(ops[0], self.order)
        shape = (-1, 1 << len(self.order)) if ops[0].batch_size is not None else (-1,)
        return amplitudes.reshape(shape).astype(self.program.dtype)

    def initial(self, start: NDArray[Any] | None) -> StateVector | None:
        """The state with these amplitudes."""
        if start is None:
            return None
        program = self.program
        return StateVector.from_amplitudes(start, program.dtype, program.comm, device=program.device)

    def values(self, ops: Sequence[Operator], rows: int | None = None) -> NDArray[np.float64]:
        """The program's parameters for operations: float64 of shape (parameters,), or (rows, parameters) for a batch.

        rows: of a batch of states that the operations begin with.

        Raises DeviceError where one of them is no real number, or where they are rows of different batches.
        """
        numbers = self._numbers(ops)
        try:
            if rows is None and not any(map(np.ndim, numbers)):
                theta = _real(np.array(numbers)).astype(np.float64, copy=False).reshape(len(numbers))
            else:
                theta = np.empty(
                    (next((len(number) for number in numbers if np.ndim(number)), rows or 0), len(numbers))
                )
                for k, number in enumerate(numbers):
                    theta[:, k] = _real(np.asarray(number))
        except (TypeError, ValueError) as error:
            shapes = {np.shape(number) for number in numbers} - {()}
            if len(shapes) > 1 or any(len(shape) > 1 for shape in shapes):
                raise qml.exceptions.DeviceError(
                    f"operations have angles of shapes {', '.join(map(str, sorted(shapes)))}: an angle of a batch is "
                    "one number, or one for each of its rows. Of one jax.vmap in another make a single batch"
                ) from None
            raise qml.exceptions.DeviceError(
                f"the angles of operations on qdist.qubit are real numbers: {error}. Under jax.jit and other tracers "
                "the device is called through a QNode, with diff_method 'adjoint', 'parameter-shift' or None"
            ) from error
        return theta if len(self.used) == len(numbers) else np.ascontiguousarray(theta[..., self.used])

    def row_columns(self, ops: Sequence[Operator]) -> list[int]:
        """Which of the program's parameters differ between the rows of a batch."""
        numbers = self._numbers(ops)
        return [column for column, angle in enumerate(self.used) if np.ndim(numbers[angle])]

    def _numbers(self, ops: Sequence[Operator]) -> list[Any]:
        """The angles of all operations."""
        return [_plain(datum) for op, count in zip(ops, self.angles) if count for datum in op.data]

    def run(self, theta: NDArray[np.float64], start: NDArray[Any] | None = None) -> StateVector:
        """The state for these values, until the next run."""
        self.kept = None
        if start is None and (state := self.first_state(theta)) is not None:
            return state
        self.workspace = self.program.run(theta, initial=self.initial(start), out=self.workspace)
        return self.workspace

    def vjp(
        self,
        outputs: Sequence[Any],
        theta: NDArray[np.float64],
        cotangents: Sequence[Any],
        starts: NDArray[Any] | None,
    ) -> NDArray[np.float64]:
        """The gradient of ``Program.vjp``, from states of the rows' own or from one of all."""
        if starts is None:
            return self.program.vjp(outputs, theta, cotangents)[1]
        if theta.ndim == 1:
            return self.program.vjp(outputs, theta, cotangents, initial=self.initial(starts))[1]
        begun = starts if starts.ndim == 2 else [starts] * len(theta)
        rows = [self.vjp(outputs, row, [g[b] for g in cotangents], begun[b]) for b, row in enumerate(theta)]
        return np.array(rows).reshape(theta.shape)

    def all_angles(self, by_parameter: NDArray[Any]) -> NDArray[Any]:
        """Derivatives by all angles (in the last axis), given those by the program's parameters."""
        result = np.zeros((*by_parameter.shape[:-1], sum(self.angles)), by_parameter.dtype)
        result[..., self.used] = by_parameter
        return result


class Compiler:
    """Makes programs of operations, and keeps those that were used last.

    dtype: of the amplitudes. device: as for ``qdist.compile``. comm: the ranks that share the states; circuits too
    small for them run on every rank.
    """

    def __init__(self, dtype: Any, device: str, comm: Communicator | None, most: int = 64) -> None:
        self.dtype, self.device = dtype, device
        self.comm = comm if comm is not None and comm.size > 1 else None
        self._programs: Recent[TapeProgram] = Recent(most)
        self._places: Recent[dict[Any, int]] = Recent(most)
        self._last: Callable[[], TapeProgram | None] = lambda: None
        # At the interpreter's end frameworks may still hold devices, and native programs must not outlive their module.
        weakref.finalize(self, self._programs.clear)

    def ranks(self, num_qubits: int) -> Communicator | None:
        """Those that share a state of so many qubits; None: each has its own."""
        if self.comm is None or num_qubits - (self.comm.size - 1).bit_length() < FEWEST_CLOSE:
            return None
        return self.comm

    def compiled(self, ops: Sequence[Operator], place: Mapping[Any, int]) -> TapeProgram:
        """The program of these operations, whose wires are these qubits."""
        return self._found(ops, place, _structure(ops))

    def of_tape(self, tape: QuantumScript, wires: Any) -> tuple[TapeProgram, Mapping[Any, int]]:
        """The program of a tape's operations, and the qubits of its wires (see ``places``)."""
        structure = _structure(tape.operations)
        # What a tape's wires are, and their order, follows from this; PennyLane would collect them anew for each tape.
        key = (structure, wires, tuple([(type(mp), mp.wires.labels) for mp in tape.measurements]))
        place = self._places.get(key)
        if place is None:
            place = places(tape, wires)
            self._places.put(key, place)
        return self._found(tape.operations, place, structure), place

    def _found(self, ops: Sequence[Operator], place: Mapping[Any, int], structure: Hashable) -> TapeProgram:
        key: Hashable = (structure, tuple(place.items()))
        found = self._programs.get(key)
        if found is None:
            found = self._compile(ops, place, bool(ops) and operations.is_amplitudes(ops[0]))
            self._programs.put(key, found)
        # Many programs are kept, but the states of one.
        last = self._last()
        if last is not found:
            if last is not None:
                last.release()
            self._last = weakref.ref(found)
        return found

    def applied(
        self, ops: Sequence[Operator], place: Mapping[Any, int], state: StateVector | None, out: StateVector | None
    ) -> StateVector:
        """The state after operations on a state (None: all wires 0), in the memory of ``out`` where it is given."""
        found = self.compiled(ops, place)
        initial = found.initial(found.starts(ops)) if state is None else state
        return found.program.run(found.values(ops), initial=initial, out=out)

    def _compile(self, ops: Sequence[Operator], place: Mapping[Any, int], begun: bool) -> TapeProgram:
        num_qubits = max(1, len(place))
        angles = [operations.num_angles(op) for op in ops]
        vector = ParameterVector("angle", sum(angles))
        circuit, first = Circuit(num_qubits), 0
        slots: list[int] = []
        for k, (op, count) in enumerate(zip(ops, angles)):
            try:
                if begun and k == 0:
                    slots += [-1] * op.num_params
                    continue
                for gate, wires, params in operations.parts(op, vector[first : first + count]):
                    circuit.append(gate, [place[wire] for wire in wires], params)
            except (ValueError, StateError) as error:
                raise qml.exceptions.DeviceError(f"{op} cannot run on qdist.qubit: {error}") from error
            slots += range(first, first + count) if count else [-1] * op.num_params
            first += count
        options = {"comm": self.ranks(num_qubits), "device": self.device, "dtype": self.dtype}
        index: dict[Parameter, int] = {parameter: k for k, parameter in enumerate(vector)}
        used = np.array([index[parameter] for parameter in circuit.parameters], np.intp)
        order = sorted(place, key=lambda wire: -place[wire]) if begun else None
        return TapeProgram(circuit, options, angles, used, slots, order)


def places(tape: QuantumScript, wires: qml.wires.Wires | None) -> dict[Any, int]:
    """The qubit of each wire of a tape: the first wire is the highest bit.

    In the order of the device's wires; without those in that of a measured state that names all wires, or in
    PennyLane's standard order.
    """
    if wires is not None:
        chosen = set(tape.wires)
        order = [wire for wire in wires if wire in chosen]
    else:
        order = standard_order(tape)
        states = [list(mp.wires) for mp in tape.measurements if type(mp) is StateMP and len(mp.wires) == len(order)]
        order = states[0] if states else order
    return {wire: len(order) - 1 - k for k, wire in enumerate(order)}


def standard_order(tape: QuantumScript) -> list[Any]:
    """A tape's wires as PennyLane orders them: those of operations, then those that are only measured.

    Each in the order of their first use; but in that of the numbers where these, and then those that operations only
    work on, are 0, 1, 2, ...
    """
    acted = dict.fromkeys(wire for op in tape.operations for wire in op.wires)
    measured = dict.fromkeys(wire for mp in tape.measurements for wire in mp.wires if wire not in acted)
    used = acted | measured
    worked = {wire for op in tape.operations for wire in getattr(op, "work_wires", None) or () if wire not in used}
    first = 0
    for group in (acted.keys(), measured.keys(), worked):
        if group != set(range(first, first + len(group))):
            return list(used)
        first += len(group)
    return list(range(len(used)))


def _structure(ops: Sequence[Operator]) -> Hashable:
    """What operations have in common with others that the same program runs."""
    if ops and operations.is_amplitudes(ops[0]):
        return ops[0].wires.labels, operations.signatures(ops[1:])
    return None, operations.signatures(ops)


def _plain(number: Any) -> Any:
    """What an automatic differentiation has wrapped, as NumPy takes it: boxes of autograd, tensors of torch."""
    while hasattr(number, "_value"):
        number = number._value
    return number.detach().cpu().numpy() if hasattr(number, "detach") else number


def _real(numbers: NDArray[Any]) -> NDArray[Any]:
    """Angles that may be of a complex dtype. Raises TypeError where one has an imaginary part."""
    if numbers.dtype.kind != "c":
        return numbers
    if np.any(numbers.imag):
        raise TypeError(f"one is {numbers[numbers.imag != 0][0]}")
    return numbers.real
