"""The training: the ground energy of the transverse-field Ising ring, by the circuit that alternates its two parts."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np

from qdist import comm, library
from qdist.circuit import PauliSum
from qdist.program import Program, compile

__all__ = ["Training", "compiled", "exact_energy", "train"]

_RATE, _MOMENTA = 0.04, (0.9, 0.999)


class Training(NamedTuple):
    """energies: before every step. seconds: of all steps."""

    energies: list[float]
    seconds: float


def exact_energy(spins: int) -> float:
    """Of free fermions, at the critical field (Pfeuty, Ann. Phys. 57, 79 (1970)); for an even number of spins."""
    k = np.pi * (2 * np.arange(spins) + 1) / spins
    return -float(np.sqrt(2 - 2 * np.cos(k)).sum())


def compiled(spins: int, ranks: comm.Communicator | None = None) -> Program:
    """The circuit with spins / 2 layers, which hold the ground state (Ho and Hsieh, arXiv 1803.00026)."""
    return compile(library.qaoa(_bonds(spins), spins // 2), comm=ranks, dtype="complex128")


def train(spins: int, steps: int) -> Training:
    """Adam on the angles, on all ranks of the job."""
    program = compiled(spins, comm.init())
    energy = library.tfim(spins, h=1.0, periodic=True)
    angles = np.repeat([0.45, -0.6], spins // 2)
    angles[[0, -1]] /= 2
    angles += np.random.default_rng(0).normal(0.0, 0.05, len(angles))
    first, second = np.zeros((2, len(angles)))
    energies = []
    start = time.perf_counter()
    for step in range(1, steps + 1):
        value, gradient = program.value_and_grad(energy, angles)
        energies.append(value)
        first += (1 - _MOMENTA[0]) * (gradient - first)
        second += (1 - _MOMENTA[1]) * (gradient**2 - second)
        scale = np.sqrt(1 - _MOMENTA[1] ** step) / (1 - _MOMENTA[0] ** step)
        angles = angles - _RATE * scale * first / (np.sqrt(second) + 1e-8)
    return Training(energies, time.perf_counter() - start)


def _bonds(spins: int) -> PauliSum:
    return library.tfim(spins, h=0, periodic=True)
