"""Classical shadows: shots in random Pauli bases, from which many observables are estimated afterwards.

For a string P of weight w, 3**w times the product of the outcomes on its qubits, where all of them were measured in P's
letters, and else 0, has the mean <P> (Huang, Kueng, Preskill, Nature Physics 16, 1050 (2020)).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qdist.backends.errors import StateError
from qdist.backends.memory import check_copies
from qdist.state.checking import checks
from qdist.state.measuring.estimates import Estimate
from qdist.state.measuring.expectation import Observable, as_hermitian_sum
from qdist.state.measuring.measure import Seed, drawn, generator
from qdist.state.measuring.random_bases import LETTERS, measured
from qdist.state.measuring.rotated import ReadoutError, flip_probabilities, flipped, rotated
from qdist.state.moves.gather import gathered
from qdist.state.shards import Shards

__all__ = ["Shadow", "shadow"]

_GATHERED = 20
"""Qubits of states that every rank, and the host of a GPU, take whole."""


@dataclass(frozen=True, eq=False)
class Shadow:
    """What was measured: made by ``StateVector.shadow`` and ``Program.shadow``. Equal to itself alone, as arrays have
    no one answer; compare ``bases`` and ``bits``."""

    bases: NDArray[np.uint8]
    """(shots, qubits): 0, 1 and 2 for X, Y and Z."""
    bits: NDArray[np.uint8]
    """(shots, qubits): the outcomes, 1 where -1 was found."""

    @property
    def shots(self) -> int:
        return len(self.bases)

    def expectation(self, observable: Observable, groups: int = 1) -> Estimate:
        """An estimate of <O>: the mean over all shots, or the median of the means of so many groups of shots.

        Raises StateError for observables that are not Hermitian, and for more groups than half of the shots.
        """
        if not 1 <= groups <= max(1, self.shots // 2):
            raise StateError(f"groups={groups!r}: from 1 to half of the {self.shots} shots")
        total = np.zeros(self.shots)
        for string, coefficient in as_hermitian_sum(observable, self.bases.shape[1]):
            qubits = [q for q in range(self.bases.shape[1]) if (string.x | string.z) >> q & 1]
            letters = [0 if not string.z >> q & 1 else 1 if string.x >> q & 1 else 2 for q in qubits]
            hit = (self.bases[:, qubits] == letters).all(axis=1)
            signs = 1.0 - 2.0 * (self.bits[:, qubits].sum(axis=1) & 1)
            total += coefficient.real * 3 ** len(qubits) * np.where(hit, signs, 0.0)
        means = np.array([part.mean() for part in np.array_split(total, groups)])
        error = total.std(ddof=1) / np.sqrt(self.shots) if self.shots > 1 else float("nan")
        # The median of normally distributed means is less efficient than their mean.
        return Estimate(float(np.median(means)), error * (1.0 if groups == 1 else (np.pi / 2) ** 0.5), self.shots)


def shadow(sv: Shards, shots: int, seed: Seed, readout_error: ReadoutError = None) -> Shadow:
    """So many shots, each in a random basis."""
    rng = generator(sv.comm, seed)
    flips = flip_probabilities(readout_error, sv.num_qubits, sv.comm)
    bases = rng.integers(0, len(LETTERS), (checks.checked_shots(shots), sv.num_qubits), dtype=np.uint8)
    samples = flipped(_samples(sv, bases, int(rng.integers(1 << 63))), flips, rng)
    return Shadow(bases, (samples[:, None] >> np.arange(sv.num_qubits) & 1).astype(np.uint8))


def _samples(sv: Shards, bases: NDArray[np.uint8], key: int) -> NDArray[np.int64]:
    """A basis state a shot, bit q the outcome of qubit q; the same for a key whichever way they are found."""
    norm = sv.norm()
    if not (norm > 0 and math.isfinite(norm)):
        raise StateError(f"the state's norm is {norm:g}; nothing can be drawn from it")
    if sv.num_qubits <= _GATHERED or (sv.comm.size == 1 and sv.backend.is_host):
        needed, what = 2 * sv.dtype.itemsize << sv.num_qubits, f"a shadow of {sv.num_qubits} qubits"
        check_copies(sv.comm, needed, what, "split the state over ranks, or ask for expectation(observable, shots=)")
        whole = gathered(sv, None)
        assert whole is not None, "every rank asked for it"
        return measured(whole, bases, key)
    # Shots in the same bases are drawn from one copy of the state.
    samples = np.empty(len(bases), np.int64)
    kinds, which = np.unique(bases, axis=0, return_inverse=True)
    for k, kind in enumerate(kinds):
        rows = np.flatnonzero(which.reshape(-1) == k)
        samples[rows] = drawn(rotated(sv, "".join(LETTERS[basis] for basis in kind)), rows, key)
    return samples
