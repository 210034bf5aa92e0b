"""Gradients by other means than the adjoint sweep, as checks of it: shifted parameters and finite differences.

Both run the program several times for every angle or parameter, and so are slow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.errors import StateError
from qdist.circuit.binding import flat_values
from qdist.circuit.data_gates import PauliRotationGate
from qdist.circuit.gate import Gate
from qdist.program.runner import Runner
from qdist.progress import counted
from qdist.state.measuring.expectation import Observable
from qdist.state.statevector import StateVector

__all__ = ["METHODS", "finite_difference", "parameter_shift", "shifted_gradient"]

_STEP = {np.dtype(np.complex64): 0.03, np.dtype(np.complex128): 1e-3}
"""Where rounding of a state and the next order of the difference weigh about the same."""


def finite_difference(program: Runner, observable: Observable, params: Any) -> tuple[float, NDArray[np.float64]]:
    """The expectation value, and central differences of fourth order by each parameter."""
    theta = _values(program, params)
    step = _STEP[program.dtype]
    gradient = np.zeros(len(theta))
    for k in counted("parameters", range(len(theta)), program.comm):
        near, far = (_difference(program, observable, theta, k, m * step) for m in (1, 2))
        gradient[k] = (8 * near - far) / (12 * step)
    return program.evolved(theta).expectation(observable), gradient


def parameter_shift(program: Runner, observable: Observable, params: Any) -> tuple[float, NDArray[np.float64]]:
    """The expectation value, and its exact derivatives from runs with shifted angles.

    As a function of one angle the value is a trigonometric polynomial; with R frequencies, multiples of one, 2 R runs
    at equidistant shifts give its derivative (Wierichs et al., arXiv 2107.12390).
    """
    theta = _values(program, params)
    gradient = shifted_gradient(program, theta, lambda state: state.expectation(observable))
    return program.evolved(theta).expectation(observable), gradient


def shifted_gradient(
    program: Runner, theta: NDArray[np.float64], value: Callable[[StateVector], float]
) -> NDArray[np.float64]:
    """The derivatives by all parameters of what is read from the state, from runs with shifted angles."""
    angles = program.affine(program.source.extended(theta))
    by_angle = np.zeros(len(angles))
    trainable = set(program.affine.slots.tolist())
    slot = 0
    for instruction in counted("gates", list(program.circuit), program.comm):
        for k in range(len(instruction.params)):
            if slot in trainable:
                unit, count = _frequencies(instruction.gate, k)
                by_angle[slot] = _shifted(program, value, angles, slot, unit, count)
            slot += 1
    return program.source.pulled_back(theta, program.affine.transposed(by_angle))


METHODS: dict[str, Callable[..., tuple[float, NDArray[np.float64]]]] = {
    "parameter-shift": parameter_shift,
    "finite-difference": finite_difference,
}


def _values(program: Runner, params: Any) -> NDArray[np.float64]:
    if params is None and program.circuit.num_parameters:
        raise StateError("gradients by shifts or differences need the parameters' values: give params")
    return flat_values(program.circuit.parameters, [] if params is None else params)


def _difference(program: Runner, observable: Observable, theta: NDArray[Any], k: int, step: float) -> float:
    values = []
    for sign in (1, -1):
        shifted = theta.copy()
        shifted[k] += sign * step
        values.append(program.evolved(shifted).expectation(observable))
    return values[0] - values[1]


def _shifted(
    program: Runner,
    value: Callable[[StateVector], float],
    angles: NDArray[Any],
    slot: int,
    unit: float,
    count: int,
) -> float:
    """The derivative by one angle, in which the value has frequencies unit, 2 unit, ..., count * unit."""
    total = 0.0
    for m in range(1, 2 * count + 1):
        x = (2 * m - 1) * np.pi / (2 * count)
        shifted = angles.copy()
        shifted[slot] += x / unit
        weight = (-1) ** (m - 1) / (4 * count * np.sin(x / 2) ** 2)
        program.bind_angles(shifted)
        total += weight * value(program.evolved())
    return unit * total


def _frequencies(gate: Gate, k: int) -> tuple[float, int]:
    """The unit and the number of frequencies that an expectation value has in angle k of a gate."""
    found = {-0.5, 0.5} if isinstance(gate.base, PauliRotationGate) else _matrix_frequencies(gate.base, k)
    if gate.num_controls:
        found.add(0.0)
    differences = {abs(a - b) for a in found for b in found} - {0.0}
    if not differences:
        return 1.0, 1
    unit = 0.5 if any(d % 1 for d in differences) else 1.0
    return unit, round(max(differences) / unit)


def _matrix_frequencies(gate: Gate, k: int) -> set[float]:
    """The frequencies in angle k of a gate's matrix: multiples of 1/2, none above 3/2 in the gate table."""
    samples = 8
    matrices = []
    for j in range(samples):
        angles = [0.3 + 0.4 * i for i in range(gate.num_params)]
        angles[k] = 4 * np.pi * j / samples
        matrices.append(gate.matrix(*angles))
    parts = np.abs(np.fft.fft(np.array(matrices), axis=0)).max(axis=(1, 2))
    frequencies = np.fft.fftfreq(samples, d=1 / samples) / 2
    return {float(f) for f, part in zip(frequencies, parts) if part > 1e-9}
