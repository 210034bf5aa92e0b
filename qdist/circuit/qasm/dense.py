"""Gates and states given as arrays, as sequences of controlled one-qubit gates."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator
from itertools import pairwise
from typing import TypeAlias

import numpy as np

from ..errors import CircuitError
from ..gate import NAMED
from ..gates import GATES, Gate
from ..parameters import Angle

# A dense matrix on n qubits takes about 4**n gates, a state, a diagonal or a permutation about 2**n.
MAX_MATRIX_QUBITS = 7
MAX_VECTOR_QUBITS = 12
# What is smaller in modulus is taken for a rounding error.
_NEGLIGIBLE = 1e-15

# A gate, its angles and its qubits.
Step: TypeAlias = tuple[Gate, tuple[Angle, ...], tuple[int, ...]]


def unitary_steps(matrix: np.ndarray) -> list[Step]:
    """A unitary matrix as rotations between basis states that differ in one qubit, and a phase."""
    num_qubits = _width(matrix, MAX_MATRIX_QUBITS, "matrix")
    if num_qubits == 0:
        return [(GATES["gphase"], (cmath.phase(matrix[0, 0]),), ())]
    if num_qubits == 1:
        return [(NAMED["phased_u"], _phased_u(matrix), (0,))]
    matrix = matrix.copy()
    size = len(matrix)
    gray = [k ^ k >> 1 for k in range(size)]
    undone: list[Step] = []
    for column in range(size - 1):
        # Neighbours in a Gray code differ in one bit, so each rotation acts on one qubit under controls.
        for place in range(size - 1, column, -1):
            upper, lower = gray[place - 1], gray[place]
            a, b = matrix[upper, gray[column]], matrix[lower, gray[column]]
            length = math.hypot(abs(a), abs(b))
            last = place == column + 1
            if abs(b) < _NEGLIGIBLE and not (last and abs(a - 1) > _NEGLIGIBLE):
                continue
            # The lower row becomes zero in this column; the last rotation of a column leaves exactly 1 above.
            rotation = np.array([[a.conjugate(), b.conjugate()], [-b, a]]) / length
            matrix[[upper, lower]] = rotation @ matrix[[upper, lower]]
            undone.append(_two_level(rotation.conj().T, upper, lower, num_qubits))
    corner = gray[-1]
    phase = cmath.phase(matrix[corner, corner])
    steps = undone[::-1]
    if abs(phase) > _NEGLIGIBLE:
        gate = GATES["gphase"].controlled(num_qubits, corner)
        steps.insert(0, (gate, (phase,), tuple(range(num_qubits))))
    return steps


def diagonal_steps(diagonal: np.ndarray) -> list[Step]:
    """A diagonal as a rotation about the parity of each subset of the qubits."""
    num_qubits = _width(diagonal, MAX_VECTOR_QUBITS, "diagonal")
    phases = np.angle(diagonal).reshape((2,) * num_qubits)
    # The Walsh-Hadamard transform: phases = sum over subsets of weight * (-1)**parity.
    for axis in range(num_qubits):
        even, odd = np.split(phases, 2, axis=axis)
        phases = np.concatenate([even + odd, even - odd], axis=axis) / 2
    weights = phases.reshape(-1)
    steps: list[Step] = []
    for subset, weight in enumerate(weights.tolist()):
        if abs(weight) > _NEGLIGIBLE and subset == 0:
            steps.append((GATES["gphase"], (weight,), ()))
        elif abs(weight) > _NEGLIGIBLE:
            qubits = [q for q in range(num_qubits) if subset >> q & 1]
            ladder: list[Step] = [(GATES["cx"], (), (a, b)) for a, b in pairwise(qubits)]
            steps += [*ladder, (GATES["rz"], (-2 * weight,), (qubits[-1],)), *ladder[::-1]]
    return steps


def permutation_steps(permutation: np.ndarray) -> list[Step]:
    """A permutation of basis states as exchanges of two of them."""
    num_qubits = _width(permutation, MAX_VECTOR_QUBITS, "permutation")
    steps: list[Step] = []
    for first, second in _exchanges(permutation):
        different = [q for q in range(num_qubits) if (first ^ second) >> q & 1]
        target = different[0]
        # With the target as control, the two states come to differ in the target alone.
        fan: list[Step] = [(GATES["cx"], (), (target, q)) for q in different[1:]]
        state = first if not first >> target & 1 else second
        others = [q for q in range(num_qubits) if q != target]
        pattern = sum((state >> q & 1) << k for k, q in enumerate(others))
        gate = GATES["x"].controlled(num_qubits - 1, pattern)
        steps += [*fan, (gate, (), (*others, target)), *fan]
    return steps


def _exchanges(permutation: np.ndarray) -> Iterator[tuple[int, int]]:
    """Exchanges that, one after the other, take each i to permutation[i]."""
    done = np.zeros(len(permutation), dtype=bool)
    for start in range(len(permutation)):
        cycle = []
        place = start
        while not done[place]:
            done[place] = True
            cycle.append(place)
            place = int(permutation[place])
        for other in cycle[1:]:
            yield cycle[0], other


def state_steps(amplitudes: np.ndarray) -> list[Step]:
    """What takes |0...0> to a state given by its amplitudes: sizes by controlled rotations, then phases."""
    num_qubits = _width(amplitudes, MAX_VECTOR_QUBITS, "state")
    steps: list[Step] = []
    for target in reversed(range(num_qubits)):
        controls = tuple(range(target + 1, num_qubits))
        blocks = np.abs(amplitudes).reshape(1 << len(controls), 2, -1)
        for pattern, sizes in enumerate(np.linalg.norm(blocks, axis=2)):
            angle = 2 * math.atan2(sizes[1], sizes[0])
            if angle > _NEGLIGIBLE:
                gate = GATES["ry"].controlled(len(controls), pattern)
                steps.append((gate, (angle,), (*controls, target)))
    phases = np.where(np.abs(amplitudes) > _NEGLIGIBLE, np.exp(1j * np.angle(amplitudes)), 1)
    return steps + diagonal_steps(phases)


def _two_level(rotation: np.ndarray, upper: int, lower: int, num_qubits: int) -> Step:
    """A rotation of two basis states that differ in one qubit, as a gate on that qubit under controls."""
    target = (upper ^ lower).bit_length() - 1
    if upper >> target & 1:
        rotation = rotation[::-1, ::-1]
    others = [q for q in range(num_qubits) if q != target]
    pattern = sum((upper >> q & 1) << k for k, q in enumerate(others))
    gate = NAMED["phased_u"].controlled(num_qubits - 1, pattern)
    return gate, _phased_u(rotation), (*others, target)


def _phased_u(matrix: np.ndarray) -> tuple[float, float, float, float]:
    """The angles (theta, phi, lambda, gamma) of a one-qubit unitary e^{i gamma} u(theta, phi, lambda)."""
    theta = 2 * math.atan2(abs(matrix[1, 0]), abs(matrix[0, 0]))
    if abs(matrix[0, 0]) > abs(matrix[1, 0]):
        gamma = cmath.phase(matrix[0, 0])
        total = cmath.phase(matrix[1, 1]) - gamma
        phi = cmath.phase(matrix[1, 0]) - gamma if abs(matrix[1, 0]) > _NEGLIGIBLE else 0.0
        return theta, phi, total - phi, gamma
    if abs(matrix[0, 0]) > _NEGLIGIBLE:
        gamma = cmath.phase(matrix[0, 0])
    else:
        gamma = cmath.phase(-matrix[0, 1])
    return theta, cmath.phase(matrix[1, 0]) - gamma, cmath.phase(-matrix[0, 1]) - gamma, gamma


def _width(array: np.ndarray, limit: int, what: str) -> int:
    num_qubits = len(array).bit_length() - 1
    if num_qubits > limit:
        raise CircuitError(
            f"a {what} on {num_qubits} qubits would take thousands of gates in OpenQASM; "
            f"up to {limit} qubits are written"
        )
    return num_qubits
