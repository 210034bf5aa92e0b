"""Pauli rotations that flip the same qubits, in one block: states and gradients against the dense reference, wherever
flips and signs are in a tile, and which amplitudes are left alone."""

from typing import Any

import numpy as np
import pytest
from excitations import DOUBLE
from states import random_sum

import qdist as qd
from qdist.circuit import pauli_rotation_gate
from qdist.native import kernels
from qdist.plan.levels import Level
from qdist.program.adjoint import sweep_back
from qdist.state import reference

both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])
N = 9
"""Gradients of fewer qubits go as rows."""

"""The strings of a double excitation, and their signs."""


def tiles(dtype: str, more: int) -> list[Level]:
    """Tiles of one vector and ``more`` bits."""
    lanes = kernels.lane_bits[dtype == "complex128"]
    return [Level("cache", min(N, lanes + more), lanes)]


def placements(dtype: str) -> list[list[Level] | None]:
    on_gpu = qd.Program.__init__.__kwdefaults__["device"] == "cuda"
    return [None] if on_gpu else [None, tiles(dtype, 4), tiles(dtype, 5)]


def start(seed: int = 3) -> qd.Circuit:
    rng = np.random.default_rng(seed)
    circuit = qd.Circuit(N)
    for q in range(N):
        circuit.u(*rng.uniform(-3, 3, 3), q)
    return circuit


def blocks_of(circuit: qd.Circuit) -> list[Any]:
    plan = qd.Program(circuit, device="cpu").plan
    return [block for block in plan.blocks if block.kind == "rotation"]


def check(circuit: qd.Circuit, dtype: str, values: np.ndarray | None = None, seed: int = 0) -> None:
    """State, value and gradient are the reference's, and the sweep ends where the run began."""
    if values is None:
        values = np.random.default_rng(seed).uniform(-3, 3, circuit.num_parameters)
    observable = random_sum(N, 6, seed) + qd.PauliSum({f"{'XYZ'[q % 3]}{q}": 1.0 for q in range(N)})
    scale = np.abs(observable.coefficients).sum()
    tolerance = scale * (1e-5 if dtype == "complex64" else 1e-13)
    state = reference.state(circuit, values)
    gradient = reference.gradient(circuit, observable, values)
    for levels in placements(dtype):
        program = qd.Program(circuit, dtype=dtype, levels=levels)
        ket = program.run(values)
        np.testing.assert_allclose(ket.amplitudes(), state, atol=tolerance)
        np.testing.assert_allclose(program.value_and_grad(observable, values)[1], gradient, atol=tolerance)
        bra = ket.apply_pauli_sum(observable)
        again = program.affine.transposed(sweep_back(program, ket, bra, recover=True))
        np.testing.assert_allclose(again, gradient, atol=tolerance)
        np.testing.assert_allclose(ket.amplitudes(), np.eye(1, 1 << N)[0], atol=tolerance)


def places(rng: np.random.Generator, count: int) -> list[int]:
    return [int(q) for q in rng.permutation(N)[:count]]


@both
def test_double_excitations_anywhere(dtype: str) -> None:
    rng = np.random.default_rng(5)
    theta = qd.ParameterVector("t", 10)
    circuit = start()
    for k, angle in enumerate(theta):
        flips, (z,) = np.split(rng.permutation(N)[:5], [4])
        for letters, sign in DOUBLE.items():
            circuit.pauli_rotation(angle * (sign / 4), letters + "Z" * (k % 2), [*map(int, flips), int(z)][: 4 + k % 2])
    assert [len(block.operations) for block in blocks_of(circuit)] == [8] * 10
    check(circuit, dtype)


