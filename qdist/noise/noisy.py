"""Noisy: a circuit with channels, taken apart into what runs and what is read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import Circuit, CircuitError, Parameter, lowered
from qdist.circuit.channels import Channel
from qdist.circuit.instruction import Instruction
from qdist.circuit.measurements import split_final_measurements

__all__ = ["Noisy"]

_RESET = Channel("reset", 1, np.array([[[1, 0], [0, 0]], [[0, 1], [0, 0]]], np.complex128), "")


@dataclass(frozen=True)
class Noisy:
    """A circuit of gates that the kernels know and of channels; resets are channels too."""

    circuit: Circuit
    parameters: tuple[Parameter, ...]
    num_clbits: int
    readings: Mapping[int, int]
    """{classical bit: qubit} of the measurements at the end."""
    flips: NDArray[np.float64] | None
    """(qubits, 2): the probabilities of reading 1 for 0 and 0 for 1; None where all are read right."""

    @staticmethod
    def of(circuit: Circuit) -> Noisy:
        """Raises CircuitError for what cannot have noise around it yet, by name."""
        if not isinstance(circuit, Circuit):
            raise CircuitError(f"noise is on a Circuit; got {circuit!r}")
        known = lowered(circuit)
        body, readings = split_final_measurements([i for i in known if i.gate.kind != "readout"])
        _refuse_branches(body)
        kept = [_checked(instruction) for instruction in body if not instruction.gate.is_directive]
        result = known.with_instructions(kept).with_order(circuit.parameters)
        return Noisy(result.frozen(), circuit.parameters, circuit.num_clbits, readings, _flips(known))

    @property
    def channels(self) -> list[Channel]:
        """All of them, in order."""
        return [gate for gate, *_ in self.circuit if isinstance(gate, Channel)]

    def part(self, instructions: list[Instruction]) -> Circuit:
        """Some gates as a circuit that has all the parameters."""
        return self.circuit.with_instructions(instructions).with_order(self.parameters)


def _refuse_branches(instructions: Sequence[Instruction]) -> None:
    for gate, qubits, _, _, condition in instructions:
        if condition:
            raise CircuitError(
                f"{gate.name} of {_named(qubits)} is under a classical condition, and noisy circuits do not branch "
                "yet; qdist.compile runs circuits that branch, without noise"
            )


def _named(qubits: tuple[int, ...]) -> str:
    return f"qubit{'s' if len(qubits) > 1 else ''} {', '.join(map(str, qubits))}"


def _checked(instruction: Instruction) -> Instruction:
    gate, qubits, *_ = instruction
    if gate.kind == "measure":
        raise CircuitError(
            f"{_named(qubits)} is measured before the end, and noisy circuits are measured at their end: leave the "
            "measurement out, or put nothing behind it; where its outcome is not needed, phase_damping(1, qubit) does "
            "the same"
        )
    if gate.kind == "initialize":
        raise CircuitError(
            f"{_named(qubits)} is initialised, and noisy circuits start from |0...0>: prepare the state with gates"
        )
    return instruction._replace(gate=_RESET) if gate.kind == "reset" else instruction


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
