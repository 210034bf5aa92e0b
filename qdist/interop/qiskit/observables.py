"""Observables of the primitives as Pauli sums, projectors included."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from qdist.circuit import PauliSum

__all__ = ["pauli_sum"]

_LETTERS = {"I": (0, 0), "X": (1, 0), "Y": (1, 1), "Z": (0, 1)}
_PROJECTORS = {"0": ("Z", 1), "1": ("Z", -1), "+": ("X", 1), "-": ("X", -1), "r": ("Y", 1), "l": ("Y", -1)}


def pauli_sum(observable: Mapping[str, complex]) -> PauliSum:
    """{label: coefficient}, with letters IXYZ and the projectors 01+-rl, the highest qubit first.

    Raises ValueError where a coefficient is not real: the operator would not be Hermitian.
    """
    x: list[int] = []
    z: list[int] = []
    coefficients: list[float] = []
    for label, coefficient in observable.items():
        if np.imag(coefficient):
            raise ValueError(f"the coefficient {coefficient} of {label}: estimated operators are Hermitian")
        terms = [(0, 0, float(np.real(coefficient)))]
        for qubit, letter in enumerate(reversed(label)):
            if letter in _PROJECTORS:
                # A projector is (1 + sign P) / 2.
                letter, sign = _PROJECTORS[letter]
                flips, phases = (part << qubit for part in _LETTERS[letter])
                terms = [(a, b, c / 2) for a, b, c in terms] + [
                    (a | flips, b | phases, sign * c / 2) for a, b, c in terms
                ]
            elif letter != "I":
                flips, phases = (part << qubit for part in _LETTERS[letter])
                terms = [(a | flips, b | phases, c) for a, b, c in terms]
        for flips, phases, weight in terms:
            x.append(flips)
            z.append(phases)
            coefficients.append(weight)
    return PauliSum.from_masks(x, z, coefficients).simplify(0)
