"""Samples of classical bits: all shots from one state, or from several where they differ before the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import Circuit
from qdist.circuit.instruction import Instruction
from qdist.circuit.measurements import split_final_measurements
from qdist.state.statevector import StateVector

if TYPE_CHECKING:
    from .programs import Programs

__all__ = ["Drawing", "Sampling", "numpy_choice", "own_choice"]

Drawing = Callable[[StateVector, Sequence[int], int, np.random.Generator], NDArray[np.int64]]
"""So many indices of some qubits (the first is bit 0) of a state, drawn with a generator."""

_BLOCK_BITS = 12
"""Outcomes are looked up in blocks of so many, of which only those that are hit are computed."""


class Sampling:
    """A circuit whose last measurements are set apart.

    Where nothing else is random, all shots are drawn from one state; otherwise from the states of a tree of runs.
    """

    def __init__(self, programs: Programs, circuit: Circuit) -> None:
        kept, self._finals = split_final_measurements(list(circuit))
        self.measures = any(instruction.gate.kind == "measure" for instruction in circuit)
        self._num_clbits, self._is_random = circuit.num_clbits, _is_random(kept)
        self._rest, self._programs = circuit.with_instructions(kept), programs
        self._columns = programs.columns(self._rest)
        if self._is_random:
            self._trajectory = programs.trajectory(self._rest)

    def sampled(
        self, theta: NDArray[np.float64], shots: int, rng: Callable[[], np.random.Generator], drawing: Drawing
    ) -> tuple[NDArray[np.uint8], StateVector | None]:
        """The classical bits, (rows of theta, shots, bits), and the state of the last run before final measurements.

        theta: values of all of Qiskit's parameters, a row a binding. rng: asked for a generator for each row.
        """
        bits = np.zeros((len(theta), shots, self._num_clbits), np.uint8)
        state: StateVector | None = None
        if self._is_random:
            for k, row in enumerate(theta):
                generator = rng()
                for leaf in self._trajectory.leaves(row, shots, generator):
                    bits[k, leaf.shots] = leaf.bits
                    state = leaf.state
                    self._read(bits[k], leaf.shots, state, generator, drawing)
            return bits, state
        every = np.arange(shots)
        for k, state in enumerate(self._programs.states(self._rest, np.ascontiguousarray(theta[:, self._columns]))):
            self._read(bits[k], every, state, rng(), drawing)
        return bits, state

    def _read(
        self,
        bits: NDArray[np.uint8],
        shots: NDArray[np.int64],
        state: StateVector,
        rng: np.random.Generator,
        drawing: Drawing,
    ) -> None:
        """The last measurements of some shots that end in a state."""
        qubits = sorted(set(self._finals.values()))
        if qubits and len(shots):
            drawn = drawing(state, qubits, len(shots), rng)
            place = {qubit: k for k, qubit in enumerate(qubits)}
            for clbit, qubit in self._finals.items():
                bits[shots, clbit] = drawn >> place[qubit] & 1


def numpy_choice(state: StateVector, qubits: Sequence[int], shots: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """What ``rng.choice(2**len(qubits), p=probabilities, size=shots)`` gives.

    A number of the generator falls between two cumulative probabilities. They are summed in blocks, and only blocks in
    which a number falls are looked into.
    """
    depth = min(_BLOCK_BITS, len(qubits))
    numbers = rng.random(shots)
    if depth == len(qubits):
        return _between(state.probabilities(qubits), numbers)
    weights = state.probabilities(qubits)
    blocks = weights.reshape(-1, 1 << depth)
    ends = np.cumsum(blocks.sum(axis=1))
    numbers = numbers * ends[-1]
    block = np.minimum(np.searchsorted(ends, numbers, side="right"), len(blocks) - 1)
    order = np.argsort(block, kind="stable")
    hit, starts = np.unique(block[order], return_index=True)
    result = np.empty(shots, np.int64)
    for one, some in zip(hit, np.split(order, starts[1:])):
        inner = np.cumsum(blocks[one])
        place = np.searchsorted(inner, numbers[some] - (ends[one - 1] if one else 0.0), side="right")
        result[some] = one << depth | np.minimum(place, len(inner) - 1)
    return result


def _between(weights: NDArray[np.float64], numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    ends = np.cumsum(weights)
    return np.searchsorted(ends / ends[-1], numbers, side="right")


def own_choice(state: StateVector, qubits: Sequence[int], shots: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The samples of ``StateVector.sample``."""
    return state.sample(shots, rng, qubits)


def _is_random(kept: Sequence[Instruction]) -> bool:
    """Whether shots differ before the end: something measures, resets, branches, or initialises what was used."""
    return any(i.gate.kind not in ("gate", "barrier") or i.condition for i in kept)
