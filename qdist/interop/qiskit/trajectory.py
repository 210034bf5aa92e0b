"""Runs of circuits that reset, initialise, measure or branch in their middle: one run, or a tree of them for shots."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import Circuit
from qdist.circuit.instruction import Condition, Instruction
from qdist.program.compiled import Values
from qdist.program.program import Program
from qdist.state.statevector import StateVector

if TYPE_CHECKING:
    from .programs import Programs

__all__ = ["Leaf", "Trajectory"]

_DRAWN = ("reset", "initialize", "measure")


class Leaf(NamedTuple):
    """Where some shots end: their numbers, the classical bits that were measured on the way, and the state."""

    shots: NDArray[np.int64]
    bits: list[int]
    state: StateVector


class _Piece(NamedTuple):
    """Instructions that begin with one that is drawn, or with none, and are under one condition."""

    program: Program
    columns: list[int]
    drawn: Instruction | None
    condition: tuple[Condition, ...]


class Trajectory:
    """A circuit cut before everything that is drawn, and where conditions change."""

    def __init__(self, programs: Programs, circuit: Circuit) -> None:
        self._num_clbits = circuit.num_clbits
        self._pieces: list[_Piece] = []
        made: dict[tuple[Instruction, ...], Program] = {}
        for some in _cut(circuit):
            drawn = some[0] if some and some[0].gate.kind in _DRAWN else None
            # Outcomes are drawn here, so that a measurement has nothing left to do, and conditions are tested here.
            gates = tuple(i._replace(condition=()) for i in some if i.gate.kind != "measure")
            if gates not in made:
                made[gates] = programs.compiled(circuit.with_instructions(list(gates)))
            program = made[gates]
            self._pieces.append(
                _Piece(program, programs.columns(program.circuit), drawn, some[0].condition if some else ())
            )

    def run(self, row: NDArray[np.float64], rng: np.random.Generator) -> StateVector:
        """The state at the end of one run, for values of all of Qiskit's parameters.

        Each reset, initialisation and measurement takes one number of the generator, whether or not its outcome is
        certain: that is the stream of ``qiskit.quantum_info.Statevector``.
        """
        (leaf,) = self.leaves(row, 1, rng)
        return leaf.state

    def leaves(self, row: NDArray[np.float64], shots: int, rng: np.random.Generator) -> list[Leaf]:
        """Where so many shots end. Those that have had the same outcomes so far run as one."""
        values = [piece.program.values(row[piece.columns]) for piece in self._pieces]
        found: list[Leaf] = []
        self._grow(values, 0, Leaf(np.arange(shots), [0] * self._num_clbits, self._first(values)), rng, found)
        return found

    def _first(self, values: Sequence[Values]) -> StateVector:
        """The state after the first piece, which is unconditional and draws nothing."""
        return self._pieces[0].program.run_with(values[0], None, np.random.default_rng(0), None)

    def _grow(
        self, values: Sequence[Values], after: int, leaf: Leaf, rng: np.random.Generator, found: list[Leaf]
    ) -> None:
        """Appends the leaves of shots that have run piece ``after``; their state is used up."""
        shots, bits, state = leaf
        for k in range(after + 1, len(self._pieces)):
            piece = self._pieces[k]
            if not all(test.holds(bits) for test in piece.condition):
                continue
            if piece.drawn is None:
                self._apply(k, values, state)
                continue
            weights = state.probabilities(piece.drawn.qubits)
            outcomes = rng.choice(len(weights), p=weights / weights.sum(), size=len(shots))
            # The most frequent outcome goes on in place, so that at most log2(shots) states wait at a time.
            present, counts = np.unique(outcomes, return_counts=True)
            *rare, most = present[np.argsort(counts, kind="stable")].tolist()
            for outcome in rare:
                branch = Leaf(shots[outcomes == outcome], list(bits), state.copy())
                self._draw(k, values, branch, outcome)
                self._grow(values, k, branch, rng, found)
            shots = shots[outcomes == most]
            self._draw(k, values, Leaf(shots, bits, state), most)
        found.append(Leaf(shots, bits, state))

    def _draw(self, k: int, values: Sequence[Values], leaf: Leaf, outcome: int) -> None:
        """Runs a piece whose first instruction has had this outcome."""
        drawn = self._pieces[k].drawn
        assert drawn is not None, "the piece begins with what was drawn"
        leaf.state.collapse(drawn.qubits, outcome)
        if drawn.gate.kind == "measure":
            leaf.bits[drawn.clbits[0]] = outcome
        self._apply(k, values, leaf.state)

    def _apply(self, k: int, values: Sequence[Values], state: StateVector) -> None:
        # After a collapse a reset is certain, whatever its own numbers are.
        self._pieces[k].program.run_with(values[k], state, np.random.default_rng(0), state)


def _cut(circuit: Circuit) -> list[list[Instruction]]:
    """Pieces of which the first is plain. What is measured under a condition may change it, and is alone."""
    pieces: list[list[Instruction]] = [[]]
    for instruction in circuit:
        first = pieces[-1][0] if pieces[-1] else None
        condition = first.condition if first is not None else ()
        alone = bool(condition) and first is not None and first.gate.kind == "measure"
        if instruction.gate.kind in _DRAWN or instruction.condition != condition or alone:
            pieces.append([])
        pieces[-1].append(instruction)
    return pieces
