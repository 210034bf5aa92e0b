"""Pauli evolutions of first order as Pauli rotations."""

from __future__ import annotations

from typing import Any

import numpy as np
from qiskit.quantum_info import SparsePauliOp
from qiskit.synthesis import LieTrotter

from qdist.circuit.parameters import Angle

from .angles import Angles

__all__ = ["rotations"]


def rotations(operation: Any, angles: Angles) -> list[tuple[str, list[int], Angle]] | None:
    """exp(-i t H) as (letters, their qubits, angle) of exp(-i angle/2 P), in the order that Qiskit's synthesis has.

    No letters: a global phase of that angle. None where the synthesis is not of first order, or the operator is no
    sum of Pauli strings: Qiskit's definition is taken then.
    """
    synthesis, operator = operation.synthesis, operation.operator
    if type(synthesis) is not LieTrotter:
        return None
    groups = operator if isinstance(operator, list) else [operator]
    if not all(isinstance(group, SparsePauliOp) for group in groups):
        return None
    if any(np.iscomplex(coefficient) for group in groups for coefficient in group.coeffs if np.isscalar(coefficient)):
        return None
    time = angles(operation.time)
    repeated: list[tuple[str, list[int], Angle]] = []
    for group in groups:
        for letters, on, coefficient in group.to_sparse_list():
            weight = 2.0 * float(np.real(coefficient)) / synthesis.reps
            if not letters:
                repeated.append(("", [], -0.5 * weight * time))
            else:
                repeated.append((letters, list(on), weight * time))
    return repeated * synthesis.reps
