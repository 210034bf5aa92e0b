"""Neighbouring blocks that mix the same few rows of a tile run in one pass over it, and give what each alone does."""

from __future__ import annotations

from functools import cache, lru_cache
from typing import Any

import numpy as np
import pytest

import qdist as qd
from qdist.state import reference

N = 11
both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])


def check(circuit: qd.Circuit, dtype: str, values: np.ndarray | None = None) -> None:
    tolerance = 1e-12 if dtype == "complex128" else 2e-6
    given = values if values is not None else np.zeros(0)
    got = qd.Program(circuit, dtype=dtype).run(given).amplitudes()
    np.testing.assert_allclose(got, reference.state(circuit, given), atol=tolerance)


def rows(rng: np.random.Generator, count: int) -> list[int]:
    """Qubits, most of them above the lanes of any vector."""
    return [int(q) for q in rng.permutation(np.arange(3, N) if rng.random() < 0.8 else N)[:count]]


@both
@pytest.mark.parametrize("seed", range(12))
def test_any_order_of_rotations_matrices_and_phases(seed: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    circuit = qd.Circuit(N).h(range(N)).rz(0.3, range(N)).rx(0.4, range(N))
    for _ in range(60):
        a, b, c = rows(rng, 3)
        x, y, z = rng.uniform(-3, 3, 3)
        match rng.integers(9):
            case 0:
                circuit.rxx(x, a, b).ryy(y, a, b)
            case 1:
                circuit.rxx(x, a, b).ryy(x, a, b)  # leaves half of the amplitudes alone
            case 2:
                circuit.pauli_rotation(x, "XYZ", [a, b, c])
            case 3:
                circuit.pauli_rotation(x, "XXY", [a, b, c]).pauli_rotation(y, "YXX", [a, b, c])
            case 4:
                circuit.rzz(x, a, b).rz(y, c).cp(z, a, c)
            case 5:
                circuit.ry(x, a).ry(y, b).ry(z, c)
            case 6:
                circuit.rx(x, a).rx(y, b)
            case 7:
                circuit.u(x, y, z, a)
            case _:
                circuit.h(a).pauli_rotation(x, "X", [b])
    check(circuit, dtype)


@both
def test_flips_that_share_the_bit_of_a_matrix(dtype: str) -> None:
    """A matrix tells its rows apart by that bit, which the flip of a rotation changes too."""
    for a, b in ((6, 9), (9, 6), (4, 10), (5, 6)):
        circuit = qd.Circuit(N).h(range(N)).t(range(N)).ry(0.3, range(N))
        circuit.u(0.3, 0.2, 0.9, a).pauli_rotation(0.7, "XY", [a, b]).u(0.5, 0.1, 0.4, b).rxx(0.8, a, b)
        check(circuit, dtype)


@both
def test_other_values_of_a_program_that_has_run(dtype: str) -> None:
    """Angles decide which blocks drop their cosines, and how many amplitudes a rotation leaves alone."""
    theta = qd.ParameterVector("t", 8)
    circuit = qd.Circuit(N).h(range(N)).t(range(N))
    for q in range(3, N - 2):
        circuit.rxx(theta[0], q, q + 1).ryy(theta[1], q, q + 1).rzz(theta[2], q, q + 1)
        circuit.ry(theta[3], q).rz(theta[4], q + 1).rx(theta[5], q).u(*theta[5:8], q + 2)
    program = qd.Program(circuit, dtype=dtype)
    tolerance = 1e-12 if dtype == "complex128" else 2e-6
    rng = np.random.default_rng(1)
    cancelling, quarter = rng.uniform(-3, 3, 8), rng.uniform(-3, 3, 8)
    cancelling[1] = cancelling[0]
    quarter[[3, 5]] = np.pi
    for values in (rng.uniform(-3, 3, 8), cancelling, np.zeros(8), quarter):
        got = program.run(values).amplitudes()
        np.testing.assert_allclose(got, reference.state(circuit, values), atol=tolerance)


def undone(n: int, length: int, rng: np.random.Generator) -> qd.Circuit:
    """Rotations of equal flips with phases, matrices of one qubit and Hadamard gates between, some of them constant."""
    theta = iter(qd.ParameterVector("t", 8 * length))
    circuit = qd.Circuit(n).h(range(n)).ry(0.4, range(n)).rz(0.3, range(n))

    def angle() -> Any:
        return next(theta) if rng.random() < 0.7 else float(rng.uniform(-3, 3))

    for _ in range(length):
        a, b, c = (int(q) for q in rng.permutation(np.arange(3, n))[:3])
        match rng.integers(8):
            case 0 | 1:
                circuit.rxx(angle(), a, b).ryy(angle(), a, b).rzz(angle(), a, b).rz(angle(), a)
            case 2:
                circuit.pauli_rotation(angle(), "YX", [a, b]).pauli_rotation(angle(), "XY", [a, b]).rzz(angle(), b, c)
            case 3:
                circuit.pauli_rotation(angle(), "XXZZ", [a, b, c, (c + 1) % 3]).rz(angle(), b)
            case 4:
                circuit.ry(angle(), a).rzz(angle(), a, b).rx(angle(), b).rxx(angle(), a, c)
            case 5:
                circuit.h(a).rz(angle(), a).pauli_rotation(angle(), "X", [b]).h(a)
            case 6:
                circuit.xx_plus_yy(angle(), angle(), a, b).cp(angle(), a, c).cp(angle(), b, int(rng.integers(3)))
            case _:
                circuit.rzz(angle(), a, b).rxx(angle(), b, c).u(0.3, 0.8, -0.4, b).rzz(angle(), b, c).rxx(angle(), b, c)
    return circuit


@cache
def undone_gradients(n: int, seed: int) -> tuple[qd.Circuit, qd.PauliSum, list[tuple[Any, Any]]]:
    """A circuit, an observable, and the reference's gradient for two rows of values."""
    rng = np.random.default_rng(seed)
    circuit = undone(n, 14, rng)
    values = rng.uniform(-3, 3, circuit.num_parameters)
    values[rng.random(len(values)) < 0.1] = np.pi  # Rotations whose cosine cannot be left out.
    values[rng.random(len(values)) < 0.1] = 0.0
    observable = qd.PauliSum({"Z0 X4": 1.0, "Y7": 0.5, f"Z5 X{n - 1}": -0.7, "Z3 Z9": 0.4})
    rows = values, values[::-1].copy()
    return circuit, observable, [(given, reference.gradient(circuit, observable, given)) for given in rows]


@both
@pytest.mark.parametrize("n", [11, 13])
@pytest.mark.parametrize("seed", range(5))
def test_gradients_of_any_order_of_rotations_matrices_and_phases(seed: int, n: int, dtype: str) -> None:
    """In one tile and, with phases and signs of bits outside, in several."""
    circuit, observable, rows = undone_gradients(n, seed)
    program = qd.Program(circuit, dtype=dtype)
    tolerance = 1e-12 if dtype == "complex128" else 4e-6
    for given, wanted in rows:
        np.testing.assert_allclose(program.value_and_grad(observable, given)[1], wanted, atol=tolerance)


class Layers:
    """Layers of phases and rotations about Y, each by a parameter of its own, on the state of equal amplitudes.

    The reference would go through all amplitudes for each of hundreds of phases. In `kets` those of a layer are one
    diagonal: the sum of their angles, whose derivative is the sum of theirs.
    """

    def __init__(self, n: int, pairs: int, rng: np.random.Generator) -> None:
        self.bits = np.arange(1 << n) >> np.arange(n)[:, None] & 1
        self.phases: list[tuple[np.ndarray, np.ndarray]] = []  # Angles, and what the parameter is multiplied by.
        self.turns: list[list[tuple[float, int]]] = []
        self.circuit, theta = qd.Circuit(n).h(range(n)), qd.ParameterVector("t", 4)
        for parameter in theta:
            angles, factors = np.zeros((2, 1 << n))
            for _ in range(pairs):
                a, b = rng.permutation(n)[:2].tolist()
                factor, angle = rng.normal(size=2).tolist()
                self.circuit.rzz(parameter * factor, a, b).cp(angle, b, a)
                factors += factor * ((self.bits[a] ^ self.bits[b]) - 0.5)
                angles += angle * (self.bits[a] & self.bits[b])
            angle, q = float(rng.normal()), int(rng.integers(n))
            self.circuit.rz(angle, q)
            self.phases.append((angles + angle * (self.bits[q] - 0.5), factors))
            self.turns.append([(float(rng.normal()), q) for q in rng.permutation(n)[:5].tolist()])
            for angle, q in self.turns[-1]:
                self.circuit.ry(angle + parameter, q)

    def kets(self, values: np.ndarray) -> np.ndarray:
        """The state, and behind it its derivatives by the parameters."""
        size = self.bits.shape[1]
        kets = np.zeros((1 + len(values), size), complex)
        kets[0] = size**-0.5
        for layer, (value, (angles, factors), turns) in enumerate(zip(values, self.phases, self.turns, strict=True)):
            kets *= np.exp(1j * (angles + value * factors))
            kets[1 + layer] += 1j * factors * kets[0]
            for angle, q in turns:
                # exp(-i a Y / 2), where -i Y takes |0> to |1> and |1> to -|0>.
                partner, sign = np.arange(size) ^ 1 << q, 2 * self.bits[q] - 1
                half = (angle + value) / 2
                kets = np.cos(half) * kets + np.sin(half) * sign * kets[:, partner]
                kets[1 + layer] += 0.5 * sign * kets[0, partner]
        return kets


FAR = qd.PauliSum({"Z0 X1": 1.0, "Y13": 0.5, "Z2 X14": -0.7})


@lru_cache(maxsize=1)
def layers_of(pairs: int, seed: int) -> tuple[qd.Circuit, np.ndarray, np.ndarray, np.ndarray]:
    """A circuit of 15 qubits, values of its parameters, its state and the gradient of FAR: for both dtypes."""
    rng = np.random.default_rng(seed)
    layers = Layers(15, pairs, rng)
    values = rng.uniform(-1, 1, 4)
    ket, *changes = layers.kets(values)
    # The mean is quadratic in the state, so this difference is exact.
    means = [[reference.expectation(ket + sign * change, FAR) for sign in (1, -1)] for change in changes]
    return layers.circuit, values, ket, np.subtract(*np.transpose(means)) / 2


@both
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("pairs", [3, 40])
def test_phases_of_bits_outside_of_the_tile(pairs: int, seed: int, dtype: str) -> None:
    """Products of few or of many bits inside and outside, of rows and of columns, between rotations; and gradients."""
    circuit, values, ket, expected = layers_of(pairs, seed)
    got = qd.Program(circuit, dtype=dtype).run(values).amplitudes()
    np.testing.assert_allclose(got, ket, atol=1e-12 if dtype == "complex128" else 2e-6)
    _, gradient = qd.Program(circuit, dtype=dtype).value_and_grad(FAR, values)
    np.testing.assert_allclose(gradient, expected, atol=1e-4 if dtype == "complex64" else 1e-10)


def test_layers_of_phases_and_rotations_are_those_of_the_reference() -> None:
    layers, values = Layers(7, 9, np.random.default_rng(7)), np.array([0.3, -0.8, 1.1, 0.4])
    ket, *changes = layers.kets(values)
    np.testing.assert_allclose(ket, reference.state(layers.circuit, values), atol=1e-13)
    np.testing.assert_allclose(np.transpose(changes), reference.state_jacobian(layers.circuit, values), atol=1e-12)


def inside_vectors(n: int, length: int, rng: np.random.Generator) -> qd.Circuit:
    """Gates of single qubits, most of the lowest, which lie inside a vector, and phases between."""
    theta = iter(qd.ParameterVector("t", 2 * length))
    circuit = qd.Circuit(n).h(range(n)).rz(0.3, range(n))

    def angle() -> Any:
        return next(theta) if rng.random() < 0.7 else float(rng.uniform(-3, 3))

    for _ in range(length):
        a, b = (int(q) for q in rng.permutation(n)[:2])
        a = a if rng.random() < 0.3 else a % min(n, 4)
        match rng.integers(7):
            case 0 | 1:
                circuit.rx(angle(), a)
            case 2:
                circuit.ry(angle(), a)
            case 3:
                # A reflection, whose derivatives are a rotation's.
                circuit.h(a).ry(angle(), a)
            case 4:
                circuit.rx(angle(), a).rx(0.4, a)
            case 5:
                circuit.sx(a).rz(angle(), a)
            case _:
                circuit.rzz(angle(), min(a, b), max(a, b)) if a != b else circuit.h(a)
    return circuit


@both
@pytest.mark.parametrize("n", [2, 3, 4, 5, 11, 13])
@pytest.mark.parametrize("seed", range(3))
def test_gates_inside_a_vector(seed: int, n: int, dtype: str) -> None:
    rng = np.random.default_rng(seed)
    circuit = inside_vectors(n, 40, rng)
    values = rng.uniform(-3, 3, circuit.num_parameters)
    values[rng.random(len(values)) < 0.1] = np.pi
    observable = qd.PauliSum({"Z0 X1": 1.0, "Y0": 0.5, f"X{n - 1}": -0.7, "Y1": 0.4})
    program = qd.Program(circuit, dtype=dtype)
    np.testing.assert_allclose(
        program.run(values).amplitudes(),
        reference.state(circuit, values),
        atol=1e-13 if dtype == "complex128" else 2e-6,
    )
    got = program.value_and_grad(observable, values)[1]
    wanted = reference.gradient(circuit, observable, values)
    np.testing.assert_allclose(got, wanted, atol=1e-12 if dtype == "complex128" else 4e-6)
