"""Outputs of a row program: Pauli sums and probabilities by stored bits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import PauliSum
from qdist.circuit.pauli.masks import bit_count
from qdist.plan.observables.strings import Strings
from qdist.plan.rows.frame import Frame

__all__ = ["RowOutputRecords", "lowered_outputs"]


@dataclass(frozen=True, slots=True)
class RowOutputRecords:
    """What is read from each row's state, by stored bits (see records.py).

    A string has a value v in a state, and adds coefficient * v to its output. With p the lowest flipped bit, v is the
    sum over the indices a whose bit p is 0 of (-1)**parity(a & mask) Re(conj(psi[a ^ flip]) psi[a]), or of the
    imaginary part; where nothing is flipped, the sum over all a of (-1)**parity(a & mask) |psi[a]|**2.

    A marginal has the probabilities of some qubits as outputs first, first + 1, ...: output j is the sum of |psi|**2
    over 2**(n - count) steps of a walk, from step j * 2**(n - count) on.
    """

    num_qubits: int
    num_outputs: int
    strings: NDArray[np.int64]
    """(flip, mask, 1 for the imaginary part, output)"""
    coefficients: NDArray[np.float64]
    marginals: NDArray[np.int64]
    """(first, count, base, one column a qubit)"""


def lowered_outputs(frame: Frame, outputs: Sequence[PauliSum | tuple[int, ...]]) -> RowOutputRecords:
    """outputs: Hermitian sums, of one value each, and tuples of qubits, whose 2**k probabilities are as many values."""
    n = frame.num_qubits
    sums: list[PauliSum] = []
    places: list[int] = []
    marginals: list[list[int]] = []
    count = 0
    for output in outputs:
        if isinstance(output, PauliSum):
            sums.append(output)
            places.append(count)
            count += 1
            continue
        columns = [frame.columns[q] for q in range(n) if q not in output] + [frame.columns[q] for q in output]
        marginals.append([count, len(output), frame.origin, *columns])
        count += 1 << len(output)
    strings = Strings.of(sums, real=True)
    x, z = strings.x.astype(np.int64), strings.z.astype(np.int64)
    flip, mask, odd = (np.zeros(len(x), np.int64) for _ in range(3))
    for q in range(n):
        in_x, in_z = x >> q & 1, z >> q & 1
        flip ^= in_x * frame.columns[q]
        mask ^= in_z * frame.functionals[q]
        odd ^= in_z * frame.constants[q]
    # i^|x & z| (-1)^odd, and 2 Re(i c) = -2 Im(c).
    power = (bit_count((strings.x & strings.z)[:, None]).astype(np.int64) + 2 * odd) % 4
    sign = np.array([1.0, -1.0, -1.0, 1.0])[power]
    coefficients = strings.coefficients.real * sign * np.where(flip == 0, 1.0, 2.0)
    belongs = np.array(places, np.int64)[strings.observable] if places else np.zeros(0, np.int64)
    records = np.stack([flip, mask, power & 1, belongs], axis=1) if len(x) else np.zeros((0, 4), np.int64)
    return RowOutputRecords(
        n,
        count,
        np.ascontiguousarray(records),
        np.ascontiguousarray(coefficients),
        np.array(marginals, np.int64).reshape(len(marginals), n + 3),
    )
