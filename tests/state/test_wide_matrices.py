"""Matrices of three and more qubits, wherever these lie in a vector, a tile and the state, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

import qdist as qd
from qdist.state import reference

both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])


def check(circuit: qd.Circuit, dtype: str) -> None:
    tolerance = 1e-12 if dtype == "complex128" else 2e-6
    got = qd.Program(circuit, dtype=dtype).run().amplitudes()
    np.testing.assert_allclose(got, reference.state(circuit, np.zeros(0)), atol=tolerance)


def unitary(rng: np.random.Generator, size: int, real: bool = False) -> np.ndarray:
    entries = rng.normal(size=(size, size)) + (0 if real else 1j * rng.normal(size=(size, size)))
    return np.linalg.qr(entries)[0]


@both
@pytest.mark.parametrize("n", [3, 4, 5, 6, 9, 13, 14])
def test_anywhere(n: int, dtype: str) -> None:
    rng = np.random.default_rng(n)
    circuit = qd.Circuit(n).ry(0.3, range(n)).rz(0.4, range(n))
    for k in range(12):
        width = int(rng.integers(3, min(n, 5) + 1))
        qubits = [int(q) for q in rng.permutation(n)[:width]]
        circuit.unitary(unitary(rng, 1 << width, real=k % 4 == 0), qubits)
        circuit.t(int(rng.integers(n)))
    check(circuit, dtype)


@both
@pytest.mark.parametrize("lowest", range(6))
def test_neighbours_from_the_lowest_bits_up(lowest: int, dtype: str) -> None:
    rng = np.random.default_rng(lowest)
    circuit = qd.Circuit(12).ry(0.3, range(12)).rz(0.4, range(12))
    circuit.unitary(unitary(rng, 8), [lowest, lowest + 1, lowest + 2])
    circuit.unitary(unitary(rng, 16), [lowest + 3, lowest, lowest + 2, lowest + 1])
    check(circuit, dtype)


@both
def test_under_controls(dtype: str) -> None:
    rng = np.random.default_rng(0)
    n = 12
    circuit = qd.Circuit(n).ry(0.3, range(n)).rz(0.4, range(n))
    for _ in range(8):
        a, b, c, d, e = (int(q) for q in rng.permutation(n)[:5])
        inner = qd.Circuit(3).unitary(unitary(rng, 8), [0, 1, 2]).to_gate("block")
        circuit.append(inner.controlled(2, ctrl_state=int(rng.integers(4))), [a, b, c, d, e])
    check(circuit, dtype)
