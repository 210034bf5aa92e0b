"""What trajectories run: programs of layers without jumps, of their gates alone, and of single Kraus operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from qdist.circuit import Circuit
from qdist.circuit.channels import Channel, LinearGate
from qdist.circuit.instruction import Instruction
from qdist.comm import Communicator
from qdist.noise.chain import Step
from qdist.noise.layers import layers_of
from qdist.noise.noisy import Noisy
from qdist.program.program import Program
from qdist.state.statevector import StateVector

__all__ = ["JumpPrograms", "Record"]

Record = tuple[tuple[int, int, int], ...]
"""(layer, channel of the layer, operator) of each jump."""


class JumpPrograms:
    """The programs of a noisy circuit, layer by layer; all have the circuit's parameters."""

    def __init__(self, noisy: Noisy, comm: Communicator | None, device: str, dtype: Any) -> None:
        self._noisy, self._options = noisy, {"comm": comm, "device": device, "dtype": dtype}
        self.num_qubits = noisy.circuit.num_qubits
        self.layers = layers_of(noisy.circuit)
        self.calm = [self._compiled([*gates, *_firsts(channels)]) for gates, channels in self.layers]
        """Of each layer: its gates, and the first operator of every channel."""
        self.places = [(k, channel) for k, layer in enumerate(self.layers) for channel in range(len(layer.channels))]
        """Of all channels, in their order: the layer, and the number in it."""
        measured = ((place, self.layers[place[0]].channels[place[1]].clbits) for place in self.places)
        self.measured = {place: clbit for place, clbits in measured for clbit in clbits}
        """{place: classical bit} of the measurements whose outcomes are wanted."""
        self._gates: dict[int, Program] = {}
        self._spans: dict[tuple[int, int], Program] = {}
        self._operators: dict[tuple[int, int, int], tuple[Program, Program]] = {}

    def start(self) -> StateVector:
        """|0...0>."""
        device = self.calm[0].device if self.calm else self._options["device"]
        return StateVector(self.num_qubits, self._options["dtype"], self._options["comm"], device=device)

    def gates(self, layer: int) -> Program:
        """The gates of a layer alone."""
        if layer not in self._gates:
            self._gates[layer] = self._compiled(self.layers[layer].gates)
        return self._gates[layer]

    def span(self, first: int, last: int) -> Program:
        """The first operators of channels first .. last - 1 of ``places``, and the gates before each of them; behind
        the last channel of all also the gates that are left."""
        if (first, last) not in self._spans:
            instructions: list[Instruction] = []
            for k in range(first, last):
                layer, channel = self.places[k]
                instructions += self._gates_before(k)
                instructions += _firsts([self.layers[layer].channels[channel]])
            if last == len(self.places):
                instructions += self._gates_before(last)
            self._spans[first, last] = self._compiled(instructions)
        return self._spans[first, last]

    def before(self, place: int) -> Program | None:
        """The gates between a channel of ``places`` and the one before it; None where there are none."""
        key = (place, place)
        if key not in self._spans:
            gates = self._gates_before(place)
            if not gates:
                return None
            self._spans[key] = self._compiled(gates)
        return self._spans[key]

    def _gates_before(self, place: int) -> list[Instruction]:
        last = self.places[place][0] if place < len(self.places) else len(self.layers) - 1
        if place == 0:
            start = 0
        elif place < len(self.places) and self.places[place - 1][0] == last:
            return []
        else:
            start = self.places[place - 1][0] + 1
        return [gate for layer in self.layers[start : last + 1] for gate in layer.gates]

    def operator(self, layer: int, channel: int, operator: int) -> tuple[Program, Program]:
        """One Kraus operator of a channel, and its adjoint."""
        key = (layer, channel, operator)
        if key not in self._operators:
            gate, qubits, *_ = self.layers[layer].channels[channel]
            pair = (gate.data[operator], gate.data[operator].conj().T)
            forth, back = (self._compiled([Instruction(LinearGate(matrix), qubits)]) for matrix in pair)
            self._operators[key] = forth, back
        return self._operators[key]

    def steps(self, record: Record) -> list[Step]:
        """The circuit with the operators that happened."""
        jumps = {(layer, channel): operator for layer, channel, operator in record}
        steps: list[Step] = []
        for number, (gates, channels) in enumerate(self.layers):
            if gates:
                steps.append(Step(self.gates(number)))
            if any(layer == number for layer, _ in jumps):
                found = (self.operator(number, c, jumps.get((number, c), 0)) for c in range(len(channels)))
                steps += [Step(*programs) for programs in found]
            elif channels:
                steps.append(Step(*self._without_jumps(number)))
        return steps

    def _without_jumps(self, layer: int) -> tuple[Program, Program]:
        """The first operators of a layer's channels, and their adjoints in reverse order."""
        key = (layer, -1, 0)
        if key not in self._operators:
            channels = self.layers[layer].channels
            self._operators[key] = (
                self._compiled(_firsts(channels)),
                self._compiled(_firsts(channels[::-1], adjoint=True)),
            )
        return self._operators[key]

    def _compiled(self, instructions: list[Instruction]) -> Program:
        circuit = Circuit(self.num_qubits).with_instructions(instructions).with_order(self._noisy.parameters)
        return Program(circuit, **self._options)


def _firsts(channels: Sequence[Instruction], adjoint: bool = False) -> list[Instruction]:
    found = []
    for gate, qubits, *_ in channels:
        assert isinstance(gate, Channel)
        matrix = gate.data[0]
        found.append(Instruction(LinearGate(matrix.conj().T if adjoint else matrix), qubits))
    return found
