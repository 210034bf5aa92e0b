"""A layer's outputs from shots, and gradients by the parameter-shift rule, as a device would have them."""

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
from qdist.state.measuring.measure import Seed, generator
from qdist.state.outputs import Expectation, Output, Probabilities, observables_of

from .quantum_outputs import Columns

__all__ = ["Shots"]


class Shots:
    """How a layer measures: groups of strings, the number of shots of each run, and the random numbers.

    Raises ValueError for outputs that are neither expectation values nor probabilities, StateError for too few shots.
    """

    def __init__(self, program: Program, outputs: Sequence[Output], shots: int, seed: Seed) -> None:
        for output in outputs:
            if not isinstance(output, Expectation | Probabilities):
                raise ValueError(f"shots= estimates expectation values and probabilities; {output!r} is neither")
        self.count = checks.checked_shots(shots)
        self._outputs = list(outputs)
        expected = [output for output in outputs if isinstance(output, Expectation)]
        self._groups = Groups(observables_of(expected), program.num_qubits)
        self._groups.shares(self.count)
        self._rng = generator(program.comm, seed)
        self._width = Columns(outputs, program.num_qubits).width

    def state_dict(self) -> dict[str, Any]:
        """Of the random numbers, for a checkpoint."""
        return dict(self._rng.bit_generator.state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self._rng.bit_generator.state = state

    def values(self, program: Program, params: NDArray[np.float64]) -> NDArray[np.float64]:
        """(batch, numbers of all outputs)"""
        found = np.zeros((len(params), self._width))
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
        """Probabilities are shares of as many shots in the computational basis, the same ones for all of them."""
        expected = iter(self._groups.measured(state, self.count, self._rng)[0])
        samples = None
        parts: list[Any] = []
        for output in self._outputs:
            if isinstance(output, Expectation):
                parts.append([next(expected)])
                continue
            assert isinstance(output, Probabilities), "checked before"
            samples = state.sample(self.count, self._rng) if samples is None else samples
            qubits = checks.checked_qubits(output.qubits, state.num_qubits)
            values = sum((samples >> qubit & 1) << k for k, qubit in enumerate(qubits))
            parts.append(np.bincount(values, minlength=1 << len(qubits)) / self.count)
        return np.concatenate(parts)
