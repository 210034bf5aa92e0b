"""Single runs of circuits that reset, initialise, measure or branch, whose outcomes are drawn as Qiskit draws them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import Circuit
from qdist.circuit.instruction import Condition, Instruction
from qdist.program.program import Program
from qdist.state.statevector import StateVector

if TYPE_CHECKING:
    from .programs import Programs

__all__ = ["Trajectory"]

_DRAWN = ("reset", "initialize", "measure")


class Trajectory:
    """A circuit cut before everything that is drawn or conditional.

    Each reset, initialisation and measurement takes one number of the generator, whether or not its outcome is certain:
    that is the stream of ``qiskit.quantum_info.Statevector``.
    """

    def __init__(self, programs: Programs, circuit: Circuit) -> None:
        self._num_clbits = circuit.num_clbits
        self._pieces: list[tuple[Program, Instruction | None, tuple[Condition, ...], list[int]]] = []
        for some in _cut(circuit):
            first = some[0] if some and (some[0].gate.kind in _DRAWN or some[0].condition) else None
            condition = first.condition if first is not None else ()
            drawn = first if first is not None and first.gate.kind in _DRAWN else None
            # The outcome is drawn here, so that a measurement has nothing left to do.
            gates = [i._replace(condition=()) for i in some if i.gate.kind != "measure"]
            program = programs.compiled(circuit.with_instructions(gates))
            self._pieces.append((program, drawn, condition, programs.columns(program)))

    def run(self, row: NDArray[np.float64], rng: np.random.Generator) -> StateVector:
        """The state at the end of one run, for values of all of Qiskit's parameters."""
        state: StateVector | None = None
        bits = [0] * self._num_clbits
        for program, drawn, condition, columns in self._pieces:
            if not all(test.holds(bits) for test in condition):
                continue
            if drawn is not None:
                assert state is not None, "the first piece draws nothing"
                weights = state.probabilities(drawn.qubits)
                outcome = int(rng.choice(len(weights), p=weights / weights.sum()))
                state.collapse(drawn.qubits, outcome)
                if drawn.gate.kind == "measure":
                    bits[drawn.clbits[0]] = outcome
            # After the collapse a reset is certain, whatever its own seed says.
            state = program.run(row[columns], initial=state, seed=0)
        assert state is not None, "the first piece is unconditional"
        return state


def _cut(circuit: Circuit) -> list[list[Instruction]]:
    """Pieces of which the first is plain, and the others begin with what is drawn or conditional.

    What is conditional is alone in its piece.
    """
    pieces: list[list[Instruction]] = [[]]
    for instruction in circuit:
        after_condition = bool(pieces[-1]) and bool(pieces[-1][0].condition)
        if instruction.gate.kind in _DRAWN or instruction.condition or after_condition:
            pieces.append([])
        pieces[-1].append(instruction)
    return pieces
