"""Noisy: a circuit with channels, taken apart into what runs and what is read.

Measurements before the end are deferred: the outcome is copied to a qubit of its own, behind those of the circuit, and
that qubit only controls gates from then on. So a test of classical bits is a control, and all else is that of a circuit
which measures at its end. In trajectories an outcome that no test needs is which operator of a channel happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import Circuit, CircuitError, Parameter, lowered, unitary_gate
from qdist.circuit.channels import Channel
from qdist.circuit.gates import GATES
from qdist.circuit.instruction import Condition, Instruction
from qdist.circuit.measurements import split_final_measurements
from qdist.plan.planner import MAX_QUBITS

__all__ = ["Noisy"]

_MOST_TESTED = 5
"""Qubits of a channel and classical bits that it depends on: together its superoperator has 16**n entries."""
_MOST_PREPARED = 10
"""Qubits that are initialised together in a state that is no product: by a matrix of 4**n entries."""
_MEASURED = Channel("measure", 1, np.array([np.diag([1, 0]), np.diag([0, 1])], np.complex128), "")
_RESET = Channel("reset", 1, np.array([[[1, 0], [0, 0]], [[0, 1], [0, 0]]], np.complex128), "")


@dataclass(frozen=True)
class Noisy:
    """A circuit of gates that the kernels know and of channels; resets are channels too."""

    circuit: Circuit
    """Its own qubits, and one for each classical bit of an outcome that is deferred."""
    parameters: tuple[Parameter, ...]
    num_clbits: int
    readings: Mapping[int, int]
    """{classical bit: the qubit that shows it at the end}."""
    records: Mapping[int, int]
    """{classical bit: qubit} of other measurements: channels with that classical bit, whose operator is the outcome."""
    again: Mapping[int, int]
    """{classical bit: qubit} of further measurements at the end of a qubit that ``readings`` has and that is misread:
    each of them is read wrong by itself."""
    flips: NDArray[np.float64] | None
    """(qubits, 2): the probabilities of reading 1 for 0 and 0 for 1; None where all are read right."""

    @staticmethod
    def of(circuit: Circuit, recorded: bool) -> Noisy:
        """recorded: whether it is known which operators happen, so that outcomes may be.

        Raises CircuitError for what cannot have noise around it yet, by name."""
        if not isinstance(circuit, Circuit):
            raise CircuitError(f"noise is on a Circuit; got {circuit!r}")
        known = lowered(circuit)
        body, readings = split_final_measurements([i for i in known if i.gate.kind != "readout"])
        memory = _Memory(known, body, readings, recorded)
        kept: list[Instruction] = []
        touched: set[int] = set()
        for number, given in enumerate(body):
            if not given.gate.is_directive:
                for instruction in _as_channels(given, touched):
                    kept += memory.deferred(number, instruction)
                touched.update(given.qubits)
        result = Circuit(memory.num_qubits, circuit.num_clbits).with_instructions(kept).with_order(circuit.parameters)
        shown, again = {**memory.qubits, **readings}, dict[int, int]()
        if memory.flips is not None:
            first = {qubit: clbit for clbit, qubit in reversed(shown.items())}
            again = {c: q for c, q in shown.items() if first[q] != c and memory.flips[q].any()}
            shown = {c: q for c, q in shown.items() if c not in again}
        parameters, num_clbits = circuit.parameters, circuit.num_clbits
        return Noisy(result.frozen(), parameters, num_clbits, shown, memory.records, again, memory.flips)

    @property
    def channels(self) -> list[Channel]:
        """All of them, in order."""
        return [gate for gate, *_ in self.circuit if isinstance(gate, Channel)]

    def part(self, instructions: list[Instruction]) -> Circuit:
        """Some gates as a circuit that has all the parameters."""
        return self.circuit.with_instructions(instructions).with_order(self.parameters)


class _Memory:
    """The qubits that keep the outcomes of measurements before the end.

    num_qubits: of the circuit and of the memory. qubits: {classical bit: its qubit}. records, flips: as in Noisy.
    """

    def __init__(
        self, circuit: Circuit, body: Sequence[Instruction], readings: Mapping[int, int], recorded: bool
    ) -> None:
        written = {clbit for gate, _, _, clbits, _ in body if gate.kind == "measure" for clbit in clbits}
        tested = {clbit for i in body for test in i.condition for clbit in test.clbits}
        unsure = {clbit for gate, _, _, clbits, condition in body if condition for clbit in clbits}
        kept = sorted(written & (tested | unsure) if recorded else written)
        self.records: dict[int, int] = {}
        self.qubits = {clbit: circuit.num_qubits + k for k, clbit in enumerate(kept)}
        self.num_qubits = circuit.num_qubits + len(kept)
        if kept and self.num_qubits > MAX_QUBITS:
            raise CircuitError(
                f"{circuit.num_qubits} qubits and {len(kept)} classical bits that are measured before the end, each of "
                f"which takes one more qubit under noise, are more than {MAX_QUBITS}: measure into the same bits "
                "again, or leave out measurements that nothing depends on"
            )
        flips = _flips(circuit)
        self.flips = None if flips is None else np.concatenate([flips, np.zeros((len(kept), 2))])
        self._written = set[int]()
        measured = ((k, i.clbits[0]) for k, i in enumerate(body) if i.gate.kind == "measure")
        self._last = {clbit: k for k, clbit in measured if clbit not in readings}

    def deferred(self, number: int, instruction: Instruction) -> list[Instruction]:
        """What runs in the place of an instruction, by its number in the body."""
        if instruction.gate.kind == "measure":
            return self._copied(number, instruction)
        return self._controlled(instruction) if instruction.condition else [instruction]

    def _copied(self, number: int, instruction: Instruction) -> list[Instruction]:
        _, (qubit,), _, (clbit,), condition = instruction
        if condition:
            return self._copied_where(qubit, clbit, condition)
        if clbit not in self.qubits:
            if number != self._last.get(clbit):
                return [Instruction(_MEASURED, (qubit,))]
            self.records[clbit] = qubit
            return [Instruction(_MEASURED, (qubit,), (), (clbit,))]
        place = (self.qubits[clbit],)
        found = [Instruction(_RESET, place)] if clbit in self._written else []
        self._written.add(clbit)
        found.append(Instruction(GATES["cx"], (qubit, *place)))
        if self.flips is not None and self.flips[qubit].any():
            found.append(Instruction(_misread(*self.flips[qubit].tolist()), place))
        return found

    def _copied_where(self, qubit: int, clbit: int, condition: Sequence[Condition]) -> list[Instruction]:
        """A measurement under a condition, which may test the very bit that is measured into, as a channel."""
        tested = [clbit, *self._tested(condition, clbit)]
        if 1 + len(tested) > _MOST_TESTED:
            raise CircuitError(
                f"{_named((qubit,))} is measured under a condition of {len(tested) - 1} other classical bits, at most "
                f"{_MOST_TESTED - 2} in noisy circuits: measure it in any case, into a classical bit of its own"
            )
        self._written.add(clbit)
        up, down = (0.0, 0.0) if self.flips is None else self.flips[qubit].tolist()
        seen = np.sqrt([[1 - up, up], [down, 1 - down]])
        size = 2 << len(tested)
        operators = np.zeros((2, 2, 2, size, size), np.complex128)  # By outcome, the bit as it was, and as it is read.
        holds = _holds(condition, tested)
        for index in range(size):  # The qubit is bit 0, the classical bits come behind.
            outcome, was = index & 1, index >> 1 & 1
            if holds[index >> 1]:
                for read in (0, 1):
                    operators[outcome, was, read, index ^ (was ^ read) << 1, index] = seen[outcome, read]
            else:
                operators[0, 0, 0, index, index] = 1
        happening = operators.reshape(-1, size, size)[operators.any(axis=(3, 4)).reshape(-1)]
        places = (qubit, *(self.qubits[bit] for bit in tested))
        return [Instruction(Channel("measure", len(places), happening, ""), places)]

    def _tested(self, condition: Sequence[Condition], *left_out: int) -> list[int]:
        """The bits of a condition that are measured into; the others are 0."""
        tested = {clbit for test in condition for clbit in test.clbits}.difference(left_out)
        return [clbit for clbit in self.qubits if clbit in tested]

    def _controlled(self, instruction: Instruction) -> list[Instruction]:
        gate, qubits, params, _, condition = instruction
        tested = self._tested(condition)
        if isinstance(gate, Channel):
            if len(qubits) + len(tested) > _MOST_TESTED:
                raise CircuitError(
                    f"{gate.symbol} of {_named(qubits)} is under a condition of {len(tested)} classical bits: the "
                    f"qubits and bits of a channel are at most {_MOST_TESTED} together"
                )
            holds = _holds(condition, tested)
            places = qubits + tuple(self.qubits[clbit] for clbit in tested)
            return [Instruction(_under(gate, holds), places)] if holds.any() else []
        found = []
        unmeasured = {clbit: 0 for test in condition for clbit in test.clbits if clbit not in tested}
        for bits in _cubes(condition, unmeasured):
            chosen = [clbit for clbit in tested if clbit in bits]
            value = sum(bits[clbit] << place for place, clbit in enumerate(chosen))
            under = gate.controlled(len(chosen), value) if chosen else gate
            found.append(Instruction(under, tuple(self.qubits[clbit] for clbit in chosen) + qubits, params))
        return found


def _holds(condition: Sequence[Condition], tested: Sequence[int]) -> NDArray[np.bool_]:
    """Whether the tests are true, by the values of the bits `tested`, the first as bit 0; all other bits are 0."""
    bits = [0] * (1 + max([*tested, *(clbit for test in condition for clbit in test.clbits)]))
    result = np.zeros(1 << len(tested), np.bool_)
    for value in range(len(result)):
        for place, clbit in enumerate(tested):
            bits[clbit] = value >> place & 1
        result[value] = all(test.holds(bits) for test in condition)
    return result


def _cubes(condition: Sequence[Condition], known: Mapping[int, int]) -> Iterator[dict[int, int]]:
    """Disjoint settings {classical bit: value} of some bits, which together are all where the tests are true and the
    bits have the values that are known."""
    bits, unequal = dict(known), []
    for test in condition:
        wanted = {clbit: test.value >> place & 1 for place, clbit in enumerate(test.clbits)}
        if not test.equal:
            unequal.append(wanted)
        elif any(bits.setdefault(clbit, value) != value for clbit, value in wanted.items()):
            return
    for wanted in unequal:
        if any(bits.get(clbit, value) != value for clbit, value in wanted.items()):
            continue
        for clbit, value in wanted.items():
            if clbit not in bits:
                yield from _cubes(condition, {**bits, clbit: 1 - value})
                bits[clbit] = value
        return
    yield bits


def _misread(up: float, down: float) -> Channel:
    """A classical bit that shows 1 for 0 with probability ``up`` and 0 for 1 with ``down``."""
    right, wrong = np.diag([sqrt(1 - up), sqrt(1 - down)]), np.array([[0, sqrt(down)], [sqrt(up), 0]])
    if up != down:  # Else a multiple of X.
        return Channel("misread", 1, np.array([right, [[0, 0], wrong[1]], [wrong[0], [0, 0]]], np.complex128), "")
    return Channel("misread", 1, np.array([right, wrong], np.complex128), "")


def _under(channel: Channel, holds: NDArray[np.bool_]) -> Channel:
    """The channel where the bits behind its qubits have a value that holds, and nothing elsewhere."""
    size, num_bits = 1 << channel.num_qubits, len(holds).bit_length() - 1
    operators = np.zeros((len(channel.data), size << num_bits, size << num_bits), np.complex128)
    for value in range(1 << num_bits):
        block = slice(value * size, (value + 1) * size)
        if holds[value]:
            operators[:, block, block] = channel.data
        else:
            operators[0, block, block] = np.eye(size)
    return Channel(channel.name, channel.num_qubits + num_bits, operators, channel.values)


def _named(qubits: tuple[int, ...]) -> str:
    return f"qubit{'s' if len(qubits) > 1 else ''} {', '.join(map(str, qubits))}"


def _as_channels(instruction: Instruction, touched: Set[int]) -> list[Instruction]:
    """A reset as a channel; what is initialised is reset where something has happened to it, and then turned."""
    gate, qubits, *_, condition = instruction
    if gate.kind == "reset":
        return [instruction._replace(gate=_RESET)]
    if gate.kind != "initialize":
        return [instruction]
    found = [Instruction(_RESET, (q,), condition=condition) for q in qubits if q in touched]
    if isinstance(gate.data, int):
        ones = [q for k, q in enumerate(qubits) if gate.data >> k & 1]
        return found + [Instruction(GATES["x"], (q,), condition=condition) for q in ones]
    if gate.data.ndim == 2:
        pairs = zip(gate.data, qubits)
        return found + [Instruction(unitary_gate(_from_zero(pair)), (q,), condition=condition) for pair, q in pairs]
    if len(qubits) > _MOST_PREPARED:
        raise CircuitError(
            f"{_named(qubits)} are initialised together, which under noise is a matrix on {len(qubits)} qubits: at "
            f"most {_MOST_PREPARED}; prepare the state with gates"
        )
    return [*found, Instruction(unitary_gate(_from_zero(gate.data)), qubits, condition=condition)]


def _from_zero(state: NDArray[np.complex128]) -> NDArray[np.complex128]:
    """A unitary matrix that takes |0...0> to the state, up to a phase."""
    columns = np.eye(len(state), dtype=np.complex128)
    columns[:, 0] = state
    return np.linalg.qr(columns)[0]


def _flips(circuit: Circuit) -> NDArray[np.float64] | None:
    found: dict[int, np.ndarray] = {}
    for gate, qubits, _, _, condition in circuit:
        if gate.kind != "readout":
            continue
        if condition:
            raise CircuitError(
                f"the readout_error of qubit {qubits[0]} is under a classical condition; it is always so"
            )
        if qubits[0] in found:
            raise CircuitError(f"qubit {qubits[0]} has two readout errors; give it one, with the probabilities of both")
        found[qubits[0]] = gate.data
    if not found:
        return None
    flips = np.zeros((circuit.num_qubits, 2))
    for qubit, pair in found.items():
        flips[qubit] = pair
    return flips
