"""The Pauli strings of observables in the symplectic form: arrays of X and Z masks, by qubits or by positions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import PauliSum
from qdist.plan.layout import Layout
from qdist.plan.operations import Operation

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

    def before(self, gates: Sequence[Operation]) -> Strings:
        """G^-1 S G of each string S, where G are X, CX and SWAP of qubits, first to last: the Heisenberg
        picture, in which the value before the gates is that of S after them."""
        x, z, odd = self.x, self.z, np.zeros(len(self.x), np.uint64)
        for gate in reversed(gates):
            if gate.kind == "swap":
                x, z = (_swapped(mask, *gate.targets) for mask in (x, z))
                continue
            (target,) = gate.targets
            z_target = _bit(z, target)
            if not all(value for _, value in gate.controls):
                odd = odd ^ z_target
            for control, _ in gate.controls:
                x_control = _bit(x, control)
                odd = odd ^ (x_control & z_target & ~(_bit(x, target) ^ _bit(z, control)))
                x, z = x ^ x_control << np.uint64(target), z ^ z_target << np.uint64(control)
            if not gate.controls:
                odd = odd ^ z_target
        return self._replace(x=x, z=z, coefficients=np.where(odd, -self.coefficients, self.coefficients))


def _bit(masks: NDArray[np.uint64], qubit: int) -> NDArray[np.uint64]:
    return masks >> np.uint64(qubit) & np.uint64(1)


def _swapped(masks: NDArray[np.uint64], a: int, b: int) -> NDArray[np.uint64]:
    differs = _bit(masks, a) ^ _bit(masks, b)
    return masks ^ (differs << np.uint64(a) | differs << np.uint64(b))
