"""Expectation values and variances of matrices too large for Pauli strings, as outputs of a Program.

The state comes together on every rank, as the matrix, which PennyLane has whole on each, allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from qdist.state.outputs import Output, State, Variance
from qdist.state.statevector import StateVector

__all__ = ["MatrixExpectation", "MatrixVariance", "OfAnyNorm", "StateOfNoWires"]


@dataclass(frozen=True, eq=False)
class MatrixExpectation(Output):
    """<O> of a Hermitian matrix of all qubits, dense or sparse (with @), whose index has qubit 0 as its lowest bit."""

    matrix: Any

    def value(self, ket: StateVector) -> float:
        amplitudes = ket.amplitudes()
        return float(np.vdot(amplitudes, self.matrix @ amplitudes).real)

    def pull_back(self, ket: StateVector, cotangent: Any, bra: StateVector) -> None:
        amplitudes = ket.amplitudes()
        _add(bra, float(cotangent) * np.asarray(self.matrix @ amplitudes))


@dataclass(frozen=True, eq=False)
class MatrixVariance(Output):
    """<O^2> - <O>^2 of such a matrix."""

    matrix: Any

    def value(self, ket: StateVector) -> float:
        return float(np.linalg.norm(self._centred(ket.amplitudes())) ** 2)

    def pull_back(self, ket: StateVector, cotangent: Any, bra: StateVector) -> None:
        amplitudes = ket.amplitudes()
        once = self._centred(amplitudes)
        mean = np.vdot(amplitudes, self.matrix @ amplitudes).real
        _add(bra, float(cotangent) * np.asarray(self.matrix @ once - mean * once))

    def _centred(self, amplitudes: Any) -> Any:
        product = self.matrix @ amplitudes
        return product - np.vdot(amplitudes, product).real * amplitudes


@dataclass(frozen=True, eq=False)
class OfAnyNorm(Output):
    """Another output, whose pull-back has the multiple of the ket too that only a change of its norm sees."""

    output: Output

    @property
    def dtype(self) -> Any:  # type: ignore[override]
        return self.output.dtype

    @property
    def more_states(self) -> int:  # type: ignore[override]
        return self.output.more_states + 1

    def shape(self, num_qubits: int) -> tuple[int, ...]:
        return self.output.shape(num_qubits)

    def value(self, ket: StateVector) -> Any:
        return self.output.value(ket)

    def pull_back(self, ket: StateVector, cotangent: Any, bra: StateVector) -> None:
        self.output.pull_back(ket, cotangent, bra)
        # Variances are pulled back as <(O - m)^2>, in which m^2 goes with the norm.
        if isinstance(self.output, Variance):
            mean = ket.copy().expectation(self.output.observable)
        elif isinstance(self.output, MatrixVariance):
            mean = MatrixExpectation(self.output.matrix).value(ket)
        else:
            return
        bra.local[:] -= float(cotangent) * mean**2 * ket.local


@dataclass(frozen=True)
class StateOfNoWires(Output):
    """The one amplitude of a circuit without wires, which runs on a qubit that is 0."""

    dtype = np.complex128

    def shape(self, num_qubits: int) -> tuple[int, ...]:
        return (1,)

    def value(self, ket: StateVector) -> Any:
        return ket.amplitudes()[:1]

    def pull_back(self, ket: StateVector, cotangent: Any, bra: StateVector) -> None:
        State().pull_back(ket, np.append(cotangent, 0), bra)


def _add(bra: StateVector, amplitudes: Any) -> None:
    """Adds amplitudes in logical order, wherever this rank's shards have them."""
    for first, shard in bra.shards():
        index = bra.layout.to_logical(np.arange(first, first + len(shard)))
        shard += bra.backend.moved(amplitudes[index].astype(shard.dtype, copy=False))
