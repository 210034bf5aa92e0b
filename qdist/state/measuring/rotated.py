"""A copy of a state in another measurement basis, and shots from it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from qdist.backends.errors import StateError
from qdist.circuit import Circuit
from qdist.comm import Communicator
from qdist.locks import open_in_forks
from qdist.plan.planner import make_plan
from qdist.state.checking import same
from qdist.state.measuring.measure import sample
from qdist.state.moves.exchange import swap_bits
from qdist.state.recent import Recent
from qdist.state.shards import Shards

__all__ = ["ReadoutError", "flip_probabilities", "flipped", "parity_signs", "rotated", "sampled"]

ReadoutError = float | tuple[float, float] | Sequence[tuple[float, float]] | None
"""The probability that a bit is read wrong; (of reading 1 for 0, of reading 0 for 1); or such a pair for each qubit."""

_MOST_ROTATIONS = 64
"""Kept, one for each basis and shape of states."""


def sampled(
    sv: Shards, letters: str, shots: int, rng: np.random.Generator, flips: NDArray[np.float64] | None
) -> NDArray[np.int64]:
    """Shots with qubit q measured in the basis of letters[q]: bit q of each is 1 where -1 was found."""
    return flipped(sample(rotated(sv, letters), shots, rng), flips, rng)


class _Rotation:
    """The gates that turn the basis of each qubit to Z, planned and lowered for states of one shape."""

    def __init__(self, sv: Shards, letters: str) -> None:
        circuit = Circuit(sv.num_qubits)
        for qubit, letter in enumerate(letters):
            if letter == "Y":
                circuit.sdg(qubit)
            if letter in "XY":
                circuit.h(qubit)
        far, affine = sv.num_qubits - sv.shard_bits, circuit.affine()
        plan = make_plan(circuit, sv.dtype, None, far, target=sv.backend.target(sv.dtype), start=sv.layout)
        self._steps = [(segment, sv.backend.lower(plan, segment, affine)) for segment in plan.segments]
        for _, executor in self._steps:
            executor.bind(np.zeros(0))
        self._lock = open_in_forks(Lock())

    def of(self, sv: Shards) -> Shards:
        result = sv.copy()
        with self._lock:
            for segment, executor in self._steps:
                if segment.swaps:
                    swap_bits(result, segment.swaps)
                result.layout = segment.layout
                for offset, shard in result.shards():
                    executor.run(shard, offset, -1, None)
        return result


_rotations: Recent[_Rotation] = Recent(_MOST_ROTATIONS)


def rotated(sv: Shards, letters: str) -> Shards:
    """A copy whose qubit q shows in Z what the state's shows in letters[q]; the state itself where all are Z."""
    if not set(letters) & {"X", "Y"}:
        return sv
    # Threads of several ranks could wait for each other's: those of one process are kept.
    if sv.comm.size > 1:
        return _Rotation(sv, letters).of(sv)
    key = letters, sv.dtype.char, sv.shard_bits, sv.layout, sv.device
    found = _rotations.get(key)
    if found is None:
        found = _Rotation(sv, letters)
        _rotations.put(key, found)
    return found.of(sv)


def flip_probabilities(
    given: ReadoutError, num_qubits: int, comm: Communicator | None = None
) -> NDArray[np.float64] | None:
    """(qubits, 2): the probabilities of reading 1 for 0 and 0 for 1. Raises StateError for what is none, and where
    ranks that share a state have others: each flips the bits for itself."""
    if given is None:
        return None
    try:
        array = np.asarray(given, np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.ndim == 0:
        array = np.array([array, array])
    if array.shape == (2,):
        array = np.tile(array, (num_qubits, 1))
    if array.shape != (num_qubits, 2) or not ((array >= 0) & (array <= 1)).all():
        raise StateError(
            f"readout_error={given!r}: a probability, a pair (of reading 1 for 0, of reading 0 for 1), or such a pair "
            f"for each of {num_qubits} qubits"
        )
    same.amplitudes(comm, "errors of readout", array)
    return array


def flipped(
    samples: NDArray[np.int64], flips: NDArray[np.float64] | None, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Samples with bits that were read wrong; all ranks draw the same."""
    if flips is None:
        return samples
    result = samples.copy()
    for qubit, (up, down) in enumerate(flips):
        bits = samples >> qubit & 1
        result ^= (rng.random(len(samples)) < np.where(bits == 1, down, up)).astype(np.int64) << qubit
    return result


def parity_signs(samples: NDArray[np.int64], masks: Iterable[int]) -> NDArray[np.int8]:
    """+1 or -1, (shots, strings): the product over the qubits of each mask."""
    columns = []
    for mask in masks:
        bits = samples & mask
        for shift in (32, 16, 8, 4, 2, 1):
            bits = bits ^ bits >> shift
        columns.append((1 - 2 * (bits & 1)).astype(np.int8))
    return np.stack(columns, axis=1) if columns else np.zeros((len(samples), 0), np.int8)
