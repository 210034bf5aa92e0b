"""A noisy circuit in layers: gates, then channels, each instruction in the earliest layer that its qubits allow.

Gates between two layers of channels are one program, so that there are about as many programs as the circuit is deep,
whatever the number of its channels.
"""

from __future__ import annotations

from typing import NamedTuple

from qdist.circuit import Circuit
from qdist.circuit.channels import Channel
from qdist.circuit.instruction import Instruction

__all__ = ["Layer", "layers_of"]


class Layer(NamedTuple):
    """Gates, and the channels after them, both in their order."""

    gates: list[Instruction]
    channels: list[Instruction]


def layers_of(circuit: Circuit) -> list[Layer]:
    """The layers of a circuit of gates and channels."""
    ready = [0] * circuit.num_qubits  # 2k: the gates of layer k may act on the qubit; 2k + 1: its channels
    found: list[Layer] = []
    for instruction in circuit:
        is_channel = isinstance(instruction.gate, Channel)
        place = max((ready[q] for q in instruction.qubits), default=0)
        if place % 2 != is_channel:
            place += 1
        for q in instruction.qubits:
            ready[q] = place
        while len(found) <= place // 2:
            found.append(Layer([], []))
        found[place // 2][is_channel].append(instruction)
    return found
