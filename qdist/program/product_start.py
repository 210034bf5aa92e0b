"""The initial product state, into which first gates on far qubits are absorbed: one amplitude a shard, and derivatives.

The first one-qubit gates on a far qubit act on |0> alone: qubit q is then in a state v_q, and shard s starts with the
single amplitude c_s = product over far q of v_q[bit of q in s] at its index 0, where the close qubits are |0>.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import Gate
from qdist.plan.plan import Plan

__all__ = ["ProductStart"]


class ProductStart:
    """The first amplitudes of a plan's shards, for the angles that were bound last."""

    def __init__(self, plan: Plan) -> None:
        close = plan.num_qubits - plan.far
        # (gates with their first angles) of the qubit at each far position, the lowest first.
        self._gates = [tuple(plan.folded.get(qubit, ())) for qubit in plan.layout.qubits[close:]]
        self._angles = np.zeros(0)
        self._factors = [np.array([1, 0], np.complex128) for _ in self._gates]

    @property
    def is_trainable(self) -> bool:
        """Whether any of the absorbed gates has an angle."""
        return any(gate.num_params for gates in self._gates for gate, _ in gates)

    def bind(self, angles: NDArray[np.float64]) -> None:
        """Computes v_q from the circuit's angles."""
        self._angles = angles
        for k, gates in enumerate(self._gates):
            self._factors[k] = self._state(gates)

    def value(self, shard: int) -> complex:
        """c_s: the amplitude of shard number ``shard`` at its index 0."""
        return math.prod((complex(v[shard >> k & 1]) for k, v in enumerate(self._factors)), start=1 + 0j)

    def gradient(self, weights: Iterable[tuple[int, complex]]) -> NDArray[np.float64]:
        """The derivative of Re(sum of w_s c_s) by each of the circuit's angles: float64, zero for all others.

        weights: (shard number s, w_s). In the adjoint method w_s is the conjugate of the bra's amplitude at the
        shard's index 0, and an expectation value's derivative twice the result.
        """
        result = np.zeros(len(self._angles))
        weights = list(weights)
        for k, gates in enumerate(self._gates):
            # The coefficient of each value of this far bit.
            rest = np.zeros(2, np.complex128)
            for shard, weight in weights:
                others = (complex(v[shard >> j & 1]) for j, v in enumerate(self._factors) if j != k)
                rest[shard >> k & 1] += math.prod(others, start=weight)
            for g, (gate, slot) in enumerate(gates):
                for p in range(gate.num_params):
                    result[slot + p] += (rest @ self._state(gates, g, p)).real
        return result

    def _state(
        self, gates: tuple[tuple[Gate, int], ...], derived: int | None = None, by: int = 0
    ) -> NDArray[np.complex128]:
        """The gates on |0>; or its derivative by angle ``by`` of gate number ``derived``."""
        state = np.array([1, 0], np.complex128)
        for g, (gate, slot) in enumerate(gates):
            angles = self._angles[slot : slot + gate.num_params]
            state = (gate.derivative(by, *angles) if g == derived else gate.matrix(*angles)) @ state
        return state
