"""Measurement: probabilities, samples, collapse and reset."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qdist.backends.errors import StateError
from qdist.backends.memory import check_copies
from qdist.native import kernels
from qdist.state.checking import same
from qdist.state.moves.exchange import partner_pieces
from qdist.state.shards import Shards

if TYPE_CHECKING:
    from qdist.comm import Communicator

__all__ = [
    "Outcomes",
    "Seed",
    "collapse",
    "drawn",
    "drawn_from",
    "generator",
    "measure",
    "probabilities",
    "reset",
    "sample",
]

Seed: TypeAlias = int | Sequence[int] | np.random.SeedSequence | np.random.Generator | None


class Outcomes(ABC):
    """What decides outcomes in the place of a seed."""

    @abstractmethod
    def outcome(self, weights: NDArray[np.float64]) -> int:
        """One of them, with probabilities in proportion to the weights. The same on all ranks."""


# Sampling draws a block of 2**_BLOCK_BITS neighbours first, then one of them; with more than 2**_MAX_BLOCKS_BITS of
# them blocks grow instead. Both depend on the number of qubits alone, so that samples do too.
_BLOCK_BITS = 10
_MAX_BLOCKS_BITS = 20
_TREE_NUMBERS = 1 << 18  # of the blocks that are looked into at a time, so that they stay in cache
_TREE_NUMBERS_ON_A_GPU = 1 << 23

_BYTES_A_SHOT = 64  # at the peak of sampling: its number, block and position in the sorted order, and copies of those

# Qubits are measured together up to this many, whose probabilities fit in cache.
_TOGETHER = 12


def probabilities(sv: Shards, qubits: Sequence[int]) -> NDArray[np.float64]:
    """|amplitude|^2, summed over the other qubits, indexed with qubits[0] as bit 0."""
    positions = [sv.layout.positions[q] for q in qubits]
    what, way_out = f"the probabilities of {len(qubits)} qubits", "ask for fewer qubits, or sample()"
    check_copies(sv.comm, 8 << len(qubits), what, way_out)
    sv.backend.check_room(sv.comm, 8 << len(qubits), what, way_out)
    result = np.zeros(1 << len(qubits))
    for first, shard in sv.shards():
        sv.backend.kernels.add_probabilities(shard, first, positions, result)
    return sv.sum_over_ranks(result)


def sample(sv: Shards, shots: int, seed: Seed) -> NDArray[np.int64]:
    """Logical indices, drawn independently with the state's probabilities.

    A shot decides qubit by qubit, the highest first, each with a random number of its own: the k-th shot of a
    seed is the same for every layout, number of threads and number of ranks.
    """
    key = _key(sv, seed, shots)
    if shots == 0:
        return np.zeros(0, np.int64)
    check_copies(sv.comm, shots * _BYTES_A_SHOT, f"{shots} shots", "draw fewer at a time")
    return drawn(sv, np.arange(shots), key)


def drawn(sv: Shards, numbers: NDArray[np.int64], key: int) -> NDArray[np.int64]:
    """The shots with these numbers, by the random numbers of the key."""
    n, positions, shots = sv.num_qubits, sv.layout.positions, len(numbers)
    depth = max(min(n, _BLOCK_BITS), n - _MAX_BLOCKS_BITS)
    if depth == n:
        return drawn_from(probabilities(sv, range(n)), numbers, key)
    block = drawn_from(probabilities(sv, range(depth, n)), numbers, key)
    order = np.argsort(block.astype(np.uint16) if n - depth <= 16 else block, kind="stable")
    hit, starts = np.unique(block[order], return_index=True)
    bases = sv.layout.to_physical(hit << depth)
    bounds = np.append(starts, shots)
    result = np.empty(shots, np.int64)
    # A GPU is waited for once for all of them.
    together = max(1, (_TREE_NUMBERS if sv.backend.is_host else _TREE_NUMBERS_ON_A_GPU) >> depth + 1)
    for start in range(0, len(hit), together):
        some = slice(start, start + together)
        trees = np.zeros(len(bases[some]) << depth + 1)
        for first, shard in sv.shards():
            sv.backend.kernels.add_leaves(shard, first, bases[some], positions[:depth], trees)
        ends = bounds[start : start + together + 1]
        row = np.repeat(np.arange(len(bases[some])), np.diff(ends))
        chosen = order[ends[0] : ends[-1]]
        leaf = np.empty(len(row), np.int64)
        kernels.descend(sv.sum_over_ranks(trees), depth, row, numbers[chosen], key, n - depth, leaf)
        result[chosen] = leaf | hit[start + row] << depth
    return result


def collapse(sv: Shards, qubits: Sequence[int], outcome: int) -> float:
    """Project onto an outcome (qubits[0] is its bit 0), normalise, and return the probability it had."""
    probability = 1.0
    for start in range(0, len(qubits), _TOGETHER):
        some = qubits[start : start + _TOGETHER]
        value = outcome >> start & (1 << len(some)) - 1
        weights = probabilities(sv, some)
        probability *= _project(sv, some, value, weights)
    return probability


def measure(sv: Shards, qubits: Sequence[int], seed: Seed | Outcomes) -> int:
    """Draw an outcome (qubits[0] is its bit 0) and collapse the state to it."""
    decide = _deciding(sv, seed, *qubits)
    outcome = 0
    for start in range(0, len(qubits), _TOGETHER):
        some = qubits[start : start + _TOGETHER]
        weights = probabilities(sv, some)
        value = decide(weights, start)
        _project(sv, some, value, weights)
        outcome |= value << start
    return outcome


def reset(sv: Shards, qubit: int, seed: Seed | Outcomes) -> None:
    """Measure a qubit, then flip it where it is 1."""
    decide = _deciding(sv, seed, qubit)
    weights = probabilities(sv, (qubit,))
    value = decide(weights, 0)
    scale = 1 / math.sqrt(weights[value])
    position = sv.layout.positions[qubit]
    if position < sv.shard_bits:
        for _, shard in sv.shards():
            sv.backend.kernels.reset_bit(shard, position, bool(value), scale)
    elif value == 0:
        for first, shard in sv.shards():
            sv.backend.kernels.project(shard, first, 1 << position, 0, scale)
    else:
        for first, own, other in partner_pieces(sv, 1 << position):
            if first >> position & 1:
                own[:] = 0
            else:
                np.multiply(other, sv.dtype.type(scale), out=own)


def _deciding(sv: Shards, seed: Seed | Outcomes, *qubits: int) -> Callable[[NDArray[np.float64], int], int]:
    """Draws an outcome from the weights of some of the qubits, by the number of the first of them."""
    if isinstance(seed, Outcomes):
        return lambda weights, first: seed.outcome(weights)
    key = _key(sv, seed, *qubits)
    return lambda weights, first: int(drawn_from(weights, np.array([first]), key)[0])


def drawn_from(weights: NDArray[np.float64], shots: NDArray[np.int64], key: int) -> NDArray[np.int64]:
    """An index for each shot, with probabilities in proportion to the weights."""
    total = weights.sum()
    if not (total > 0 and math.isfinite(total)):
        raise StateError(f"the state's squared norm is {total:g}; nothing can be drawn from it")
    trees = np.concatenate([np.zeros_like(weights), weights])
    result = np.empty(len(shots), np.int64)
    kernels.descend(trees, len(weights).bit_length() - 1, np.zeros(len(shots), np.int64), shots, key, 0, result)
    return result


def _project(sv: Shards, qubits: Sequence[int], value: int, weights: NDArray[np.float64]) -> float:
    """Project onto an outcome, given the weights of all of them; returns the probability that it had."""
    probability = weights[value] / weights.sum()
    # Below this, a probability is a rounding error of 0.
    if not probability > (16 * np.finfo(sv.dtype).eps) ** 2:
        raise StateError(
            f"qubit{'s' if len(qubits) > 1 else ''} {', '.join(map(str, qubits))} cannot be found in "
            f"{value:0{len(qubits)}b} (written with qubit {qubits[-1]} first): the probability is {probability:.3g}"
        )
    positions = [sv.layout.positions[q] for q in qubits]
    mask = sum(1 << p for p in positions)
    bits = sum((value >> k & 1) << p for k, p in enumerate(positions))
    for first, shard in sv.shards():
        sv.backend.kernels.project(shard, first, mask, bits, 1 / math.sqrt(weights[value]))
    return float(probability)


def generator(comm: Communicator | None, seed: Seed) -> np.random.Generator:
    """Random numbers that are the same on every rank; all of them call. Without a seed, rank 0's."""
    if seed is None and comm is not None and comm.size > 1:
        seed = comm.broadcast(np.random.SeedSequence().generate_state(4)).tolist()
    return seeded(seed)


def seeded(seed: Seed) -> np.random.Generator:
    """The generator of a seed, itself where it is one. Raises StateError for what is no seed."""
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise StateError(
            f"seed={seed!r}: a seed is an int >= 0, a sequence of them, a NumPy Generator or SeedSequence, or None"
        ) from None


def _key(sv: Shards, seed: Seed, *what: int) -> int:
    """The number that all random choices of a call come from, the same on every rank. what: the call's arguments, which
    must be too. Raises StateError where ranks were given different seeds."""
    return same.seeds(sv.comm, int(seeded(seed).integers(1 << 63)), seed is not None, *what)
