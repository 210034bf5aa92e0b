"""Channel: an instruction that takes a density matrix rho to the sum of K rho K†, given by its Kraus operators K.

kind "channel"; "readout" for an error of what is read, which changes no state and whose data is a pair of
probabilities.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ..errors import CircuitError
from ..gate import Gate, Kind
from ..instruction import Instruction
from ..matrices import Matrix, pauli_matrix

__all__ = ["Channel", "as_pauli", "channel_of", "refuse_channels"]

_ROUNDING = 1e-12


class Channel(Gate):
    """A channel on a few qubits. `data` holds its Kraus operators, (number, 2**n, 2**n), the first qubit as bit 0; the
    one that changes a state least comes first. `values` is what a drawing writes behind its name."""

    __slots__ = ("values",)

    values: str

    def __init__(self, name: str, num_qubits: int, data: np.ndarray, values: str, kind: Kind = "channel") -> None:
        frozen = np.array(data)
        frozen.flags.writeable = False
        self._set(values=values)
        symbol = f"{name}({values})" if values else name
        super().__init__(name, num_qubits, kind=kind, data=frozen, symbol=symbol)

    @property
    def paulis(self) -> list[tuple[float, int, int]] | None:
        """(probability, X mask, Z mask) of each operator, where all of them are multiples of Pauli strings, bit k of a
        mask for the channel's qubit k; None where one is not."""
        found = []
        for operator in self.data:
            pauli = as_pauli(operator, self.num_qubits)
            if pauli is None:
                return None
            found.append(pauli)
        return found

    @property
    def superoperator(self) -> Matrix:
        """The matrix on vec(rho), (4**n, 4**n): bits 0 .. n-1 of the index for rows of rho, n .. 2n-1 for columns."""
        size = 1 << self.num_qubits
        result = np.zeros((size * size, size * size), np.complex128)
        for operator in self.data:
            result += np.kron(operator.conj(), operator)
        return result

    def __reduce__(self) -> tuple[Any, ...]:
        return Channel, (self.name, self.num_qubits, self.data, self.values, self.kind)

    def __repr__(self) -> str:
        return f"<Channel {self.symbol}: {self.num_qubits} qubits>"


def as_pauli(operator: Matrix, num_qubits: int) -> tuple[float, int, int] | None:
    """(|c|**2, X mask, Z mask) of a matrix c P with a Pauli string P; None for another."""
    rows, columns = np.nonzero(np.abs(operator) > _ROUNDING)
    if not len(rows):
        return 0.0, 0, 0
    flips = int(rows[0] ^ columns[0])
    for signs in range(1 << num_qubits):
        letters = "".join("IXZY"[(flips >> k & 1) | (signs >> k & 1) << 1] for k in range(num_qubits))
        pauli = pauli_matrix(letters)
        factor = np.vdot(pauli, operator) / len(operator)
        if np.abs(operator - factor * pauli).max() < _ROUNDING:
            return float(abs(factor) ** 2), flips, signs
    return None


def channel_of(gate: Gate) -> Channel | None:
    """The gate, where it is a channel."""
    return gate if isinstance(gate, Channel) and gate.kind == "channel" else None


def refuse_channels(instructions: Iterable[Instruction], what: str) -> None:
    """Raises CircuitError that names the first channel. what: who cannot have them, "a state vector" ..."""
    for gate, qubits, *_ in instructions:
        if isinstance(gate, Channel):
            raise CircuitError(
                f"{what} has no noise, and the circuit has {gate.symbol} of qubit{'s' if len(qubits) > 1 else ''} "
                f"{', '.join(map(str, qubits))}: qdist.noise.compile(circuit) runs it, by trajectories or as a density "
                "matrix; leave the channel out for the ideal circuit"
            )
