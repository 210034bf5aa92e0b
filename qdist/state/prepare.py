"""Putting qubits of a state into given states, whatever they were in: what `initialize` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.circuit.gate import Gate
from qdist.state.statevector import StateVector

__all__ = ["prepare"]


def prepare(state: StateVector, gate: Gate, qubits: Sequence[int], seed: Any) -> None:
    """Resets ``qubits`` (which may collapse what they were entangled with) and puts them into the gate's state."""
    amplitudes = _amplitudes(gate)
    n = state.num_qubits
    if len(qubits) == n:
        index = np.arange(1 << n)
        own = np.zeros_like(index)
        for k, qubit in enumerate(qubits):
            own |= (index >> qubit & 1) << k
        state.local[:] = amplitudes[own]
        return
    for qubit in qubits:
        state.reset_qubit(qubit, seed=seed)
    # One axis a qubit, the highest first. The other qubits' state stands where the prepared ones are 0.
    axes = state.local.reshape((2,) * n)
    rest = axes[_where(n, qubits, 0)].copy()
    for value, amplitude in enumerate(amplitudes):
        axes[_where(n, qubits, value)] = rest * state.dtype.type(amplitude)


def _where(n: int, qubits: Sequence[int], value: int) -> tuple[int | slice, ...]:
    index: list[int | slice] = [slice(None)] * n
    for k, qubit in enumerate(qubits):
        index[n - 1 - qubit] = value >> k & 1
    return tuple(index)


def _amplitudes(gate: Gate) -> NDArray[np.complex128]:
    data = gate.data
    if isinstance(data, int):
        amplitudes = np.zeros(1 << gate.num_qubits, np.complex128)
        amplitudes[data] = 1
        return amplitudes
    if data.ndim == 1:
        return np.asarray(data)
    amplitudes = np.ones(1, np.complex128)
    for pair in data:
        amplitudes = np.concatenate([amplitudes * pair[0], amplitudes * pair[1]])
    return amplitudes
