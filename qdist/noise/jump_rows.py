"""Trajectories as rows of an array, all of them one layer further at a time: small states in this process.

Equal trajectories are one row; those who jump in a layer leave theirs for rows that go through it channel by channel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.circuit.instruction import Instruction
from qdist.noise.jump_programs import JumpPrograms, Record
from qdist.noise.numbers import Numbers, chosen_jumps
from qdist.program.program import Program

__all__ = ["MOST_QUBITS", "Rows", "fits", "rows_of"]

MOST_QUBITS = 12
_MOST_AMPLITUDES = 1 << 24
"""Of the rows that are computed at a time."""


class Rows(NamedTuple):
    """Distinct trajectories at the end of the circuit: their normalised states, (rows, 2**n), what happened to each,
    and the row of each of ``members``."""

    states: NDArray[Any]
    records: list[Record]
    members: NDArray[np.int64]
    row: NDArray[np.int64]


def fits(programs: JumpPrograms) -> bool:
    """Whether trajectories go as rows: small states, which NumPy sees, in one process."""
    if not programs.calm or programs.num_qubits > MOST_QUBITS:
        return False
    first = programs.calm[0]
    return not first.plan.far and first.backend.is_host


def rows_of(programs: JumpPrograms, theta: NDArray[np.float64], numbers: Numbers) -> Iterator[Rows]:
    """All trajectories, in parts that take a bounded amount of memory."""
    share = max(1, _MOST_AMPLITUDES >> programs.num_qubits)
    for start in range(0, len(numbers), share):
        yield _Part(programs, theta, numbers, np.arange(start, min(start + share, len(numbers)))).run()


class _Part:
    """Some of the trajectories on their way. row: of each member, among ``states``."""

    def __init__(
        self, programs: JumpPrograms, theta: NDArray[np.float64], numbers: Numbers, members: NDArray[np.int64]
    ) -> None:
        self._programs, self._theta, self._numbers, self._members = programs, theta, numbers, members
        self._limits = numbers.draw(members)
        self._row = np.zeros(len(members), np.int64)
        self._states = np.zeros((1, 1 << programs.num_qubits), programs.calm[0].dtype)
        self._states[0, 0] = 1
        self._records: list[Record] = [()]

    def run(self) -> Rows:
        for layer in range(len(self._programs.layers)):
            self._through(layer)
        scales = np.sqrt(_squared_norms(self._states))
        self._states /= scales[:, None].astype(self._states.real.dtype)
        return Rows(self._states, self._records, self._members, self._row)

    def _through(self, layer: int) -> None:
        channels = self._programs.layers[layer].channels
        before = self._states.copy() if channels else self._states
        _run(self._programs.calm[layer], self._theta, self._states)
        if not channels:
            return
        jumps = np.flatnonzero(self._limits > _squared_norms(self._states)[self._row])
        if not len(jumps):
            return
        left, self._row[jumps] = np.unique(self._row[jumps], return_inverse=True)
        stays = np.ones(len(self._row), np.bool_)
        stays[jumps] = False
        kept, self._row[stays] = np.unique(self._row[stays], return_inverse=True)
        states, records = before[left], [self._records[k] for k in left]
        _run(self._programs.gates(layer), self._theta, states)
        row = self._row[jumps]
        for number, channel in enumerate(channels):
            states, row = self._jump(states, records, row, jumps, (layer, number), channel)
        used, row = np.unique(row, return_inverse=True)
        self._row[jumps] = row + len(kept)
        self._records = [self._records[k] for k in kept] + [records[k] for k in used]
        self._states = np.concatenate([self._states[kept], states[used]])

    def _jump(
        self,
        states: NDArray[Any],
        records: list[Record],
        row: NDArray[np.int64],
        who: NDArray[np.int64],
        place: tuple[int, int],
        channel: Instruction,
    ) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """One channel on states, whose members ``who`` are in ``row``: rows for those who jump come behind."""
        operators = channel.gate.data
        weights = np.einsum("kij,bjl,kil->bk", operators, _reduced(states, channel.qubits), operators.conj()).real
        own = weights.clip(0.0)[row]
        jumps = np.flatnonzero((self._limits[who] > own[:, 0]) & (own[:, 1:].sum(axis=1) > 0))
        if not len(jumps):
            return _applied(operators[0], states, channel.qubits), row
        members = self._members[who[jumps]]
        chosen = chosen_jumps(own[jumps], self._numbers.draw(members))
        self._limits[who[jumps]] = self._numbers.draw(members)
        keys, place_of = np.unique(row[jumps] * len(operators) + chosen, return_inverse=True)
        parts = [_applied(operators[0], states, channel.qubits)]
        for key in keys.tolist():
            source, operator = divmod(key, len(operators))
            state = _applied(operators[operator], states[source : source + 1], channel.qubits)
            state /= np.sqrt(_squared_norms(state)).astype(state.real.dtype)[:, None]
            parts.append(state)
            records.append((*records[source], (*place, operator)))
        row = row.copy()
        row[jumps] = len(states) + place_of
        return np.concatenate(parts), row


def _run(program: Program, theta: NDArray[np.float64], states: NDArray[Any]) -> None:
    program.run_each(program.values(theta if program.source.parameters else None), states)


def _squared_norms(states: NDArray[Any]) -> NDArray[np.float64]:
    parts = states.view(states.real.dtype)
    return np.einsum("bi,bi->b", parts, parts, dtype=np.float64)


def _split(states: NDArray[Any], qubits: tuple[int, ...]) -> tuple[NDArray[Any], tuple[int, ...], list[int]]:
    """(rows, 2**k, rest) with qubits[0] as the lowest bit in front; the shape and order to go back."""
    n = states.shape[1].bit_length() - 1
    tensor = states.reshape((len(states),) + (2,) * n)
    axes = [n - q for q in reversed(qubits)]
    order = [0, *axes, *(a for a in range(1, n + 1) if a not in axes)]
    moved = tensor.transpose(order)
    return moved.reshape(len(states), 1 << len(qubits), -1), moved.shape, order


def _reduced(states: NDArray[Any], qubits: tuple[int, ...]) -> NDArray[np.complex128]:
    parts, _, _ = _split(states, qubits)
    return (parts @ parts.conj().swapaxes(1, 2)).astype(np.complex128)


def _applied(operator: NDArray[Any], states: NDArray[Any], qubits: tuple[int, ...]) -> NDArray[Any]:
    parts, shape, order = _split(states, qubits)
    moved = (operator.astype(states.dtype) @ parts).reshape(shape)
    return moved.transpose(np.argsort(order)).reshape(states.shape)
