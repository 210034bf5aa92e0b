"""Neighbouring blocks that mix the same few rows of a tile run in one pass over it, and give what each alone does."""

from __future__ import annotations

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


@both
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("pairs", [3, 40])
def test_phases_of_bits_outside_of_the_tile(pairs: int, seed: int, dtype: str) -> None:
    """Products of few or of many bits inside and outside, of rows and of columns, between rotations; and gradients."""
    n, rng = 15, np.random.default_rng(seed)
    theta = qd.ParameterVector("t", 4)
    circuit = qd.Circuit(n).h(range(n))
    for layer in range(4):
        for _ in range(pairs):
            a, b = rng.permutation(n)[:2].tolist()
            circuit.rzz(theta[layer] * float(rng.normal()), a, b).cp(float(rng.normal()), b, a)
        circuit.rz(float(rng.normal()), int(rng.integers(n)))
        for q in rng.permutation(n)[:5].tolist():
            circuit.ry(float(rng.normal()) + theta[layer], q)
    values = rng.uniform(-1, 1, 4)
    check(circuit, dtype, values)
    observable = qd.PauliSum({"Z0 X1": 1.0, "Y13": 0.5, "Z2 X14": -0.7})
    _, gradient = qd.Program(circuit, dtype=dtype).value_and_grad(observable, values)
    expected = reference.gradient(circuit, observable, values)
    np.testing.assert_allclose(gradient, expected, atol=1e-4 if dtype == "complex64" else 1e-10)
