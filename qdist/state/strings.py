"""The Pauli strings of observables as arrays of masks, to be chosen from, moved to positions and compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import PauliSum
from qdist.native import kernels as cpu_kernels
from qdist.plan import Layout

__all__ = ["Strings"]


class Strings(NamedTuple):
    """One row a string: |i> becomes coefficient * i^|x & z| (-1)^|z & i| |i ^ x>."""

    x: NDArray[np.uint64]
    z: NDArray[np.uint64]
    coefficients: NDArray[np.complex128]
    observable: NDArray[np.int64]
    """The number of the observable that the string belongs to."""
    num_observables: int

    @staticmethod
    def of(sums: Sequence[PauliSum], real: bool) -> Strings:
        """All strings of some sums, by masks of qubits; with ``real`` without the coefficients' imaginary parts."""
        empty = np.zeros(0, np.uint64)
        coefficients = np.concatenate([np.zeros(0, np.complex128), *(s.coefficients for s in sums)])
        return Strings(
            np.concatenate([empty, *(s.x[:, 0] for s in sums)]),
            np.concatenate([empty, *(s.z[:, 0] for s in sums)]),
            coefficients.real.astype(np.complex128) if real else coefficients,
            np.repeat(np.arange(len(sums)), [len(s) for s in sums]),
            len(sums),
        )

    def chosen(self, which: NDArray[np.bool_]) -> Strings:
        """Some of the strings."""
        return Strings(
            self.x[which], self.z[which], self.coefficients[which], self.observable[which], self.num_observables
        )

    def at(self, layout: Layout) -> Strings:
        """The same by masks of the positions that a layout gives the qubits."""
        x, z = (layout.to_physical(mask).astype(np.uint64, copy=False) for mask in (self.x, self.z))
        return self._replace(x=x, z=z)

    def compiled(self, bits: int, kernels: Any = cpu_kernels) -> Any:
        """The kernels' plan for shards of 2**bits amplitudes; no x mask may reach beyond them.

        kernels: those of the device that the shards are on.
        """
        return kernels.PauliPlan(bits, self.x, self.z, self.coefficients, self.observable, self.num_observables)
