"""Outputs of a tangent state: what an output changes by, along the tangents, as outputs of the tangent circuit.

With |Psi> = |0>|psi> + h |1>|phi>, the change of <psi|O|psi> is 2 Re <psi|O|phi> = <Psi|X O|Psi> / h.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.errors import StateError
from qdist.circuit import PauliSum
from qdist.program.tangent.halves import add_half, half
from qdist.state.checking import checks
from qdist.state.measuring.expectation import as_hermitian_sum
from qdist.state.measuring.measure import probabilities
from qdist.state.outputs import Expectation, Output, Overlap, Probabilities, State, Variance
from qdist.state.statevector import StateVector

__all__ = ["CrossProbabilities", "Half", "Lifted"]


@dataclass(frozen=True)
class Half(Output):
    """An output that is linear in the state, of one half of a tangent state."""

    output: Output
    which: int
    dtype = np.complex128
    more_states = 2

    def shape(self, num_qubits: int) -> tuple[int, ...]:
        return self.output.shape(num_qubits - 1)

    def value(self, ket: StateVector) -> Any:
        return self.output.value(half(ket, self.which))

    def pull_back(self, ket: StateVector, cotangent: Any, bra: StateVector) -> None:
        own = half(ket.copy(), self.which)
        added = own.like()
        self.output.pull_back(own, cotangent, added)
        add_half(bra, self.which, added)


@dataclass(frozen=True)
class CrossProbabilities(Output):
    """2 Re psi_x* phi_x h, summed over the other qubits: h times the change of the probabilities of some qubits."""

    qubits: tuple[int, ...]
    more_states = 3

    def shape(self, num_qubits: int) -> tuple[int, ...]:
        return (1 << len(self.qubits),)

    def value(self, ket: StateVector) -> NDArray[np.float64]:
        psi, phi = half(ket, 0), half(ket, 1)
        cross = 2 * (psi.local.real * phi.local.real + psi.local.imag * phi.local.imag)
        # The kernel adds up squares: positive and negative terms go apart, as square roots.
        found = np.zeros(1 << len(self.qubits))
        for sign in (1, -1):
            psi.local[:] = (sign * cross).clip(0, None) ** 0.5
            found += sign * probabilities(psi, self.qubits)
        return found

    def pull_back(self, ket: StateVector, cotangent: Any, bra: StateVector) -> None:
        whole = ket.copy()
        for which in (0, 1):
            other = half(whole, 1 - which)
            added = other.like()
            positions = [other.layout.positions[q] for q in self.qubits]
            for (first, shard), (_, out) in zip(other.shards(), added.shards()):
                ket.backend.kernels.add_weighted(shard, first, positions, cotangent, out)
            add_half(bra, which, added)


class Lifted:
    """Outputs of a program, as outputs of its tangent program.

    num_qubits, dtype: of the program's states, and of the tangent program's.
    Raises StateError for outputs of which no second derivative is known.
    """

    def __init__(self, outputs: Sequence[Output], num_qubits: int, dtype: np.dtype[Any]) -> None:
        self._variances = [isinstance(output, Variance) for output in outputs]
        self.values: list[Output] = []
        """Those that give the values."""
        self.changes: list[Output] = []
        """Those that give h times the changes; of a variance, the first of two."""
        for output in outputs:
            value, change = _lifted(output, num_qubits, dtype)
            self.values += value
            self.changes += change

    @property
    def has_variances(self) -> bool:
        return True in self._variances

    def of(self, found: Sequence[Any], h: NDArray[np.float64]) -> tuple[list[Any], list[Any]]:
        """Values and changes of the outputs, with the batch in front, from those of ``values`` and of ``changes``."""
        count = len(self.values)
        parts = iter(zip(found[:count], found[count:]))
        values, changes = [], []
        for variance in self._variances:
            value, change = next(parts)
            change = _scaled(change, 1 / h)
            if variance:
                mean, slope = next(parts)
                value, change = value - mean**2, change - 2 * mean * _scaled(slope, 1 / h)
            values.append(value)
            changes.append(change)
        return values, changes

    def cotangents(
        self, given: Sequence[NDArray[Any]], found: Sequence[Any], h: NDArray[np.float64]
    ) -> tuple[list[Output], list[NDArray[Any]]]:
        """Outputs of the tangent program and their cotangents, given those of the changes of the program's outputs.

        found: the values of ``values`` and of ``changes``, which variances need.
        """
        added: list[Output] = []
        own, of_added = [], []
        at, count = 0, len(self.values)
        for variance, g in zip(self._variances, given):
            own.append(_scaled(g, 1 / h))
            at += 1
            if variance:
                # The change is that of the square, less twice the mean times that of the mean: a product of two.
                mean, slope = found[at], found[count + at] / h
                own.append(-2 * mean * g / h)
                added.append(self.values[at])
                of_added.append(-2 * slope * g)
                at += 1
        return [*self.changes, *added], own + of_added


def _scaled(values: Any, factors: NDArray[np.float64]) -> Any:
    return values * factors.reshape(factors.shape + (1,) * (np.ndim(values) - 1))


def _lifted(output: Output, n: int, dtype: np.dtype[Any]) -> tuple[list[Output], list[Output]]:
    """The outputs of the tangent program that give the value, and those that give its change."""
    if isinstance(output, Expectation | Variance):
        sums = output.moments(n) if isinstance(output, Variance) else [as_hermitian_sum(output.observable, n)]
        return [Expectation(one) for one in sums], [Expectation(_with_x(one, n)) for one in sums]
    if isinstance(output, Probabilities):
        qubits = checks.checked_qubits(output.qubits, n)
        return [Probabilities(qubits)], [CrossProbabilities(qubits)]
    if isinstance(output, Overlap):
        output = Overlap(output.state if output.state.dtype == dtype else output.state.astype(dtype))
    elif not isinstance(output, State):
        raise StateError(
            f"{output!r} has no tangent: there are those of expectation values, variances, probabilities, overlaps "
            "and the state"
        )
    return [Half(output, 0)], [Half(output, 1)]


def _with_x(observable: PauliSum, qubit: int) -> PauliSum:
    """X O, with X on a qubit that O does not act on."""
    return PauliSum(f"X{qubit}") @ observable
