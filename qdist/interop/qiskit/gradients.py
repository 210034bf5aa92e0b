"""Gradients of expectation values by the adjoint method: equal circuits of a call as one batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.circuit import PauliSum
from qdist.program.program import Program
from qdist.state.outputs import Expectation, Output
from qdist.state.statevector import StateVector

from .estimator import Estimator
from .observables import operator_sum
from .programs import Programs

__all__ = ["PARTS", "gradients", "programs_of"]

PARTS = ("REAL", "IMAG", "COMPLEX")
"""Names of Qiskit's derivative types: of 2 <psi|O|d psi>, these parts."""

_MOST_STRINGS = 64
"""Pauli strings of different observables that are computed for every row of a batch, though it needs one of them."""


def programs_of(estimator: Any) -> Programs:
    """Those of an estimator of ours, so that gradients and values share plans, or new ones."""
    if estimator is None:
        estimator = Estimator()
    if not isinstance(estimator, Estimator):
        raise TypeError(
            f"estimator={type(estimator).__name__}: the adjoint method takes a qdist.interop.qiskit.Estimator, whose "
            "comm, device and dtype it shares, or None"
        )
    return estimator._programs


def gradients(
    programs: Programs,
    circuits: Sequence[Any],
    observables: Sequence[Any],
    values: Sequence[Any],
    parameters: Sequence[Sequence[Any]],
    part: str = "REAL",
) -> list[NDArray[Any]]:
    """For each k the derivatives of observables[k] after circuits[k] by parameters[k], at values[k] of all parameters.

    Raises StateError for circuits that measure, reset, branch or initialise, and CircuitError as ``from_qiskit``.
    """
    found: list[Any] = [None] * len(circuits)
    each = {id(circuit): circuit for circuit in circuits}
    places = {key: {p: k for k, p in enumerate(circuit.parameters)} for key, circuit in each.items()}
    chosen: dict[tuple[int, int], list[int]] = {}
    for (program, qubits), rows in _groups(programs, circuits).items():
        sums = _Sums(qubits)
        columns = programs.columns(program.circuit)
        theta = np.array([values[k] for k in rows], float)
        labels = [sums.label(observables[k]) for k in rows]
        by_ours = _batched(program, sums, labels, np.ascontiguousarray(theta[:, columns]), part)
        # A parameter that was cancelled out of all angles is none of ours.
        by_theirs = np.zeros(theta.shape, by_ours.dtype)
        by_theirs[:, columns] = by_ours
        for k, gradient in zip(rows, by_theirs):
            key = id(circuits[k]), id(parameters[k])
            if key not in chosen:
                chosen[key] = [places[key[0]][parameter] for parameter in parameters[k]]
            found[k] = gradient[chosen[key]]
    return found


def _groups(programs: Programs, circuits: Sequence[Any]) -> dict[tuple[Program, tuple[int, ...]], list[int]]:
    """Programs with the qubits they are on, and the numbers of their circuits: equal but for names of parameters."""
    same: dict[int, list[int]] = {}
    for k, circuit in enumerate(circuits):
        same.setdefault(id(circuit), []).append(k)
    groups: dict[tuple[Program, tuple[int, ...]], list[int]] = {}
    for rows in same.values():
        known = programs.read(circuits[rows[0]])
        groups.setdefault((known.program, tuple(known.qubits)), []).extend(rows)
    return groups


class _Sums:
    """Observables as Pauli sums on some qubits, each object once."""

    def __init__(self, qubits: Sequence[int]) -> None:
        self._qubits = qubits
        self._labels: dict[int, int] = {}
        self._kept: list[Any] = []  # So that no other object gets its id.
        self.sums: list[PauliSum] = []

    def label(self, observable: Any) -> int:
        if id(observable) not in self._labels:
            self._labels[id(observable)] = len(self.sums)
            self._kept.append(observable)
            self.sums.append(operator_sum(observable, self._qubits))
        return self._labels[id(observable)]


def _batched(
    program: Program, sums: _Sums, labels: Sequence[int], theta: NDArray[np.float64], part: str
) -> NDArray[Any]:
    """The gradient of sums[labels[k]] for each row k of parameters: one product with cotangents that choose it."""
    chosen = sorted(set(labels))
    if len(chosen) > 1 and sum(len(sums.sums[label]) for label in chosen) > _MOST_STRINGS:
        found = np.zeros(theta.shape, complex if part == "COMPLEX" else float)
        for label in chosen:
            rows = [k for k, other in enumerate(labels) if other == label]
            found[rows] = _batched(program, sums, [label] * len(rows), theta[rows], part)
        return found
    weights = [np.array([float(other == label) for other in labels]) for label in chosen]
    real = imaginary = np.zeros(theta.shape)
    if part != "IMAG":
        _, real = program.vjp([Expectation(sums.sums[label]) for label in chosen], theta, weights)
    if part != "REAL":
        _, imaginary = program.vjp([_Imaginary(sums.sums[label]) for label in chosen], theta, weights)
    return {"REAL": real, "IMAG": imaginary}[part] if part != "COMPLEX" else real + 1j * imaginary


@dataclass(frozen=True)
class _Imaginary(Output):
    """2 Im <psi|O|d psi> as the derivative of something: 2 Re <bra|d psi> with i O |psi> as the bra."""

    observable: PauliSum
    more_states = 1

    def value(self, ket: StateVector) -> float:
        return 0.0

    def pull_back(self, ket: StateVector, cotangent: Any, bra: StateVector) -> None:
        bra.local[:] += ket.dtype.type(1j * cotangent) * ket.apply_pauli_sum(self.observable).local
