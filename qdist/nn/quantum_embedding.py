"""Amplitude embedding: the rows of x, normalised, as initial states, and the gradient by them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.errors import StateError
from qdist.program import adjoint, initial_states
from qdist.program.program import Program
from qdist.state.outputs import Output
from qdist.state.statevector import StateVector

__all__ = ["Start", "gradients"]


class Start:
    """Rows of x as initial states. Raises StateError that names the row that is zero or not finite."""

    def __init__(self, x: NDArray[Any], program: Program) -> None:
        self.features = x.shape[1]
        self.norms = np.linalg.norm(x.astype(np.float64), axis=1)
        for row, norm in enumerate(self.norms):
            if not (np.isfinite(norm) and norm > 0):
                raise StateError(f"row {row} of x has the norm {norm:g}; amplitudes are divided by it")
        self.amplitudes = np.zeros((len(x), 1 << program.num_qubits), program.dtype)
        self.amplitudes[:, : self.features] = x / self.norms[:, None]

    def evolved(self, program: Program, params: NDArray[np.float64]) -> Iterator[StateVector]:
        """The state of each row after the circuit."""
        for row, amplitudes in zip(params, self.amplitudes):
            start = StateVector.from_amplitudes(amplitudes, program.dtype, program.comm, device=program.device)
            adjoint.check_start(program, start)
            yield program.run_with(program.values(row), start, None, None)


def gradients(
    program: Program,
    outputs: Sequence[Output],
    params: NDArray[np.float64],
    cotangents: Sequence[Any],
    start: Start,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """By x, (batch, features), and by the circuit's parameters, (batch, parameters)."""
    _, gradient, by_state = initial_states.vjp(program, outputs, params, cotangents, start.amplitudes, by_states=True)
    assert by_state is not None, "asked for"
    # Of the derivative by x / |x| only what is orthogonal to x is left.
    real, unit = by_state.real, start.amplitudes.real.astype(np.float64)
    along = (real * unit).sum(axis=1, keepdims=True)
    by_x = (real - along * unit) / start.norms[:, None]
    return by_x[:, : start.features], gradient
