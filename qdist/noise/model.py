"""NoiseModel: which channels come behind which gates."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, Self

from qdist.circuit import GATES, Circuit, CircuitError, Gate
from qdist.circuit.channels import Channel, readout_error
from qdist.circuit.instruction import Instruction
from qdist.circuit.wires import as_tuple

__all__ = ["NoiseModel"]

_WITH_DATA = ("unitary", "diagonal", "permutation", "pauli_rotation", "reset", "initialize")


class _Rule(NamedTuple):
    channel: Channel
    gates: frozenset[str] | None
    qubits: frozenset[int] | None


class NoiseModel:
    """Channels behind gates, and errors of readout.

    model = NoiseModel()
    model.add(qd.noise.depolarizing(0.001), ["h", "rx", "rz"])
    model.add(qd.noise.depolarizing(0.01, 2), "cx")
    model.add(qd.noise.amplitude_damping(0.002))      # behind every gate, on each of its qubits
    model.readout(0.02)
    program = qd.noise.compile(circuit, model)
    """

    def __init__(self) -> None:
        self._rules: list[_Rule] = []
        self._readout: dict[int | None, Channel] = {}

    def add(
        self,
        channel: Channel,
        gates: str | Gate | Iterable[str | Gate] | None = None,
        qubits: int | Iterable[int] | None = None,
    ) -> Self:
        """The channel behind every gate of these names, "reset" and "initialize" among them (all without), in the order
        in which channels were added.

        A channel on one qubit acts on each of the gate's qubits; one on several on exactly as many, and is for gates of
        so many. qubits: only on these; all without. Raises CircuitError. Returns the model.
        """
        if not isinstance(channel, Channel) or channel.kind != "channel":
            raise CircuitError(f"a NoiseModel adds channels, such as noise.depolarizing(0.01); got {channel!r}")
        listed = [gates] if isinstance(gates, str | Gate) else gates
        names = None if listed is None else frozenset(_name(gate, channel) for gate in listed)
        where = None if qubits is None else frozenset(_qubits(qubits))
        self._rules.append(_Rule(channel, names, where))
        return self

    def readout(self, p: float | Sequence[float], qubits: int | Iterable[int] | None = None) -> Self:
        """Bits that are read wrong with probability p, or (of reading 1 for 0, of reading 0 for 1); of these qubits, or
        of all that have none of their own. Returns the model."""
        error = readout_error(p)
        for qubit in [None] if qubits is None else _qubits(qubits):
            self._readout[qubit] = error
        return self

    def applied(self, circuit: Circuit) -> Circuit:
        """The circuit with the channels behind its gates."""
        found: list[Instruction] = []
        for instruction in circuit:
            found.append(instruction)
            gate, qubits, _, _, condition = instruction
            if qubits and (gate.is_unitary or gate.kind in ("reset", "initialize")):
                for rule in self._rules:
                    if rule.gates is None or gate.name in rule.gates:
                        found += [Instruction(rule.channel, q, (), (), condition) for q in _places(rule, gate, qubits)]
        own = {instruction.qubits[0] for instruction in circuit if instruction.gate.kind == "readout"}
        for qubit in range(circuit.num_qubits):
            error = self._readout.get(qubit, self._readout.get(None))
            if error is not None and qubit not in own:
                found.append(Instruction(error, (qubit,)))
        return circuit.with_instructions(found).with_order(circuit.parameters)

    def __repr__(self) -> str:
        rules = [
            f"{rule.channel.symbol} behind {', '.join(sorted(rule.gates)) if rule.gates is not None else 'all gates'}"
            for rule in self._rules
        ]
        rules += [
            f"{error.symbol} of {'all qubits' if qubit is None else f'qubit {qubit}'}"
            for qubit, error in self._readout.items()
        ]
        return f"<NoiseModel: {'; '.join(rules) or 'no noise'}>"


def _qubits(given: Any) -> list[int]:
    """Numbers of qubits, of circuits of any size."""
    try:
        qubits = [operator.index(qubit) for qubit in as_tuple(given)]
    except TypeError:
        qubits = [-1]
    if min(qubits, default=0) < 0:
        raise CircuitError(f"the qubits of a NoiseModel are one int >= 0 or several; got {given!r}")
    return qubits


def _name(given: str | Gate, channel: Channel) -> str:
    if isinstance(given, Gate):
        return given.name
    gate = GATES.get(given) if isinstance(given, str) else None
    if gate is None and given not in _WITH_DATA:
        if given == "measure":
            raise CircuitError(
                "measurements have no channel behind them: model.readout(p) says how often they are misread"
            )
        close = get_close_matches(str(given).lower(), [*GATES, *_WITH_DATA], 1, 0.6)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise CircuitError(f"there is no gate named {given!r}{hint}; a gate of one's own is given itself, not its name")
    if gate is not None and channel.num_qubits > 1 and gate.num_qubits != channel.num_qubits:
        raise CircuitError(
            f"{channel.symbol} is on {channel.num_qubits} qubits and {gate.name} on {gate.num_qubits}: give a channel "
            "on one qubit, which acts on each of the gate's, or one on as many"
        )
    return str(given) if gate is None else gate.name


def _places(rule: _Rule, gate: Gate, qubits: tuple[int, ...]) -> list[tuple[int, ...]]:
    if rule.qubits is not None and rule.channel.num_qubits > 1 and not rule.qubits.issuperset(qubits):
        return []
    if rule.channel.num_qubits == 1:
        return [(q,) for q in qubits if rule.qubits is None or q in rule.qubits]
    if rule.channel.num_qubits == gate.num_qubits:
        return [qubits]
    if rule.gates is None:
        return []
    raise CircuitError(
        f"{rule.channel.symbol} is on {rule.channel.num_qubits} qubits and {gate.name} on {gate.num_qubits}: give a "
        "channel on one qubit, which acts on each of the gate's, or one on as many"
    )
