"""Layers of rotations and of phases over graphs, which kernels run several at a time: states and gradients against the
dense reference, with tiles that hold all of the state or little of it."""

from itertools import combinations

import numpy as np
import pytest
from states import random_sum

import qdist as qd
from qdist.native import kernels
from qdist.plan.levels import Level
from qdist.program.adjoint import sweep_back
from qdist.state import reference

both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])
N = 9


def check(circuit: qd.Circuit, dtype: str, values: np.ndarray | None = None) -> None:
    if values is None:
        values = np.random.default_rng(1).uniform(-3, 3, circuit.num_parameters)
    observable = random_sum(N, 6, 0) + qd.PauliSum({f"{'XYZ'[q % 3]}{q}": 1.0 for q in range(N)})
    tolerance = np.abs(observable.coefficients).sum() * (1e-5 if dtype == "complex64" else 1e-13)
    state = reference.state(circuit, values)
    gradient = reference.gradient(circuit, observable, values)
    lanes = kernels.lane_bits[dtype == "complex128"]
    on_gpu = qd.Program.__init__.__kwdefaults__["device"] == "cuda"
    for more in (None,) if on_gpu else (None, 2, 4):
        levels = None if more is None else [Level("cache", min(N, lanes + more), lanes)]
        program = qd.Program(circuit, dtype=dtype, levels=levels)
        ket = program.run(values)
        np.testing.assert_allclose(ket.amplitudes(), state, atol=tolerance)
        np.testing.assert_allclose(program.value_and_grad(observable, values)[1], gradient, atol=tolerance)
        again = program.affine.transposed(sweep_back(program, ket, ket.apply_pauli_sum(observable), recover=True))
        np.testing.assert_allclose(again, gradient, atol=tolerance)
        np.testing.assert_allclose(ket.amplitudes(), np.eye(1, 1 << N)[0], atol=tolerance)


@both
@pytest.mark.parametrize("gates", [("rx",), ("rx", "ry"), ("rx", "rx", "cx", "rx"), ("cx", "rx", "rz")])
def test_layers_of_rotations(gates: tuple[str, ...], dtype: str) -> None:
    """The first layer acts on |0>: once it is undone, half of the tile holds nothing that is needed."""
    theta = iter(qd.ParameterVector("t", 3 * 4 * N))
    circuit = qd.Circuit(N)
    for layer in range(3):
        for name in gates:
            for q in range(N):
                if name == "cx":
                    circuit.cx(q, (q + 2) % N)
                else:
                    getattr(circuit, name)(next(theta) if (q + layer) % 4 else 0.4, q)
    check(circuit, dtype)


@both
def test_derivatives_of_rotations_by_nothing_and_by_half_a_turn(dtype: str) -> None:
    """The matrices of RX and RY are the same where the angle is zero; their derivatives are not."""
    theta = qd.ParameterVector("t", 2 * N)
    circuit = qd.Circuit(N).h(range(N)).t(range(N))
    for q in range(N):
        circuit.rx(theta[q], q).cz(q, (q + 1) % N).ry(theta[N + q], q)
    for angle in (0.0, np.pi, 1e-7):
        check(circuit, dtype, np.full(2 * N, angle))


@both
@pytest.mark.parametrize("seed", range(6))
def test_changes_of_index_anywhere(seed: int, dtype: str) -> None:
    """Products of X, CX and SWAP whose bits are inside of a vector, above, and outside of a tile."""
    rng = np.random.default_rng(seed)
    theta = iter(qd.ParameterVector("t", 6 * N))
    circuit = qd.Circuit(N)
    for layer in range(3):
        for q in range(N):
            circuit.ry(next(theta), q).rz(next(theta), q)
        for _ in range(4 + 6 * layer):
            a, b = (int(q) for q in rng.permutation(N)[:2])
            match rng.integers(5):
                case 0:
                    circuit.swap(a, b)
                case 1:
                    circuit.x(a)
                case _:
                    circuit.cx(a, b)
    check(circuit, dtype)


@both
def test_phases_over_all_pairs(dtype: str) -> None:
    """Pairs have bits inside of a tile, outside, or one of each; every edge and every qubit has an angle of its own."""
    edges = list(combinations(range(N), 2))
    theta = iter(qd.ParameterVector("t", 3 * len(edges)))
    circuit = qd.Circuit(N).h(range(N))
    for layer in range(2):
        for a, b in edges:
            if layer:
                circuit.cp(next(theta), b, a)
            else:
                circuit.rzz(next(theta), a, b)
        for q in range(N):
            circuit.rz(next(theta), q).rx(0.3 + q, q)
    check(circuit, dtype)


@both
def test_phases_of_far_bits_alone(dtype: str) -> None:
    """A few edges, so that tiles have phases of rows alone, of columns alone, or of none of their own bits."""
    for edges in ([(7, 8)], [(0, 8)], [(6, 8)], [(8, 8)], [(0, 1), (5, 8)], [(4, 5), (0, 7), (7, 8)]):
        theta = iter(qd.ParameterVector("t", len(edges)))
        circuit = qd.Circuit(N).ry(0.4, range(N))
        for a, b in edges:
            if a == b:
                circuit.rz(next(theta), a)
            else:
                circuit.rzz(next(theta), a, b)
        check(circuit.rx(0.7, 0).rx(0.2, 1), dtype)
