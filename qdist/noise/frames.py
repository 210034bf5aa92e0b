"""Trajectories of Pauli channels: drawn before anything is planned, equal ones computed once, all in one batch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import PauliString, PauliSum
from qdist.comm import Communicator
from qdist.noise.frame_circuit import Errors, FrameCircuit, Mapped, Turned
from qdist.noise.noisy import Noisy
from qdist.noise.numbers import sampled
from qdist.program import batches
from qdist.program.program import Program
from qdist.state.outputs import Expectation

__all__ = ["Frames"]

_ROWS = 4096
"""Of distinct trajectories that are computed at a time."""
_SMALL = 12
"""Qubits up to which samples are drawn from rows of probabilities; from a state beyond. The same on all devices."""


class _Drawn(NamedTuple):
    """Trajectories. bits: what differs of the parameters, (distinct, columns). row: of each trajectory. x, z: the
    frames at the end, (qubits, trajectories)."""

    bits: NDArray[np.bool_]
    row: NDArray[np.int64]
    x: NDArray[np.bool_]
    z: NDArray[np.bool_]


class Frames:
    """A circuit of Pauli channels, compiled once for all trajectories."""

    def __init__(self, noisy: Noisy, comm: Communicator | None, device: str, dtype: Any) -> None:
        self._circuit = FrameCircuit(noisy)
        self._n = noisy.circuit.num_qubits
        self._affine, self._functions = self._circuit.ideal.affine(), self._circuit.ideal.functions
        self._angles = np.array(self._circuit.angles, np.int64)
        self._program = Program(self._circuit.signed, comm=comm, device=device, dtype=dtype)

    def values(
        self, observables: Sequence[PauliSum], theta: NDArray[np.float64], shots: int, rng: np.random.Generator
    ) -> NDArray[np.float64]:
        """The exact value of every observable in every trajectory: (shots, observables)."""
        drawn = self._draw(shots, rng)
        strings, weights = _strings(observables)
        table = self._table(strings, self._rows(drawn, theta))
        found = np.empty((shots, len(observables)))
        for some in _parts(shots):
            found[some] = (table[drawn.row[some]] * _signs(drawn, strings, some)) @ weights
        return found

    def value_and_gradient(
        self, observable: PauliSum, theta: NDArray[np.float64], shots: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The value in every trajectory, and the derivatives of their mean."""
        drawn = self._draw(shots, rng)
        rows = self._rows(drawn, theta)
        strings, weights = _strings([observable])
        outputs = [PauliSum([(string, 1.0)]) for string in strings]
        # How much a distinct trajectory's string counts: the sum of its signs.
        counts = np.zeros((len(rows), len(strings)))
        for some in _parts(shots):
            np.add.at(counts, drawn.row[some], _signs(drawn, strings, some))
        counts *= weights[:, 0] / shots
        table = np.empty((len(rows), len(strings)))
        by_column = np.zeros(len(self._angles))
        for some in _parts(len(rows)):
            if strings:
                found, gradient = self._program.vjp(outputs, rows[some], list(counts[some].T))
                table[some] = np.stack(found, axis=1)
                by_column += np.sum(gradient * self._turns(drawn.bits[some]), axis=0)
        values = np.empty(shots)
        for some in _parts(shots):
            values[some] = (table[drawn.row[some]] * _signs(drawn, strings, some)) @ weights[:, 0]
        return values, self._by_parameter(by_column, theta)

    def sample(
        self, theta: NDArray[np.float64], shots: int, rng: np.random.Generator
    ) -> tuple[NDArray[np.int64], dict[int, NDArray[np.bool_]]]:
        """One basis state a trajectory, and what Jumps has beside it: nothing."""
        drawn = self._draw(shots, rng)
        rows, number = self._rows(drawn, theta), rng.random(shots)
        found = np.empty(shots, np.int64)
        order = np.argsort(drawn.row, kind="stable")
        ends = np.searchsorted(drawn.row[order], np.arange(len(rows) + 1))
        if self._n <= _SMALL:
            for some in _parts(len(rows)):
                chosen = order[ends[some.start] : ends[some.stop]]
                states = batches.states(self._program, rows[some])
                found[chosen] = sampled(states, drawn.row[chosen] - some.start, number[chosen])
        else:
            for k, state in enumerate(batches.each_state(self._program, rows)):
                chosen = order[ends[k] : ends[k + 1]]
                found[chosen] = state.sample(len(chosen), rng)
        for qubit in range(self._n):
            found ^= drawn.x[qubit].astype(np.int64) << qubit
        return found, {}

    def _draw(self, shots: int, rng: np.random.Generator) -> _Drawn:
        x, z = np.zeros((2, self._n, shots), np.bool_)
        bits = np.zeros((len(self._angles), shots), np.bool_)
        for step in self._circuit.steps:
            if isinstance(step, Errors):
                # The last one takes what rounding leaves of the sum.
                chosen = np.minimum(np.searchsorted(step.bounds, rng.random(shots), side="right"), len(step.bounds) - 1)
                hit = np.flatnonzero(chosen)
                for k, qubit in enumerate(step.qubits):
                    x[qubit, hit] ^= (np.array(step.x)[chosen[hit]] >> k & 1).astype(np.bool_)
                    z[qubit, hit] ^= (np.array(step.z)[chosen[hit]] >> k & 1).astype(np.bool_)
            elif isinstance(step, Mapped):
                _map(step, x, z)
            elif isinstance(step, Turned):
                for qubit, letter in zip(step.qubits, step.letters):
                    if letter in "YZ":
                        bits[step.column] ^= x[qubit]
                    if letter in "XY":
                        bits[step.column] ^= z[qubit]
            else:
                frame = x if step.is_x else z
                bits[step.column] = frame[step.qubit]
                frame[step.qubit] = False
        packed = np.ascontiguousarray(np.packbits(bits, axis=0).T)
        if not packed.shape[1]:
            return _Drawn(np.zeros((1, 0), np.bool_), np.zeros(shots, np.int64), x, z)
        keys = packed.view(np.dtype((np.void, packed.shape[1]))).ravel()
        _, first, row = np.unique(keys, return_index=True, return_inverse=True)
        return _Drawn(bits[:, first].T, row.reshape(-1), x, z)

    def _turns(self, bits: NDArray[np.bool_]) -> NDArray[np.float64]:
        """What the angles of trajectories are multiplied with: 1 or -1; 0 for what is put in."""
        return np.where(self._angles >= 0, 1.0 - 2.0 * bits, 0.0)

    def _rows(self, drawn: _Drawn, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """The parameters of each distinct trajectory."""
        extended = theta if self._functions is None else self._functions.extended(theta)
        angles = self._affine(extended)
        if not len(angles):
            angles = np.zeros(1)
        return self._turns(drawn.bits) * angles[self._angles] + np.where(self._angles < 0, math.pi * drawn.bits, 0.0)

    def _by_parameter(self, by_column: NDArray[np.float64], theta: NDArray[np.float64]) -> NDArray[np.float64]:
        by_angle = np.zeros(len(self._affine.constants))
        own = self._angles >= 0
        np.add.at(by_angle, self._angles[own], by_column[own])
        gradient = self._affine.transposed(by_angle)
        if self._functions is None:
            return gradient
        return self._functions.pulled_back(self._functions.extended(theta), gradient)

    def _table(self, strings: Sequence[PauliString], rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """The value of each string in each distinct trajectory."""
        outputs = [Expectation(PauliSum([(string, 1.0)])) for string in strings]
        if not outputs:
            return np.zeros((len(rows), 0))
        found = [batches.output_values(self._program, outputs, rows[some]) for some in _parts(len(rows))]
        return np.concatenate([np.stack(values, axis=1) for values in found])


def _map(step: Mapped, x: NDArray[np.bool_], z: NDArray[np.bool_]) -> None:
    new_x, new_z = np.zeros((2, len(step.qubits), x.shape[1]), np.bool_)
    for k, qubit in enumerate(step.qubits):
        for bits, (to_x, to_z) in ((x[qubit], step.of_x[k]), (z[qubit], step.of_z[k])):
            for j in range(len(step.qubits)):
                if to_x >> j & 1:
                    new_x[j] ^= bits
                if to_z >> j & 1:
                    new_z[j] ^= bits
    for k, qubit in enumerate(step.qubits):
        x[qubit], z[qubit] = new_x[k], new_z[k]


def _strings(observables: Sequence[PauliSum]) -> tuple[list[PauliString], NDArray[np.float64]]:
    """All strings, and their coefficients in each observable: (strings, observables)."""
    places: dict[PauliString, int] = {}
    for observable in observables:
        for string, _ in observable:
            places.setdefault(string, len(places))
    weights = np.zeros((len(places), len(observables)))
    for k, observable in enumerate(observables):
        for string, coefficient in observable:
            weights[places[string], k] += complex(coefficient).real
    return list(places), weights


def _signs(drawn: _Drawn, strings: Sequence[PauliString], some: slice) -> NDArray[np.float64]:
    """(trajectories, strings): -1 where the frame at the end anticommutes with the string."""
    x, z = drawn.x[:, some], drawn.z[:, some]
    signs = np.ones((x.shape[1], len(strings)))
    for k, string in enumerate(strings):
        odd = np.zeros(x.shape[1], np.bool_)
        for qubit in range(len(x)):
            if string.z >> qubit & 1:
                odd ^= x[qubit]
            if string.x >> qubit & 1:
                odd ^= z[qubit]
        signs[odd, k] = -1
    return signs


def _parts(count: int) -> Iterator[slice]:
    return (slice(start, min(start + _ROWS, count)) for start in range(0, count, _ROWS))
