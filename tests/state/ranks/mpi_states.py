"""The same state on the ranks of this job and in this process alone: run under mpirun by test_states_on_ranks.py."""

import numpy as np
import pytest

import qdist as qd
from qdist.plan import Layout
from qdist.state import StateVector

COMM = qd.comm.init()
N = 6


def random_ket() -> np.ndarray:
    rng = np.random.default_rng(1)
    ket = rng.normal(size=1 << N) + 1j * rng.normal(size=1 << N)
    return ket / np.linalg.norm(ket)


@pytest.fixture(params=["identity", "reversed"])
def pair(request: pytest.FixtureRequest) -> tuple[StateVector, StateVector]:
    """A state on all ranks, and the same alone."""
    layout = Layout(range(N)) if request.param == "identity" else Layout(range(N)[::-1])
    ket = random_ket()
    return StateVector.from_amplitudes(ket, comm=COMM, layout=layout), StateVector.from_amplitudes(ket)


def test_amplitudes_and_norms(pair) -> None:
    shared, alone = pair
    assert sum(COMM.all_gather_object(len(shared.local))) == 1 << N
    assert np.array_equal(shared.amplitudes(), alone.amplitudes())
    assert np.array_equal(shared.amplitudes([3, 60, 3]), alone.amplitudes([3, 60, 3]))
    assert shared.amplitude("101010") == alone.amplitude("101010")
    assert abs(shared.norm() - 1) < 1e-12
    assert abs(shared.inner(shared.copy()) - 1) < 1e-12


def test_basis_and_product_states() -> None:
    layout = Layout([3, 0, 5, 1, 2, 4])
    assert np.array_equal(StateVector.basis(N, 41, comm=COMM, layout=layout).amplitudes(), np.eye(1 << N)[41])
    factors = np.random.default_rng(2).normal(size=(N, 2))
    shared, alone = (StateVector.product(factors, "complex128", c, layout) for c in (COMM, None))
    np.testing.assert_allclose(shared.amplitudes(), alone.amplitudes(), atol=1e-14)


def test_probabilities_and_samples(pair) -> None:
    shared, alone = pair
    for qubits in (None, [0], [5], [4, 1, 5]):
        np.testing.assert_allclose(shared.probabilities(qubits), alone.probabilities(qubits), atol=1e-14)
    assert np.array_equal(shared.sample(2000, seed=3), alone.sample(2000, seed=3))
    unseeded = shared.sample(50)
    assert all(np.array_equal(unseeded, other) for other in COMM.all_gather_object(unseeded))


def test_collapse_and_measurement_agree_on_all_ranks(pair) -> None:
    shared, alone = pair
    assert shared.copy().collapse([5, 0], 2) == pytest.approx(alone.copy().collapse([5, 0], 2))
    assert shared.measure([2, 5], seed=9) == alone.measure([2, 5], seed=9)
    np.testing.assert_allclose(shared.amplitudes(), alone.amplitudes(), atol=1e-13)
    outcome = shared.measure()
    assert set(COMM.all_gather_object(outcome)) == {outcome}
    assert abs(abs(shared.amplitude(outcome)) - 1) < 1e-12


def test_observables_that_flip_close_qubits_only(pair) -> None:
    shared, alone = pair
    close = shared.layout.qubits[:3]
    terms = {f"X{close[0]} Y{close[2]}": 0.4, f"Y{close[1]}": -0.7, "Z0 Z1 Z2 Z3 Z4 Z5": 1.3, "Z5": 0.2, "Z0 Z5": 0.9}
    terms |= {f"X{close[0]} Z{shared.layout.qubits[5]}": 0.6}
    assert shared.expectation(terms) == pytest.approx(alone.expectation(terms), abs=1e-12)
    assert shared.variance(terms) == pytest.approx(alone.variance(terms), abs=1e-12)
    product = shared.apply_pauli_sum(terms)
    np.testing.assert_allclose(product.amplitudes(), alone.apply_pauli_sum(terms).amplitudes(), atol=1e-13)
