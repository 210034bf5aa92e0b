"""The classical bits of a circuit: which were measured mid-circuit, and which are drawn from its final state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from qdist.backends.errors import StateError
from qdist.state.checking.checks import checked_shots
from qdist.state.measuring.measure import Seed, sample
from qdist.state.measuring.pictures import Counts
from qdist.state.measuring.shots import tally
from qdist.state.shards import Shards
from qdist.tensorfile import parse_json

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

    @staticmethod
    def of_text(text: str, num_qubits: int) -> Readout | None:
        """What ``text`` was made of, or None of another text. Raises ValueError for what cannot be a circuit's."""
        found = parse_json(text) if text else {}
        if not isinstance(found, dict) or "sources" not in found:
            return None
        bits, sources, is_random = (found.get(name) for name in ("bits", "sources", "is_random"))
        if not isinstance(bits, list) or not all(type(bit) is int and bit in (0, 1) for bit in bits):
            raise ValueError("classical bits are 0 or 1")
        if not isinstance(sources, list) or not all(_is_source(s, len(bits), num_qubits) for s in sources):
            raise ValueError("classical bits and the qubits that they are read from are pairs of numbers")
        if not isinstance(is_random, bool):
            raise ValueError("a state is of a random outcome or is not")
        return Readout(tuple(bits), dict(sources), is_random)

    @property
    def text(self) -> str:
        """For a file beside the amplitudes."""
        return json.dumps({"bits": self.bits, "sources": list(self.sources.items()), "is_random": self.is_random})

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
                "tell what other runs give: take compile(circuit).counts(shots), which runs the circuit for other "
                "outcomes too; counts(shots, qubits=range(state.num_qubits)) counts the qubits of this one state"
            )
        return self.tallied(state, shots, seed)

    def tallied(self, state: Shards, shots: int, seed: Seed) -> dict[str, int]:
        """The same of so many runs that ended in this state."""
        number, width = checked_shots(shots), len(self.bits)
        if self.sources:
            found = tally(sample(state, number, seed), self.sources, width)
        else:
            found = Counts({"0" * width: number} if number else {})
        ones = sum(1 << clbit for clbit, bit in enumerate(self.bits) if bit and clbit not in self.sources)
        return Counts((f"{int(bits, 2) | ones:0{width}b}", times) for bits, times in found.items()) if ones else found


def _is_source(source: object, num_clbits: int, num_qubits: int) -> bool:
    return (
        isinstance(source, list)
        and len(source) == 2
        and all(type(n) is int and 0 <= n < most for n, most in zip(source, (num_clbits, num_qubits)))
    )
