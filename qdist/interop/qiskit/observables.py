"""Observables of Qiskit as Pauli sums: those of the primitives, projectors included, and operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from qiskit.primitives.containers.observables_array import ObservablesArray
from qiskit.quantum_info import SparsePauliOp

from qdist.circuit import PauliSum

__all__ = ["operator_sum", "pauli_sum"]

_PROJECTORS = {"0": ("Z", 1), "1": ("Z", -1), "+": ("X", 1), "-": ("X", -1), "r": ("Y", 1), "l": ("Y", -1)}


def pauli_sum(observable: Mapping[str, complex], qubits: Sequence[int]) -> PauliSum:
    """{label: coefficient}, with letters IXYZ and the projectors 01+-rl, the highest qubit first.

    Of all qubits of the labels these are left, in this order; the others are |0>.

    Raises ValueError where a coefficient is not real: the operator would not be Hermitian.
    """
    labels, coefficients = list(observable), np.array(list(observable.values()))
    if np.iscomplexobj(coefficients):
        for label, coefficient in observable.items():
            if np.imag(coefficient):
                raise ValueError(f"the coefficient {coefficient} of {label}: estimated operators are Hermitian")
    letters = np.frombuffer("".join(labels).encode(), "S1").reshape(len(labels), -1)[:, ::-1]
    has = {letter: letters == letter.encode() for letter in "XYZ"}
    x, z = has["X"] | has["Y"], has["Y"] | has["Z"]
    weights = coefficients.real.astype(float)
    if (x | z | (letters == b"I")).all():
        return _of_bits(x, z, weights, qubits)
    expanded: dict[str, float] = {}
    for label, weight in zip(labels, weights.tolist()):
        for term, factor in _expanded(label):
            expanded[term] = expanded.get(term, 0.0) + weight * factor
    return pauli_sum(expanded, qubits)


def operator_sum(operator: Any, qubits: Sequence[int]) -> PauliSum:
    """An operator of ``quantum_info``; qubits: as above. Raises ValueError where it is not Hermitian."""
    if isinstance(operator, SparsePauliOp) and operator.coeffs.dtype != object:
        # Paulis of a SparsePauliOp have no phases: they are in its coefficients.
        if np.abs(operator.coeffs.imag).max(initial=0.0) > 1e-12 * np.abs(operator.coeffs).max(initial=0.0):
            raise ValueError("an operator with complex coefficients of Pauli strings is not Hermitian")
        return _of_bits(operator.paulis.x, operator.paulis.z, operator.coeffs.real, qubits)
    return pauli_sum(ObservablesArray.coerce_observable(operator), qubits)


def _of_bits(
    x: NDArray[np.bool_], z: NDArray[np.bool_], coefficients: NDArray[np.float64], qubits: Sequence[int]
) -> PauliSum:
    """Bits of shape (terms, all qubits)."""
    if len(qubits) < x.shape[1]:
        # In |0> a Z is 1, and X and Y are 0.
        coefficients = coefficients * ~np.delete(x, qubits, axis=1).any(axis=1)
        x, z = x[:, qubits], z[:, qubits]
    return PauliSum.from_masks(_words(x), _words(z), coefficients)


def _words(bits: NDArray[np.bool_]) -> NDArray[np.uint64]:
    packed = np.packbits(bits, axis=1, bitorder="little")
    whole = np.zeros((len(bits), max(8, -(-packed.shape[1] // 8) * 8)), np.uint8)
    whole[:, : packed.shape[1]] = packed
    return whole.view("<u8")


def _expanded(label: str) -> list[tuple[str, float]]:
    """A label's projectors (1 + sign P) / 2 multiplied out."""
    terms = [("", 1.0)]
    for letter in label:
        if letter in _PROJECTORS:
            pauli, sign = _PROJECTORS[letter]
            terms = [(t + "I", f / 2) for t, f in terms] + [(t + pauli, sign * f / 2) for t, f in terms]
        else:
            terms = [(t + letter, f) for t, f in terms]
    return terms