@both
@pytest.mark.parametrize("flips", range(5))
def test_any_strings_with_the_same_flips(flips: int, dtype: str) -> None:
    """Of an even number of Ys and of an odd one, with angles of their own and of others, with and without constants."""
    rng = np.random.default_rng(flips)
    theta = qd.ParameterVector("t", 6)
    circuit = start()
    for _ in range(8):
        qubits = places(rng, 6)
        for _ in range(rng.integers(1, 7)):
            letters = "".join(rng.choice(list("XY"), flips)) + "".join(rng.choice(list("IZ"), 6 - flips))
            angle = theta[int(rng.integers(6))] * float(rng.choice([1, -0.5, 0.25])) + float(rng.choice([0, 0.3]))
            circuit.pauli_rotation(angle if rng.random() < 0.8 else 0.7, letters, qubits)
        circuit.h(int(rng.integers(N)))
    assert max(len(block.operations) for block in blocks_of(circuit)) > 2
    check(circuit, dtype)


@both
def test_rotations_under_controls(dtype: str) -> None:
    rng = np.random.default_rng(9)
    theta = qd.ParameterVector("t", 12)
    circuit = start()
    for k in range(0, 12, 2):
        qubits = places(rng, 5)
        for letters, angle in (("XYZ", theta[k]), ("YXZ", theta[k + 1])):
            gate = pauli_rotation_gate(letters).controlled(2, k // 2 % 4)
            circuit.append(gate, qubits, [angle])
    assert all(len(block.operations) == 2 for block in blocks_of(circuit))
    check(circuit, dtype)


@both
def test_derivatives_at_angles_that_are_zero_or_cancel(dtype: str) -> None:
    """A pattern whose angle is zero now is not one whose angle no parameter changes."""
    a, b, c = qd.ParameterVector("t", 3)
    circuit = start().pauli_rotation(a, "XX", [0, 6]).pauli_rotation(b, "YY", [0, 6])
    circuit.pauli_rotation(c, "XZY", [7, 3, 2]).pauli_rotation(-c, "YIX", [7, 3, 2]).rx(0.3, 7)
    for values in ([0.0, 0.0, 0.0], [0.8, 0.8, 0.5], [0.8, -0.8, 0.0]):
        check(circuit, dtype, np.array(values))


@both
def test_rotations_of_more_parities_than_a_block_has(dtype: str) -> None:
    theta = qd.ParameterVector("t", 16)
    circuit = start()
    for k in range(8):
        z = [q for q in range(1, 9) if q != k + 1][k % 3 :: 2]
        circuit.pauli_rotation(theta[k], "Z" * len(z) + "X", [0, *z])
        circuit.pauli_rotation(theta[8 + k], "ZX", [0, k + 1])
    sizes = [len(block.operations) for block in blocks_of(circuit)]
    assert sum(sizes) == 16
    assert 1 < len(sizes) < 8
    check(circuit, dtype)


@both
def test_xx_and_yy_of_a_pair_are_one_rotation(dtype: str) -> None:
    theta = qd.ParameterVector("t", 3 * N)
    circuit = start()
    for q in range(N):
        pair = (q, (q + 4) % N)
        circuit.rxx(theta[3 * q], *pair).ryy(theta[3 * q + 1], *pair).rzz(theta[3 * q + 2], *pair)
    assert [len(block.operations) for block in blocks_of(circuit)] == [2] * N
    check(circuit, dtype)


def test_patterns_whose_angles_cancel_are_left_alone() -> None:
    """A double excitation changes two of 16 patterns; the other amplitudes are not even rounded."""
    t = qd.ParameterVector("t", 1)[0]
    circuit = qd.Circuit(N)
    for letters, sign in DOUBLE.items():
        circuit.pauli_rotation(t * (sign / 4), letters, [0, 1, 6, 7])
    initial = np.random.default_rng(0).normal(size=(1 << N, 2)) @ [1, 1j]
    initial = (initial / np.linalg.norm(initial)).astype(np.complex64)
    program = qd.Program(circuit, dtype="complex64", device="cpu")
    after = program.run([0.7], initial=qd.StateVector.from_amplitudes(initial, device="cpu")).amplitudes()
    pattern = sum((np.arange(1 << N) >> q & 1) << k for k, q in enumerate((0, 1, 6, 7)))
    np.testing.assert_array_equal(np.unique(pattern[after != initial]), [0b0011, 0b1100])
