"""What some of a state's qubits know: reduced density matrices, entropies, Schmidt values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends import on_host
from qdist.backends.errors import StateError
from qdist.backends.memory import check_copies
from qdist.plan.layout import Layout
from qdist.state.checking import checks, same
from qdist.state.moves.gather import gathered
from qdist.state.moves.relayout import relayout
from qdist.state.shards import Shards

__all__ = ["ReducedStates"]

Qubits = int | Sequence[int]
_NUMBER = int | float | np.integer | np.floating

_AMPLITUDES, _MOST_AMPLITUDES = 1 << 14, 1 << 21
"""That are converted to double at a time: as many as stay in a cache; of large matrices as many as the matrix has
entries, so that adding to it is not what takes the time, but no more than these."""
_NEAR_ONE = 1e-2
"""Orders of an entropy that are so near to one are computed as their difference from it."""
_SMALL = 20
"""Qubits of states whose Schmidt values are singular values of the amplitudes themselves, to full precision."""


class ReducedStates(Shards):
    """The part of StateVector that looks at some of the qubits. All ranks call, and get the same."""

    __slots__ = ()

    def density_matrix(self, qubits: Qubits | None = None) -> NDArray[np.complex128]:
        """The reduced density matrix of `qubits` (all without), qubits[0] as bit 0: complex128, (2**k, 2**k).

        Where other qubits are stored in between, or ranks hold them, it takes memory for a copy of the state. Raises
        StateError where the qubits are more than a rank's share of the state has, MemoryError where the matrix does
        not fit.

        >>> from qdist import Circuit, simulate
        >>> simulate(Circuit(2).h(0).cx(0, 1)).density_matrix([0]).real
        array([[0.5, 0. ],
               [0. , 0.5]])
        """
        chosen = checks.checked_qubits(qubits, self.num_qubits)
        same.arguments(self._comm, "choice of qubits", chosen)
        return _density(self, chosen)

    def partial_trace(self, qubits: Qubits) -> NDArray[np.complex128]:
        """The density matrix that is left when `qubits` are traced out; the others keep their order."""
        gone = checks.checked_qubits(qubits, self.num_qubits)
        return self.density_matrix([q for q in range(self.num_qubits) if q not in gone])

    def purity(self, qubits: Qubits) -> float:
        """Tr rho^2 of the reduced state: 1 where the qubits are entangled with no others."""
        return float(np.sum(_spectrum(self, self._given(qubits)) ** 2))

    def entropy(self, qubits: Qubits, alpha: float = 1, base: float = 2) -> float:
        """The entanglement entropy of `qubits` with the others.

        Args:
            qubits: one side of the cut.
            alpha: 1 is von Neumann's, -Tr rho log rho; others are Renyi's, log(Tr rho^alpha) / (1 - alpha);
                0 counts the Schmidt values, and math.inf is -log of the largest probability.
            base: of the logarithm; 2 gives bits.
        """
        if not (isinstance(alpha, _NUMBER) and alpha >= 0):
            raise StateError(f"alpha={alpha!r}: the order of an entropy is a number >= 0")
        if not (isinstance(base, _NUMBER) and base > 1):
            raise StateError(f"base={base!r}: a logarithm to a base above 1, such as 2 or math.e")
        chosen = self._given(qubits)
        alpha, base = float(alpha), float(base)
        same.arguments(self._comm, "order or base of the entropy", alpha, base)
        return _entropy(_spectrum(self, chosen), alpha) / math.log(base)

    def mutual_information(self, first: Qubits, second: Qubits, base: float = 2) -> float:
        """S(first) + S(second) - S(both), of von Neumann's entropies, which measures all correlations between them.

        base: of the logarithm; 2 gives bits.
        """
        one, other = self._given(first), self._given(second)
        shared = sorted(set(one) & set(other))
        if shared:
            raise StateError(f"both sides have qubit {shared[0]}: the mutual information is that of different qubits")
        parts = [self.entropy(side, 1, base) for side in (one, other, (*one, *other))]
        return parts[0] + parts[1] - parts[2]

    def schmidt_values(self, qubits: Qubits) -> NDArray[np.float64]:
        """The Schmidt coefficients across the cut between `qubits` and the others, largest first.

        2**k of them, where k is the number of qubits on the smaller side; their squares are the eigenvalues of both
        reduced density matrices. Above 20 qubits those below 1e-8 of the largest are rounding errors.
        """
        chosen = self._given(qubits)
        others = [q for q in range(self.num_qubits) if q not in chosen]
        if not others:
            return np.array([self.norm()])
        if self.num_qubits <= _SMALL:
            whole = gathered(self, None)
            assert whole is not None, "every rank asked for it"
            tensor = whole.astype(np.complex128).reshape((2,) * self.num_qubits)
            axes = [self.num_qubits - 1 - q for q in (*chosen, *others)]
            matrix = tensor.transpose(axes).reshape(1 << len(chosen), -1)
            return np.asarray(np.linalg.svd(matrix, compute_uv=False), np.float64)
        smaller = chosen if len(chosen) <= len(others) else others
        return np.sqrt(np.clip(np.linalg.eigvalsh(_density(self, smaller))[::-1], 0, None))

    def _given(self, qubits: Qubits) -> tuple[int, ...]:
        chosen = checks.checked_qubits(qubits, self.num_qubits)
        same.arguments(self._comm, "choice of qubits", chosen)
        return chosen


def reduced_fidelity(first: NDArray[Any], second: NDArray[Any]) -> float:
    """(Tr sqrt(sqrt(rho) sigma sqrt(rho)))^2 of two density matrices: the sum of the singular values of
    sqrt(rho) sqrt(sigma), squared, since roots of rounding errors would be 1e-8 each."""
    return float(np.linalg.svd(_root(first) @ _root(second), compute_uv=False).sum() ** 2)


def _root(density: NDArray[Any]) -> NDArray[Any]:
    values, vectors = np.linalg.eigh(density)
    least = len(values) * np.finfo(np.float64).eps * values[-1]
    return (vectors * np.sqrt(np.where(values > least, values, 0))) @ vectors.conj().T


def _spectrum(sv: Shards, qubits: Sequence[int]) -> NDArray[np.float64]:
    """The probabilities of the eigenstates of a reduced state; both sides of a cut have the same."""
    others = [q for q in range(sv.num_qubits) if q not in qubits]
    if not others or not qubits:
        return np.ones(1)
    values = np.clip(np.linalg.eigvalsh(_density(sv, qubits if len(qubits) <= len(others) else others)), 0, None)
    total = values.sum()
    if not total > 0:
        raise StateError("the state is zero; its qubits have no entropy")
    return values / total


def _entropy(probabilities: NDArray[np.float64], alpha: float) -> float:
    """In nats."""
    some = probabilities[probabilities > 1e-15]
    if alpha == 1:
        return float(-(some * np.log(some)).sum()) + 0.0
    if math.isinf(alpha):
        return -math.log(some.max())
    if alpha == 0:
        # Squares of Schmidt values below 1e-8, which are rounding errors in single precision.
        return math.log(int((some > 1e-12).sum()))
    if abs(alpha - 1) < _NEAR_ONE:
        # The sum is 1 and a little, which is found for itself: the logarithm is divided by as small a number.
        return math.log1p(float((some * np.expm1((alpha - 1) * np.log(some))).sum())) / (1 - alpha)
    # Relative to the largest, or high powers of all would round to 0.
    largest = float(some.max())
    return (math.log(float(((some / largest) ** alpha).sum())) + alpha * math.log(largest)) / (1 - alpha)


def _density(sv: Shards, qubits: Sequence[int]) -> NDArray[np.complex128]:
    count = len(qubits)
    if count > sv.shard_bits:
        raise StateError(
            f"the density matrix of {count} qubits needs them on one rank, and a rank's share of the state has "
            f"{sv.shard_bits}: use fewer ranks, or fewer qubits"
        )
    check_copies(sv.comm, 48 << 2 * count, f"the density matrix of {count} qubits", "take fewer qubits")
    if [sv.layout.positions[q] for q in qubits] != list(range(count)):
        # The chosen qubits become the lowest bits, so that a row of the matrix is a run of amplitudes.
        sv = sv.copy()
        rest = [q for q in sv.layout.qubits if q not in qubits]
        positions = [0] * sv.num_qubits
        for place, qubit in enumerate((*qubits, *rest)):
            positions[qubit] = place
        relayout(sv, Layout(positions))
    found = np.zeros((1 << count, 1 << count), np.complex128)
    rows = max(1, min(max(_AMPLITUDES, 1 << 2 * count), _MOST_AMPLITUDES) >> count)
    for _, shard in sv.shards():
        table = shard.reshape(-1, 1 << count)
        for start in range(0, len(table), rows):
            some = table[start : start + rows].astype(np.complex128)
            found += on_host(some.T @ some.conj())
    return sv.sum_over_ranks(found)
