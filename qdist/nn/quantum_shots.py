"""A layer's expectation values from shots, and gradients by the parameter-shift rule, as a device would have them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.program.gradient_checks import shifted_gradient
from qdist.program.program import Program
from qdist.state.checking import checks
from qdist.state.measuring.estimates import Groups
from qdist.state.measuring.measure import generator
from qdist.state.outputs import Expectation, Output, observables_of

__all__ = ["Shots"]


class Shots:
    """How a layer measures: groups of strings, the number of shots of each run, and the random numbers.

    Raises ValueError for outputs that are no expectation values, StateError for too few shots.
    """

    def __init__(self, program: Program, outputs: Sequence[Output], shots: int, seed: int | None) -> None:
        for output in outputs:
            if not isinstance(output, Expectation):
                raise ValueError(f"shots= estimates expectation values; {output!r} is none")
        self.count = checks.checked_shots(shots)
        self._groups = Groups(observables_of(outputs), program.num_qubits)
        self._groups.shares(self.count)
        self._rng = generator(program.comm, seed)

    def state_dict(self) -> dict[str, Any]:
        """Of the random numbers, for a checkpoint."""
        return dict(self._rng.bit_generator.state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._rng.bit_generator.state = state

    def values(self, program: Program, params: NDArray[np.float64]) -> NDArray[np.float64]:
        """(batch, outputs)"""
        found = np.zeros((len(params), len(self._groups.constants)))
        for row, values in zip(found, params):
            row[:] = self._measured(program.evolved(values))
        return found

    def gradient(
        self, program: Program, params: NDArray[np.float64], cotangents: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """(batch, parameters): every shifted run is measured with as many shots."""
        found = np.zeros((len(params), program.circuit.num_parameters))
        for row, theta, weights in zip(found, params, cotangents):
            row[:] = shifted_gradient(program, theta, partial(self._weighted, weights))
        return found

    def _weighted(self, weights: NDArray[np.float64], state: Any) -> float:
        return float(self._measured(state) @ weights)

    def _measured(self, state: Any) -> NDArray[np.float64]:
        return self._groups.measured(state, self.count, self._rng)[0]
