"""Trajectories of any channels, by waiting times.

The first Kraus operator of a channel is what mostly happens, the others are jumps. Without a jump the state goes
through first operators alone, and its squared norm is the probability that there was none so far: a trajectory draws a
number and jumps where the squared norm falls below it. So trajectories without a jump are one run, and after equal
jumps at the same place trajectories are one run again. Small states go as rows of an array, others one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import PauliSum
from qdist.comm import Communicator
from qdist.noise import jump_rows, jump_tree
from qdist.noise.chain import advance, chain_gradient
from qdist.noise.jump_programs import JumpPrograms, Record
from qdist.noise.noisy import Noisy
from qdist.noise.numbers import Numbers, sampled
from qdist.program import batches
from qdist.state.statevector import StateVector

__all__ = ["Jumps"]


class Jumps:
    """A noisy circuit, compiled layer by layer."""

    def __init__(self, noisy: Noisy, comm: Communicator | None, device: str, dtype: Any) -> None:
        self._programs = JumpPrograms(noisy, comm, device, dtype)
        self._in_rows = jump_rows.fits(self._programs)

    def values(
        self, observables: Sequence[PauliSum], theta: NDArray[np.float64], shots: int, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """The exact value of every observable in every trajectory: (shots, observables)."""
        found, numbers = np.zeros((shots, len(observables))), Numbers(shots, rng)
        if self._in_rows:
            for part in jump_rows.rows_of(self._programs, theta, numbers):
                found[part.members] = self._row_values(part.states, observables)[part.row]
        else:
            for leaf in jump_tree.leaves(self._programs, theta, numbers):
                found[leaf.members] = leaf.state.expectations(observables)
        return found

    def sample(
        self, theta: NDArray[np.float64], shots: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], dict[int, NDArray[np.bool_]]]:
        """One basis state a trajectory, and its outcomes of measurements before the end: {classical bit: (shots,)}."""
        found, numbers = np.zeros(shots, np.int64), Numbers(shots, rng)
        outcomes = {clbit: np.zeros(shots, np.bool_) for clbit in self._programs.measured.values()}
        if self._in_rows:
            for part in jump_rows.rows_of(self._programs, theta, numbers):
                found[part.members] = sampled(part.states, part.row, numbers.draw(part.members))
                for k, record in enumerate(part.records):
                    self._note(record, part.members[part.row == k], outcomes)
            return found, outcomes
        for leaf in jump_tree.leaves(self._programs, theta, numbers):
            if self._programs.num_qubits <= jump_rows.MOST_QUBITS:
                row = np.zeros(len(leaf.members), np.int64)
                found[leaf.members] = sampled(leaf.state.amplitudes()[None], row, numbers.draw(leaf.members))
            else:
                found[leaf.members] = leaf.state.sample(len(leaf.members), [numbers.key, int(leaf.members[0]), 1])
            self._note(leaf.record, leaf.members, outcomes)
        return found, outcomes

    def _note(self, record: Record, members: NDArray[np.int64], outcomes: dict[int, NDArray[np.bool_]]) -> None:
        for layer, channel, operator in record:
            if (layer, channel) in self._programs.measured:
                outcomes[self._programs.measured[layer, channel]][members] = operator == 1

    def value_and_gradient(
        self, observable: PauliSum, theta: NDArray[np.float64], shots: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The value in every trajectory, and an unbiased estimate of the mean's derivatives.

        The probability w of a record of jumps depends on the parameters too: the mean is the sum over records of
        <psi|O|psi> for unnormalised psi, so that a record that was drawn counts with d<psi|O - b|psi> / w. Any b that
        no record changes is right, since the w add up to 1; the value without a jump makes for little variance.
        """
        values, gradient = np.zeros(shots), np.zeros(len(theta))
        base = self._calm_value(observable, theta)
        for record, members, value in self._records(observable, theta, Numbers(shots, rng)):
            values[members] = value
            gradient += len(members) / shots * self._record_gradient(record, observable, theta, base)
        return values, gradient

    def _records(
        self, observable: PauliSum, theta: NDArray[np.float64], numbers: Numbers
    ) -> Iterator[tuple[Record, NDArray[np.int64], float]]:
        """What happened, to which trajectories, and the value there; in any order."""
        if not self._in_rows:
            for leaf in jump_tree.leaves(self._programs, theta, numbers):
                yield leaf.record, leaf.members, float(leaf.state.expectation(observable))
            return
        for part in jump_rows.rows_of(self._programs, theta, numbers):
            values = self._row_values(part.states, [observable])[:, 0]
            for k, record in enumerate(part.records):
                yield record, part.members[part.row == k], float(values[k])

    def _row_values(self, states: NDArray[Any], observables: Sequence[PauliSum]) -> NDArray[np.float64]:
        if not observables:
            return np.zeros((len(states), 0))
        return batches.values_of_states(self._programs.calm[0], observables, states)

    def _calm_value(self, observable: PauliSum, theta: NDArray[np.float64]) -> float:
        state = self._programs.start()
        for program in self._programs.calm:
            state = advance(program, theta, state)
        return float(state.normalize().expectation(observable)) if state.norm() > 0 else 0.0

    def _record_gradient(
        self, record: Record, observable: PauliSum, theta: NDArray[np.float64], base: float
    ) -> NDArray[np.float64]:
        shifted = observable - base

        def bra_of(ket: StateVector) -> StateVector:
            squared = ket.norm() ** 2
            bra = ket.apply_pauli_sum(shifted)
            bra.local[:] *= bra.dtype.type(1 / squared)
            return bra

        return chain_gradient(self._programs.steps(record), theta, self._programs.start(), bra_of)
