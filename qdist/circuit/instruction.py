"""What a circuit is made of: Instruction, and the Condition it may be under."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .gate import Gate
from .parameters import Angle


class Condition(NamedTuple):
    """A test of classical bits: they hold `value`, or with `equal` False do not; clbits[0] is its bit 0."""

    clbits: tuple[int, ...]
    value: int
    equal: bool = True

    def holds(self, bits: Sequence[int]) -> bool:
        """Whether the test is true of these values of all the circuit's classical bits."""
        found = sum(bits[clbit] << place for place, clbit in enumerate(self.clbits))
        return (found == self.value) is self.equal


class Instruction(NamedTuple):
    """A gate with what it acts on. It runs when all tests in `condition` hold; an empty one always does."""

    gate: Gate
    qubits: tuple[int, ...]
    params: tuple[Angle, ...] = ()
    clbits: tuple[int, ...] = ()
    condition: tuple[Condition, ...] = ()
