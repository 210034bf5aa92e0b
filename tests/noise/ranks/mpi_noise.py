"""Noise on the ranks of this job, and alone: the same numbers for the same seed."""

import os

import numpy as np
import pytest

import qdist as qd
from qdist.backends.errors import StateError
from qdist.circuit.channels import Channel
from qdist.noise import jump_rows

COMM = qd.comm.init(os.environ.get("QDIST_TEST_BACKEND", "auto"), timeout=240)
N = 8
t = qd.ParameterVector("t", 3)
H = qd.PauliSum({"Z0 Z7": 0.8, "X0 X6": -0.5, "Y1 Y7": 0.6, "Z2": 0.2, "": 1.5})
VALUES = np.array([0.4, 1.1, -0.6])


def circuit(kind: str, n: int = N) -> qd.Circuit:
    made = qd.Circuit(n).h(range(n)).ry(t[0] * t[1], n - 1).cx(n - 1, 0)
    made.depolarizing(0.1, n - 1).depolarizing(0.2, 0, n - 1).rx(t[1], n - 2).cx(n - 2, 1).readout_error(0.1, 0)
    if kind == "kraus":
        made.amplitude_damping(0.2, [0, n - 1]).thermal_relaxation(50, 70, 20, 1)
    return made.rz(t[2], 1).ccx(0, 1, n - 1).ry(t[0], n - 1).bit_flip(0.1, n - 2)


@pytest.mark.parametrize("kind", ["pauli", "kraus"])
def test_trajectories(kind: str) -> None:
    made = circuit(kind)
    shared = qd.noise.compile(made, comm=COMM, dtype="complex128")
    alone = qd.noise.compile(made, dtype="complex128")
    for seed in range(2):
        found = [p.expectations([H, "Z7"], VALUES, shots=12, seed=seed) for p in (shared, alone)]
        np.testing.assert_allclose(found[0], found[1], atol=1e-10)
        np.testing.assert_allclose(found[0].standard_error, found[1].standard_error, atol=1e-10)
        assert np.array_equal(*(p.sample(12, VALUES, seed=seed) for p in (shared, alone)))
    assert shared.counts(12, VALUES, seed=3) == alone.counts(12, VALUES, seed=3)
    (a, x), (b, y) = (p.value_and_grad(H, VALUES, shots=4, seed=1) for p in (shared, alone))
    assert abs(a - b) < 1e-10
    np.testing.assert_allclose(x, y, atol=1e-10)


@pytest.mark.parametrize("kind", ["pauli", "kraus"])
def test_gates_under_outcomes(kind: str) -> None:
    made = qd.Circuit(N, 3).compose(circuit(kind)).measure([0, N - 1], [2, 0])
    with made.if_([0, 2], 3):
        made.rx(t[1], 2).bit_flip(0.2, 0).reset(N - 1)
    made.measure(0, 2).cx(0, N - 2)
    shared, alone = (qd.noise.compile(made, comm=comm, dtype="complex128") for comm in (COMM, None))
    assert shared.counts(12, VALUES, seed=3) == alone.counts(12, VALUES, seed=3)
    (a, x), (b, y) = (p.value_and_grad(H, VALUES, shots=4, seed=1) for p in (shared, alone))
    assert abs(a - b) < 1e-10
    np.testing.assert_allclose(x, y, atol=1e-10)


def test_states_too_large_for_rows() -> None:
    made = circuit("kraus", jump_rows.MOST_QUBITS + 1)
    found = [qd.noise.compile(made, comm=comm).sample(4, VALUES, seed=1).tolist() for comm in (COMM, None)]
    assert found[0] == found[1]


def test_without_a_seed_ranks_draw_the_same() -> None:
    program = qd.noise.compile(circuit("kraus"), comm=COMM)
    found = COMM.all_gather(np.array(float(program.expectation(H, VALUES, shots=3))))
    assert (found == found[0]).all()


def test_density_matrices() -> None:
    made = circuit("kraus", 5).reset(1)
    observable = qd.PauliSum({"Z0 Z4": 0.8, "X0 X3": -0.5, "Y1 Y4": 0.6})
    shared = qd.noise.compile(made, method="density_matrix", comm=COMM, dtype="complex128")
    alone = qd.noise.compile(made, method="density_matrix", dtype="complex128")
    np.testing.assert_allclose(shared.density_matrix(VALUES), alone.density_matrix(VALUES), atol=1e-13)
    (a, x), (b, y) = (p.value_and_grad(observable, VALUES) for p in (shared, alone))
    assert abs(a - b) < 1e-12
    np.testing.assert_allclose(x, y, atol=1e-12)
    assert np.array_equal(*(p.sample(50, VALUES, seed=2) for p in (shared, alone)))


@pytest.mark.skipif(COMM.size == 1, reason="one rank agrees with itself")
def test_ranks_with_other_noise_are_told_apart() -> None:
    # Frames are no part of what is planned: other probabilities would only show as ranks that wait for each other.
    made = qd.Circuit(N).h(0).bit_flip(0.1 if COMM.rank else 0.2, 0)
    with pytest.raises(StateError, match="another circuit"):
        qd.noise.compile(made, comm=COMM)
    with pytest.raises(StateError, match="another number of shots"):
        qd.noise.compile(qd.Circuit(N).bit_flip(0.1, 0), comm=COMM).expectation("Z0", shots=3 + COMM.rank, seed=1)


def test_channels_travel() -> None:
    sent = COMM.all_gather_object(qd.noise.depolarizing(0.1, 2))
    assert all(isinstance(one, Channel) and one == sent[0] for one in sent)
