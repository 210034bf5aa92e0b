"""DensityMatrix: exact noise, as one run of a state of twice as many qubits."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import Circuit, CircuitError, PauliSum
from qdist.comm import Communicator
from qdist.noise.chain import Step, chain_gradient
from qdist.noise.doubled import doubled
from qdist.noise.layers import layers_of
from qdist.noise.noisy import Noisy
from qdist.plan.planner import MAX_QUBITS
from qdist.program.program import Program
from qdist.state.statevector import StateVector

__all__ = ["DensityMatrix"]


class DensityMatrix:
    """A noisy circuit compiled for density matrices: vec(rho), rows of rho on the first n qubits."""

    def __init__(self, noisy: Noisy, comm: Communicator | None, device: str, dtype: Any) -> None:
        self.noisy, self.comm, self.device, self.dtype = noisy, comm, device, dtype
        self.num_qubits = noisy.circuit.num_qubits
        self.check_room(1)
        self._program = self._compiled(doubled(noisy.circuit, self.num_qubits))

    def check_room(self, states: int) -> None:
        """Raises MemoryError, which names the other method, where so many density matrices do not fit."""
        n = self.num_qubits
        way_out = f"method='trajectories' runs states of {n} qubits instead"
        if 2 * n > MAX_QUBITS:
            raise CircuitError(
                f"{n} qubits are too many for a density matrix, a state of {2 * n} qubits, at most {MAX_QUBITS}: "
                f"{way_out}"
            )
        try:
            StateVector.check_room(2 * n, self.dtype, self.comm, self.device, states)
        except MemoryError as error:
            what = "a density matrix" if states == 1 else f"{states} density matrices, which a gradient stores,"
            raise MemoryError(f"{what} of {n} qubits, as a state of {2 * n} qubits: {error}; {way_out}") from None

    def run(self, theta: NDArray[np.float64]) -> StateVector:
        """vec(rho) after the circuit."""
        return self._program.evolved(theta if self.noisy.parameters else None)

    def matrix(self, theta: NDArray[np.float64]) -> NDArray[Any]:
        """rho on every rank, (2**n, 2**n)."""
        size = 1 << self.num_qubits
        return self.run(theta).amplitudes().reshape(size, size).T.copy()

    def probabilities(self, theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """The diagonal of rho; what rounding left below 0 is 0."""
        index = np.arange(1 << self.num_qubits, dtype=np.int64)
        return np.maximum(self.run(theta).amplitudes(index | index << self.num_qubits).real.astype(np.float64), 0.0)

    def values(self, observables: Sequence[PauliSum], theta: NDArray[np.float64]) -> NDArray[np.float64]:
        """Tr(O rho) of each observable."""
        return self._values(self.run(theta), observables)

    def value_and_gradient(self, observable: PauliSum, theta: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        """Tr(O rho) and its derivatives by the parameters, by one sweep back over stored density matrices."""
        self.check_room(2 + sum(step.adjoint is not None for step in self._steps))
        start = StateVector(2 * self.num_qubits, self.dtype, self.comm, device=self._program.device)
        value = 0.0

        def bra_of(rho: StateVector) -> StateVector:
            nonlocal value
            value = float(self._values(rho, [observable])[0])
            # d Tr(O rho) = 2 Re <bra|d rho> for half of vec(O).
            half = StateVector(rho.num_qubits, rho.dtype, self.comm, rho.layout, rho.device)
            half.local.fill(0)
            _fill(half, observable, self.num_qubits)
            return half

        gradient = chain_gradient(self._steps, theta, start, bra_of)
        return value, gradient

    @cached_property
    def _steps(self) -> list[Step]:
        found = []
        for gates, channels in layers_of(self.noisy.circuit):
            if gates:
                found.append(Step(self._compiled(doubled(gates, self.num_qubits))))
            if channels:
                forth = self._compiled(doubled(channels, self.num_qubits))
                found.append(Step(forth, self._compiled(doubled(reversed(channels), self.num_qubits, adjoint=True))))
        return found

    def _compiled(self, instructions: list[Any]) -> Program:
        circuit = Circuit(2 * self.num_qubits).with_instructions(instructions).with_order(self.noisy.parameters)
        return Program(circuit, comm=self.comm, device=self.device, dtype=self.dtype)

    def _values(self, rho: StateVector, observables: Sequence[PauliSum]) -> NDArray[np.float64]:
        n = self.num_qubits
        index = np.arange(1 << n, dtype=np.int64)
        # Strings that flip the same qubits read the same elements of rho.
        flips = sorted({string.x for observable in observables for string, _ in observable})
        elements = {x: rho.amplitudes(index | (index ^ x) << n).astype(np.complex128) for x in flips}
        found = np.zeros(len(observables))
        for k, observable in enumerate(observables):
            for string, coefficient in observable:
                found[k] += (coefficient * np.dot(_phases(string.x, string.z, index), elements[string.x])).real
        return found


def _phases(x: int, z: int, index: NDArray[np.int64]) -> NDArray[np.complex128]:
    """ph(a) in P |a> = ph(a) |a ^ x>."""
    signs = 1 - 2 * (np.bitwise_count(index & z) & 1).astype(np.int64)
    return 1j ** (x & z).bit_count() * signs


def _fill(bra: StateVector, observable: PauliSum, n: int) -> None:
    """Adds vec(O) / 2 to this rank's shards."""
    index = np.arange(1 << n, dtype=np.int64)
    for string, coefficient in observable:
        places = bra.layout.to_physical(index | (index ^ string.x) << n)
        values = (complex(coefficient) * _phases(string.x, string.z, index)).conj() / 2
        for first, shard in bra.shards():
            own = (places >= first) & (places < first + len(shard))
            where = bra.backend.moved(places[own] - first)
            shard[where] += bra.backend.moved(values[own].astype(shard.dtype))
