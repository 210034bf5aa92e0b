"""What a circuit is made of: Instruction, the Condition it may be under, and blocks that set conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from .errors import CircuitError
from .gate import Gate
from .parameters import Angle

if TYPE_CHECKING:
    from .builder import CircuitBuilder


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


class ConditionalBlock:
    """What `circuit.if_` returns: a `with` block of instructions under a condition, which yields its else."""

    __slots__ = ("_circuit", "_condition", "_else_of", "_end", "_tested", "_tested_bit_written")

    def __init__(self, circuit: CircuitBuilder, condition: Condition, else_of: ConditionalBlock | None = None) -> None:
        self._circuit = circuit
        self._condition = condition
        self._tested = frozenset(condition.clbits)
        self._else_of = else_of
        self._end: int | None = None
        self._tested_bit_written: int | None = None

    def __enter__(self) -> ConditionalBlock:
        if self._else_of is not None:
            if self._else_of._end != len(self._circuit):
                raise CircuitError("an else block must come right after its if block")
            self._else_of._refuse_if_written("the else block")
        self._circuit._open_block(self, self._condition)
        return ConditionalBlock(self._circuit, self._condition._replace(equal=not self._condition.equal), self)

    def __exit__(self, *error: object) -> None:
        self._end = len(self._circuit)
        self._circuit._close_block()

    def allow(self, instruction: Instruction) -> None:
        """Raise CircuitError where the block's condition may have changed since its top."""
        self._refuse_if_written(instruction.gate.name)
        for clbit in instruction.clbits:
            if clbit in self._tested:
                self._tested_bit_written = clbit

    def _refuse_if_written(self, what: str) -> None:
        # An instruction tests its own condition when it runs, so the tested bits must keep their values.
        if self._tested_bit_written is not None:
            raise CircuitError(
                f"{what} depends on classical bit {self._tested_bit_written}, which the if block has "
                "measured into since it was tested; measure into another bit, or as the block's last thing"
            )
