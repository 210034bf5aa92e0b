"""State preparation: the `initialize` instruction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.circuit.gate import Gate
from qdist.state.moves.exchange import partner_pieces
from qdist.state.statevector import StateVector

__all__ = ["prepare"]

_CHUNK = 1 << 20
"""Amplitudes whose factors are looked up at a time."""


def prepare(state: StateVector, gate: Gate, qubits: Sequence[int], seed: Any) -> None:
    """Resets ``qubits`` (which may collapse what they were entangled with) and puts them into the gate's state."""
    positions = [state.layout.positions[q] for q in qubits]
    if len(qubits) == state.num_qubits:
        state.local.fill(1)
    else:
        for qubit in qubits:
            state.reset_qubit(qubit, seed=seed)
        # After the reset, amplitudes are nonzero only where the prepared qubits are 0: copied to all of their values.
        for position in positions:
            _spread(state, position)
    data = gate.data
    if np.ndim(data) == 1:
        _multiply(state, positions, np.asarray(data).astype(state.dtype))
        return
    pairs = [(1 - (data >> k & 1), data >> k & 1) for k in range(len(qubits))] if isinstance(data, int) else data
    for position, pair in zip(positions, pairs):
        _multiply(state, [position], np.asarray(pair).astype(state.dtype))


def _spread(state: StateVector, position: int) -> None:
    """Copies the amplitudes whose bit at a position is 0 to where it is 1."""
    if position < state.shard_bits:
        for _, shard in state.shards():
            pairs = shard.reshape(-1, 2, 1 << position)
            pairs[:, 1] = pairs[:, 0]
    else:
        for first, own, other in partner_pieces(state, 1 << position):
            if first >> position & 1:
                own[:] = other


def _multiply(state: StateVector, positions: Sequence[int], table: NDArray[Any]) -> None:
    """Multiplies each amplitude by table[bits of its physical index at the positions]."""
    for first, shard in state.shards():
        for start in range(0, len(shard), _CHUNK):
            piece = shard[start : start + _CHUNK]
            physical = np.arange(first + start, first + start + len(piece))
            values = np.zeros_like(physical)
            for k, position in enumerate(positions):
                values |= (physical >> position & 1) << k
            piece *= state.backend.moved(table[values])
