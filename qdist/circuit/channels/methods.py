"""The channel methods of Circuit. Where one qubit is meant, a sequence applies the channel to each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, TypeAlias

from numpy.typing import ArrayLike

from ..gate import Gate
from . import kinds

Qubits: TypeAlias = int | Iterable[int]


class ChannelMethods:
    """One method a channel; what they mean is said at the makers of the same names in qdist.noise."""

    __slots__ = ()

    def _add(self, gate: Gate, qubits: tuple[Any, ...], params: tuple[Any, ...] = ()) -> Self:
        raise NotImplementedError

    def _add_each(self, gate: Gate, qubits: tuple[Any, ...], params: tuple[Any, ...]) -> Self:
        """As ``_add``, where the number of qubits is not that of the method."""
        raise NotImplementedError

    def depolarizing(self, p: float, *qubits: Qubits) -> Self:
        """rho becomes (1 - p) rho + p I / 2**n, on one qubit or on two or three together: depolarizing(p, 0, 1)."""
        return self._add(kinds.depolarizing(p, len(qubits)), qubits)

    def bit_flip(self, p: float, qubit: Qubits) -> Self:
        """X with probability p."""
        return self._add(kinds.bit_flip(p), (qubit,))

    def phase_flip(self, p: float, qubit: Qubits) -> Self:
        """Z with probability p."""
        return self._add(kinds.phase_flip(p), (qubit,))

    def pauli_channel(self, probabilities: Mapping[str, float], *qubits: Qubits) -> Self:
        """Pauli strings with probabilities: {"X": 0.01, "Z": 0.02}; on two qubits {"XZ": 0.01}, the last one first."""
        return self._add_each(kinds.pauli_channel(probabilities), qubits, ())

    def amplitude_damping(self, gamma: float, qubit: Qubits) -> Self:
        """|1> decays to |0> with probability gamma."""
        return self._add(kinds.amplitude_damping(gamma), (qubit,))

    def phase_damping(self, lam: float, qubit: Qubits) -> Self:
        """Coherences are multiplied by sqrt(1 - lam)."""
        return self._add(kinds.phase_damping(lam), (qubit,))

    def thermal_relaxation(self, t1: float, t2: float, time: float, qubit: Qubits, excited: float = 0.0) -> Self:
        """What `time` does to a qubit with relaxation time t1 and coherence time t2, towards a probability `excited` of
        |1>."""
        return self._add(kinds.thermal_relaxation(t1, t2, time, excited), (qubit,))

    def kraus(self, operators: Sequence[ArrayLike], *qubits: Qubits) -> Self:
        """A channel given by its Kraus operators, each 2**n by 2**n, qubits[0] as the lowest bit of the index."""
        return self._add_each(kinds.kraus(operators), qubits, ())

    def readout_error(self, p: float | Sequence[float], qubit: Qubits) -> Self:
        """The qubit is read wrong with probability p, or (of reading 1 for 0, of reading 0 for 1)."""
        return self._add(kinds.readout_error(p), (qubit,))
