"""The classical bits of a circuit: which were measured mid-circuit, and which are drawn from its final state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qdist.backends.errors import StateError
from qdist.state.checking.checks import checked_shots
from qdist.state.measuring.measure import Seed, sample
from qdist.state.measuring.shots import tally
from qdist.state.shards import Shards

__all__ = ["Readout"]


@dataclass(frozen=True, slots=True)
class Readout:
    """How the classical bits of a circuit follow from a run of it."""

    bits: tuple[int, ...]
    """Outcomes of mid-circuit measurements; 0 for the other bits."""
    sources: Mapping[int, int]
    """{classical bit: qubit} of the measurements at the end. They leave the state alone: its qubits are drawn from when
    the bits are asked for."""
    is_random: bool
    """Whether another run may end in another state, because of a mid-circuit measurement or reset."""

    def draw(self, state: Shards, seed: Seed) -> tuple[int, ...]:
        """All bits of one run, which ended in this state."""
        if not self.sources:
            return self.bits
        (index,) = sample(state, 1, seed).tolist()
        bits = list(self.bits)
        for clbit, qubit in self.sources.items():
            bits[clbit] = index >> qubit & 1
        return tuple(bits)

    def counts(self, state: Shards, shots: int, seed: Seed) -> dict[str, int]:
        """How often each setting of the bits comes in so many shots. Raises StateError where ``is_random``."""
        if self.is_random:
            raise StateError(
                "the state is that of one outcome of mid-circuit measurements or resets, so it does not "
                "tell what other runs give: take compile(circuit).counts(shots), which runs the circuit for each shot; "
                "counts(shots, qubits=range(state.num_qubits)) counts the qubits of this one state"
            )
        return tally(sample(state, checked_shots(shots), seed), self.sources, len(self.bits))
