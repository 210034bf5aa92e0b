"""Observables on the ranks of this job: the values of one process, with few exchanges; run on every rank at once."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

import qdist as qd
from qdist.backends.cpu.observable import value_as_product
from qdist.backends.errors import StateError
from qdist.circuit import PauliSum
from qdist.plan import Layout
from qdist.plan.observables.strings import Strings
from qdist.state import StateVector
from qdist.state.measuring.expectation import apply_and_expect
from qdist.state.moves import exchange

sys.path.append(str(Path(__file__).parents[1]))
from states import TOLERANCE, applied, molecule_like, random_ket, random_layout, random_sum

COMM = qd.comm.init(os.environ.get("QDIST_TEST_BACKEND", "auto"), timeout=120)


def heisenberg(n: int) -> PauliSum:
    return PauliSum({f"{p}{q} {p}{q + 1}": 0.5 + q for q in range(n - 1) for p in "XYZ"})


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_random_sums_under_random_layouts(dtype: str) -> None:
    for seed in range(4):
        n = 5 + seed
        observable = random_sum(n, 12, seed, flips=5) + PauliSum({"X" * n: 0.7, "Y" * n: -0.3, "Z" * n: 0.2})
        ket, layout = random_ket(n, seed), random_layout(n, seed)
        state = StateVector.from_amplitudes(ket, dtype, COMM, layout)
        product = applied(observable, ket)
        tolerance = TOLERANCE[dtype] * (1 + np.abs(observable.coefficients).sum())
        mean = np.vdot(ket, product).real
        out = state.apply_pauli_sum(observable)
        assert state.layout == out.layout == layout
        np.testing.assert_allclose(out.amplitudes(), product, atol=tolerance)
        assert state.expectation(observable) == pytest.approx(mean, abs=tolerance)
        # What is asked next is asked in whatever layout that left.
        np.testing.assert_allclose(state.amplitudes(), ket, atol=TOLERANCE[dtype])
        variance = np.vdot(product, product).real - mean**2
        assert state.variance(observable) == pytest.approx(variance, rel=10 * tolerance)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_the_value_of_one_observable_in_large_shards(dtype: str) -> None:
    """It comes the way a product does, where there are few flips; together with another observable it does not."""
    n = 14 + (COMM.size - 1).bit_length()
    observable = heisenberg(n) + random_sum(n, 12, flips=4)
    ket = random_ket(n, 1)
    state = StateVector.from_amplitudes(ket, dtype, COMM)
    assert value_as_product(Strings.of([observable], True), state.shard_bits, state.dtype)
    tolerance = TOLERANCE[dtype] * (1 + np.abs(observable.coefficients).sum())
    mean = np.vdot(ket, applied(observable, ket)).real
    assert state.expectation(observable) == pytest.approx(mean, abs=tolerance)
    assert state.expectations([observable, "Z0"])[0] == pytest.approx(mean, abs=tolerance)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_a_molecule_with_flips_on_the_bits_of_ranks(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """H2O with other integrals: excitations between any orbitals, signs of those between them on every rank."""
    monkeypatch.setattr("qdist.backends.cpu.observable._LEAST_BITS", 8)
    observable, ket = molecule_like((0, 0, 1, 0, 2, 0, 1)), random_ket(14, 2)
    state = StateVector.from_amplitudes(ket, dtype, COMM, random_layout(14, 3))
    product = applied(observable, ket)
    tolerance = TOLERANCE[dtype] * (1 + np.abs(observable.coefficients).sum())
    assert state.expectation(observable) == pytest.approx(np.vdot(ket, product).real, abs=tolerance)
    np.testing.assert_allclose(state.apply_pauli_sum(observable).amplitudes(), product, atol=tolerance)


def test_values_and_products_in_the_same_passes() -> None:
    for seed in range(3):
        n = 6 + seed
        observables = [heisenberg(n), PauliSum({"Z0": 1.0}), random_sum(n, 5, seed), PauliSum({"Y" * n: 1.0})]
        cotangents = np.array([0.5, -2.0, 0.0, 1.5])
        ket, layout = random_ket(n, seed), random_layout(n, seed)
        state = StateVector.from_amplitudes(ket, comm=COMM, layout=layout)
        out = StateVector.from_amplitudes(random_ket(n, seed + 1), comm=COMM)
        values = apply_and_expect(state, observables, cotangents, out)
        products = [applied(o, ket) for o in observables]
        np.testing.assert_allclose(values, [np.vdot(ket, p).real for p in products], atol=1e-11)
        np.testing.assert_allclose(out.amplitudes(), sum(c * p for c, p in zip(cotangents, products)), atol=1e-11)
        assert state.layout == out.layout == layout
        np.testing.assert_array_equal(state.amplitudes(), ket)
    with pytest.raises(StateError, match=r"4 observables need as many cotangents; got shape \(2,\)"):
        apply_and_expect(state, observables, [1.0, 2.0], out)


def test_matrices_on_far_qubits() -> None:
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(8, 8)) + 1j * rng.normal(size=(8, 8))
    matrix += matrix.conj().T
    ket = random_ket(8)
    shared, alone = (StateVector.from_amplitudes(ket, comm=c) for c in (COMM, None))
    for qubits in ([0, 6, 7], [7, 5, 6], [1, 2, 0]):
        observable = (matrix, qubits)
        assert shared.expectation(observable) == pytest.approx(alone.expectation(observable), abs=1e-11)


def test_a_chain_takes_one_exchange() -> None:
    """The layout left by the circuit serves all pairs but those with a far qubit, and one other layout serves these."""
    n = 12
    state = StateVector.from_amplitudes(random_ket(n), comm=COMM)
    want = np.vdot(random_ket(n), applied(heisenberg(n), random_ket(n))).real
    assert state.expectation(heisenberg(n)) == pytest.approx(want, abs=1e-10)
    assert state.traffic.exchanges == (COMM.size > 1)
    # Once there, it is one back; signs on far qubits are free.
    assert state.expectation(heisenberg(n)) == pytest.approx(want, abs=1e-10)
    assert state.traffic.exchanges == 2 * (COMM.size > 1)
    state.expectation({"Z0 Z11 Z10": 1.0, f"X{state.layout.qubits[0]} Z{state.layout.qubits[-1]}": 2.0})
    assert state.traffic.exchanges == 2 * (COMM.size > 1)


def test_a_product_takes_three_exchanges_of_one_state() -> None:
    """The state goes to the other layout alone; it comes back with the product."""
    state = StateVector.from_amplitudes(random_ket(12), comm=COMM)
    out = state.apply_pauli_sum(heisenberg(12))
    assert (state.traffic.exchanges, out.traffic.exchanges) == ((2, 1) if COMM.size > 1 else (0, 0))


def test_strings_that_flip_more_than_can_be_close_travel_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "SMALLEST_PIECE", 0)
    n = 9
    state = StateVector.from_amplitudes(random_ket(n), comm=COMM, layout=Layout(range(n)[::-1]))
    observable = PauliSum({"X" * n: 1.0, "Y" * n: 0.4, "ZYXYXYXYX": 0.3, "YXYXYXYXZ": -0.8})
    with COMM.recording() as messages:
        value = state.expectation(observable)
    assert value == pytest.approx(np.vdot(random_ket(n), applied(observable, random_ket(n))).real, abs=1e-12)
    sent = [m.bytes for m in messages if m.op == "isendrecv"]
    assert max(sent, default=0) <= 16 << state.shard_bits - 5
