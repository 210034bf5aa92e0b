"""Programs run for many rows of parameters: expectation values and states."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import PauliSum
from qdist.program import batches
from qdist.program.program import Program
from qdist.state.outputs import Expectation
from qdist.state.statevector import StateVector

__all__ = ["expectations", "states"]


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
