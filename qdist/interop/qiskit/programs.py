"""Circuits of PUBs as programs, compiled once for all circuits that are equal but for the names of parameters."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import qdist
from qdist.circuit import Circuit, ParameterVector, PauliSum
from qdist.comm import Communicator
from qdist.program import batches
from qdist.program.program import Program
from qdist.program.source import FEWEST_CLOSE
from qdist.state.outputs import Expectation
from qdist.state.recent import Recent
from qdist.state.statevector import StateVector

from .reading import from_qiskit
from .trajectory import Trajectory

__all__ = ["Programs", "common_seed", "expectations", "states"]


class Programs:
    """Compiles circuits of Qiskit, and keeps the programs that were used last.

    comm: the ranks that share the states (None: all of this job; circuits too small for them run on each). device,
    dtype: as for ``qdist.compile``.
    """

    def __init__(self, comm: Communicator | None, device: str, dtype: Any, most: int = 64) -> None:
        self.comm = qdist.comm.world() if comm is None else comm
        self.device, self.dtype = device, np.dtype(dtype)
        self._kept: Recent[Program] = Recent(most)
        self._trajectories: Recent[Trajectory] = Recent(most)

    def of(self, circuit: Circuit) -> Program:
        """The program of a circuit, which may be one that was compiled before."""
        key = _key(circuit)
        found = self._kept.get(key)
        if found is None:
            found = self.compiled(circuit)
            self._kept.put(key, found)
        return found

    def trajectory(self, circuit: Circuit) -> Trajectory:
        """Single runs of a circuit in which something is drawn."""
        key = _key(circuit)
        found = self._trajectories.get(key)
        if found is None:
            found = Trajectory(self, circuit)
            self._trajectories.put(key, found)
        return found

    def compiled(self, circuit: Circuit) -> Program:
        """A new program, over all ranks unless the circuit is too small for them."""
        far = (self.comm.size - 1).bit_length()
        alone = self.comm.size == 1 or circuit.num_qubits - far < FEWEST_CLOSE
        return Program(circuit, comm=None if alone else self.comm, device=self.device, dtype=self.dtype)

    def read(self, circuit: Any) -> Circuit:
        """A circuit of Qiskit with one vector of parameters, in Qiskit's order, whatever their names are."""
        vector = _vector(circuit.num_parameters)
        return from_qiskit(circuit, dict(zip(circuit.parameters, vector)))

    @staticmethod
    def columns(program: Program) -> list[int]:
        """Which of Qiskit's parameters the program has."""
        return [parameter.index for parameter in program.circuit.parameters]  # type: ignore[attr-defined]


def _key(circuit: Circuit) -> Hashable:
    return (circuit.num_qubits, circuit.num_clbits, tuple(circuit))


@lru_cache(maxsize=256)
def _vector(length: int) -> ParameterVector:
    return ParameterVector("parameter", length)


def expectations(program: Program, sums: Sequence[PauliSum], theta: NDArray[np.float64]) -> NDArray[np.float64]:
    """The expectation values of all observables for all rows of parameters: shape (rows, observables)."""
    outputs = [Expectation(one) for one in sums]
    extended = program.source.extended(theta)
    plain = not program.plan.far and all(part.instruction is None for part in program.plan.parts)
    if plain and program.row_programs.takes(outputs):
        rows = program.row_programs.of()
        found = rows.values(extended, np.zeros(0), rows.reading(outputs))
        if found is not None:
            return np.asarray(found[0])
    if plain and len(theta) > 1 and batches.fit(program, outputs):
        return np.asarray(batches.values(program, outputs, extended))
    return np.array([state.expectations(sums) for state in states(program, theta)]).reshape(len(theta), len(sums))


def states(program: Program, theta: NDArray[np.float64]) -> Iterator[StateVector]:
    """The state for each row of parameters, valid until the next."""
    if program.plan.far or any(part.instruction is not None for part in program.plan.parts):
        state = None
        for row in theta:
            state = program.run(row, out=state)
            yield state
        return
    for some in batches.parts(program, len(theta)):
        for amplitudes in program.run_batch(theta[some]):
            yield StateVector.from_amplitudes(amplitudes, device=program.device)


def common_seed(seed: Any, comm: Communicator) -> Any:
    """The seed; where none is given, one that the first rank draws for all."""
    if seed is not None or comm.size == 1:
        return seed
    return int(comm.broadcast(np.array([np.random.SeedSequence().generate_state(1)[0]], np.int64))[0])
