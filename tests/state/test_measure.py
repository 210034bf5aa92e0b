"""Probabilities, samples, collapse and observables of a state, against dense NumPy and the reference simulator."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from states import DTYPES, TOLERANCE, applied, molecule_like, random_ket, random_layout, random_sum

from qdist.backends.errors import StateError
from qdist.circuit import CircuitError, Hermitian, PauliString, PauliSum
from qdist.native import kernels
from qdist.plan import Layout
from qdist.state import reference
from qdist.state.measuring.expectation import apply_and_expect
from qdist.state.statevector import StateVector


def states(n: int, dtype: str, seed: int = 0) -> tuple[np.ndarray, list[StateVector]]:
    """A random ket, and its state in the identity and in a random layout."""
    ket = random_ket(n, seed)
    layouts = Layout.identity(n), random_layout(n, seed)
    return ket, [StateVector.from_amplitudes(ket, dtype, layout=layout) for layout in layouts]


# Probabilities -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 13, 15])
def test_probabilities_of_any_qubits_in_any_order(n: int, dtype: str, threads: int) -> None:
    ket, svs = states(n, dtype)
    rng = np.random.default_rng(n)
    subsets = [None, [], [0], [n - 1], range(n)[::-1], *(rng.permutation(n)[:k] for k in rng.integers(1, n + 1, 6))]
    for sv in svs:
        for qubits in subsets:
            found = sv.probabilities(qubits)
            assert found.dtype == np.float64
            np.testing.assert_allclose(found, reference.probabilities(ket, qubits), atol=TOLERANCE[dtype])
        assert np.array_equal(sv.probabilities(0), sv.probabilities([0]))


def test_probabilities_are_the_same_for_any_number_of_threads() -> None:
    _, svs = states(16, "complex64")
    results = []
    for threads in (1, 2, 3):
        kernels.set_threads(threads)
        results.append([sv.probabilities(q).tobytes() for sv in svs for q in ([3], range(4, 12), None)])
    kernels.set_threads(2)
    assert results[0] == results[1] == results[2]


# Samples -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3, 6, 12])
def test_samples_follow_the_distribution(n: int, dtype: str) -> None:
    ket, svs = states(n, dtype)
    shots = 200_000
    samples = svs[0].sample(shots, seed=5)
    assert samples.dtype == np.int64
    assert samples.shape == (shots,)
    expected = shots * np.abs(ket) ** 2
    counts = np.bincount(samples, minlength=1 << n)
    # Rare outcomes together, so that every cell is large enough for the chi-square bound: five standard deviations.
    rare = expected < 5
    cells = np.append(expected[~rare], expected[rare].sum()), np.append(counts[~rare], counts[rare].sum())
    kept = cells[0] > 0
    chi = ((cells[1][kept] - cells[0][kept]) ** 2 / cells[0][kept]).sum()
    freedom = kept.sum() - 1
    assert chi < freedom + 5 * math.sqrt(2 * max(freedom, 1))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 4, 11, 14])
def test_the_same_seed_gives_the_same_samples_in_any_layout_and_with_any_threads(n: int, dtype: str) -> None:
    ket = random_ket(n)
    results = []
    for seed in range(4):
        layout = random_layout(n, seed) if seed else None
        kernels.set_threads(1 + seed % 2)
        results.append(StateVector.from_amplitudes(ket, dtype, layout=layout).sample(5000, seed=7))
    kernels.set_threads(2)
    assert all(np.array_equal(result, results[0]) for result in results)
    sv = StateVector.from_amplitudes(ket, dtype)
    assert np.array_equal(sv.sample(5000, np.random.default_rng(7)), results[0])
    assert np.array_equal(sv.sample(100, seed=7), results[0][:100])
    if n > 1:
        assert not np.array_equal(sv.sample(5000, seed=8), results[0])


def test_neighbouring_qubits_of_a_uniform_state_are_independent() -> None:
    sv = StateVector.product(np.full((12, 2), math.sqrt(0.5)))
    bits = sv.sample(100_000, seed=1)[:, None] >> np.arange(12) & 1
    correlation = np.corrcoef(bits.T) - np.eye(12)
    assert np.abs(correlation).max() < 5 / math.sqrt(100_000)
    assert np.abs(bits.mean(axis=0) - 0.5).max() < 2.5 / math.sqrt(100_000)


@pytest.mark.parametrize("n", [1, 5, 12])
def test_samples_of_certain_states_are_certain(n: int) -> None:
    index = (1 << n) * 2 // 3
    sv = StateVector.basis(n, index, layout=random_layout(n))
    assert (sv.sample(1000) == index).all()
    assert sv.counts(10) == {f"{index:0{n}b}": 10}
    assert sv.sample(0).shape == (0,)
    assert sv.counts(0) == {}


def test_samples_never_show_what_has_no_probability() -> None:
    ket = random_ket(12)
    ket[np.arange(1 << 12) % 3 != 0] = 0
    sv = StateVector.from_amplitudes(ket)
    assert (sv.sample(100_000, seed=2) % 3 == 0).all()


def test_samples_of_some_qubits_are_bits_of_those_of_all() -> None:
    _, svs = states(9, "complex64")
    all_qubits = svs[0].sample(1000, seed=4)
    for sv in svs:
        some = sv.sample(1000, seed=4, qubits=[7, 2, 5])
        assert np.array_equal(some, (all_qubits >> 7 & 1) | (all_qubits >> 2 & 1) << 1 | (all_qubits >> 5 & 1) << 2)
        counts = sv.counts(1000, seed=4, qubits=[7, 2, 5])
        assert counts == {f"{v:03b}": c for v, c in enumerate(np.bincount(some, minlength=8).tolist()) if c}
        assert sv.counts(50, seed=4, qubits=3).keys() <= {"0", "1"}


def test_samples_go_by_shares_where_the_state_is_not_normalised() -> None:
    ket = random_ket(8)
    assert np.array_equal(
        StateVector.from_amplitudes(ket).sample(1000, seed=3), StateVector.from_amplitudes(4 * ket).sample(1000, seed=3)
    )


# Collapse ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 9, 15])
def test_collapse_projects_and_normalises(n: int, dtype: str, threads: int) -> None:
    rng = np.random.default_rng(n)
    cases = [((q,), v) for q in {0, n // 2, n - 1} for v in (0, 1)]
    cases.append((tuple(rng.permutation(n)), int(rng.integers(1 << n))))
    ket, svs = states(n, dtype)
    index = np.arange(1 << n)
    for qubits, outcome in cases:
        fits = np.ones(1 << n, bool)
        for k, q in enumerate(qubits):
            fits &= (index >> q & 1) == outcome >> k & 1
        projected = np.where(fits, ket, 0)
        probability = np.linalg.norm(projected) ** 2
        for sv in svs:
            after = sv.copy()
            assert after.collapse(qubits, outcome) == pytest.approx(probability, rel=1e-4)
            assert after.dtype == dtype
            np.testing.assert_allclose(
                after.amplitudes(), projected / math.sqrt(probability), atol=TOLERANCE[dtype] * 10
            )
            assert abs(after.norm() - 1) < TOLERANCE[dtype]


def test_collapse_to_what_cannot_be_is_refused_and_changes_nothing() -> None:
    sv = StateVector.basis(3, "010")
    with pytest.raises(StateError, match=r"qubit 1 cannot be found in 0 .*: the probability is 0"):
        sv.collapse(1, 0)
    with pytest.raises(StateError, match=r"qubits 0, 2 cannot be found in 10 \(written with qubit 2 first\)"):
        sv.collapse([0, 2], 0b10)
    assert sv.amplitude("010") == 1


@pytest.mark.parametrize("dtype", DTYPES)
def test_measure_draws_collapses_and_agrees_with_itself(dtype: str) -> None:
    ket, svs = states(6, dtype)
    for sv in svs:
        outcomes = []
        for seed in range(300):
            after = sv.copy()
            outcome = after.measure([4, 1], seed)
            assert after.measure([4, 1]) == outcome
            assert abs(after.probabilities([4, 1])[outcome] - 1) < TOLERANCE[dtype]
            outcomes.append(outcome)
        expected = 300 * reference.probabilities(ket, [4, 1])
        assert (np.abs(np.bincount(outcomes, minlength=4) - expected) < 5 * np.sqrt(expected)).all()
    assert len({sv.measure([4, 1], 5) for sv in svs}) == 1


def test_measure_of_many_qubits_leaves_a_basis_state() -> None:
    sv = StateVector.from_amplitudes(random_ket(14), "complex64")
    outcome = sv.measure(seed=11)
    assert abs(abs(sv.amplitude(outcome)) - 1) < 1e-6
    rng = np.random.default_rng(3)
    bell = StateVector.from_amplitudes(np.array([1, 0, 0, 1]) / math.sqrt(2))
    pairs = [bell.copy().measure(None, rng) for _ in range(100)]
    assert set(pairs) == {0, 3}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 4, 7, 15])
def test_reset_leaves_the_qubit_in_zero_and_the_rest_as_measured(n: int, dtype: str, threads: int) -> None:
    ket, svs = states(n, dtype)
    index = np.arange(1 << n)
    for sv in svs:
        for qubit in {0, 1 % n, n // 2, n - 1}:
            seen = set()
            choices = []
            for value in (0, 1):
                moved = np.where(index >> qubit & 1 == 0, ket[index & ~(1 << qubit) | value << qubit], 0)
                choices.append(moved / np.linalg.norm(moved))
            for seed in range(12):
                after = sv.copy()
                after.reset_qubit(qubit, seed)
                found = after.amplitudes()
                errors = [np.abs(found - choice).max() for choice in choices]
                assert min(errors) < TOLERANCE[dtype] * 10
                seen.add(int(np.argmin(errors)))
                assert after.dtype == dtype
            assert n < 4 or seen == {0, 1}


# Observables ---------------------------------------------------------------------------------------------------------


def check_observable(sv: StateVector, ket: np.ndarray, observable: PauliSum) -> None:
    tolerance = TOLERANCE[str(sv.dtype)] * (1 + np.abs(observable.coefficients).sum())
    expected = applied(observable, ket)
    mean = np.vdot(ket, expected).real
    value = sv.expectation(observable)
    assert isinstance(value, float)
    assert abs(value - mean) < tolerance
    product = sv.apply_pauli_sum(observable)
    assert (product.dtype, product.layout) == (sv.dtype, sv.layout)
    np.testing.assert_allclose(product.amplitudes(), expected, atol=tolerance)
    # Both in the same passes: one observable, several, and one that counts for nothing.
    (value,) = apply_and_expect(sv, [observable], [-0.5], product)
    assert abs(value - mean) < tolerance
    np.testing.assert_allclose(product.amplitudes(), -0.5 * expected, atol=tolerance)
    z_on_0 = applied(PauliSum("Z0"), ket)
    for weight in (0.0, 0.7):
        values = apply_and_expect(sv, [observable, "Z0"], [weight, 2.0], product)
        np.testing.assert_allclose(values, [mean, np.vdot(ket, z_on_0).real], atol=tolerance)
        np.testing.assert_allclose(product.amplitudes(), weight * expected + 2 * z_on_0, atol=tolerance)
    assert abs(apply_and_expect(sv, [observable], [1e-44], product)[0] - mean) < tolerance
    assert abs(apply_and_expect(sv, [observable], [0.0], product)[0] - mean) < tolerance
    assert not product.amplitudes().any()
    variance = np.vdot(expected, expected).real - mean**2
    assert abs(sv.variance(observable) - variance) < tolerance * (1 + np.abs(observable.coefficients).sum())


@given(n=st.integers(1, 7), terms=st.integers(0, 30), flips=st.integers(1, 6), seed=st.integers(0, 2**32))
def test_random_sums_equal_their_dense_matrices(n: int, terms: int, flips: int, seed: int) -> None:
    observable = random_sum(n, terms, seed, flips)
    matrix = observable.to_matrix(n)
    ket = random_ket(n, seed)
    for layout in (None, random_layout(n, seed)):
        sv = StateVector.from_amplitudes(ket, layout=layout)
        assert abs(sv.expectation(observable) - np.vdot(ket, matrix @ ket).real) < 1e-10
        np.testing.assert_allclose(sv.apply_pauli_sum(observable).amplitudes(), matrix @ ket, atol=1e-10)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 2, 3, 4, 12, 13, 14, 16, 18])
def test_a_chain_and_long_strings_across_all_tiles(n: int, dtype: str, threads: int) -> None:
    """Every pair of neighbours, and strings that flip and sign everything: lanes, rows, tiles and pairs of tiles."""
    chain = {f"{p}{q} {p}{q + 1}": 0.3 + q for q in range(n - 1) for p in "XYZ"}
    mixed = {f"X{q} Y{(q + 1) % n}": 0.7 for q in range(n)} if n > 1 else {}
    ends = {"X" * n: 1.1, "Y" * n: -0.4, "Z" * n: 0.2, f"Y{n - 1}": 0.9}
    jordan_wigner = {"X" + "Z" * (n - 2) + "Y": 0.6, "Y" + "Z" * (n - 2) + "X": -0.5} if n > 1 else {}
    observable = PauliSum({**chain, **mixed, **ends, **jordan_wigner})
    ket, svs = states(n, dtype)
    for sv in svs:
        check_observable(sv, ket, observable)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("n", "terms", "flips"), [(6, 2000, 1), (13, 600, 2), (14, 200, 200), (15, 64, 4)])
def test_many_terms_a_flip_and_many_flips(n: int, terms: int, flips: int, dtype: str) -> None:
    ket, svs = states(n, dtype)
    observable = random_sum(n, terms, flips=flips)
    for sv in svs:
        check_observable(sv, ket, observable)
    diagonal = PauliSum.from_masks(np.zeros(terms, np.uint64), observable.z, observable.coefficients)
    for sv in svs:
        check_observable(sv, ket, diagonal)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("representations", "terms"), [((0, 0, 0, 1, 2, 0), 631), ((0, 0, 1, 0, 2, 0, 1), 1086)])
def test_molecules(representations: tuple[int, ...], terms: int, dtype: str, threads: int) -> None:
    """LiH and H2O with other integrals: as many terms as those; an excitation's strings cancel on most amplitudes."""
    observable = molecule_like(representations)
    assert len(observable) == terms
    ket, svs = states(observable.num_qubits, dtype)
    for sv in svs:
        check_observable(sv, ket, observable)


@pytest.mark.parametrize("dtype", DTYPES)
def test_expectations_of_many_observables_equal_those_one_by_one(dtype: str) -> None:
    _, svs = states(13, dtype)
    observables = [*(random_sum(13, 5, seed) for seed in range(10)), PauliSum(), *(f"Z{q}" for q in range(13)), {"": 2}]
    for sv in svs:
        together = sv.expectations(observables)
        assert together.dtype == np.float64
        np.testing.assert_allclose(together, [sv.expectation(o) for o in observables], atol=TOLERANCE[dtype])
        assert sv.expectations([]).shape == (0,)
        assert together[10] == 0
        assert together[-1] == pytest.approx(2, rel=1e-6)


def test_expectations_are_the_same_for_any_number_of_threads() -> None:
    _, svs = states(16, "complex64")
    observables = [random_sum(16, 40, seed) for seed in range(3)]
    results = []
    for threads in (1, 2, 3):
        kernels.set_threads(threads)
        results.append([sv.expectations(some).tobytes() for sv in svs for some in (observables, observables[:1])])
    kernels.set_threads(2)
    assert results[0] == results[1] == results[2]


def test_every_form_of_an_observable() -> None:
    n = 5
    ket, svs = states(n, "complex128")
    rng = np.random.default_rng(1)
    matrix = rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4))
    matrix += matrix.conj().T
    full = rng.normal(size=(32, 32)) + 1j * rng.normal(size=(32, 32))
    full += full.conj().T
    z0z3 = PauliSum({"Z0 Z3": 1.0})
    for sv in svs:
        expected = reference.expectation(ket, z0z3)
        for form in ("Z0 Z3", "ZIIZ", PauliString("Z0 Z3"), {"Z0 Z3": 1.0}, z0z3):
            assert sv.expectation(form) == pytest.approx(expected, abs=1e-12)
        local = Hermitian(matrix, [3, 1])
        expected = reference.expectation(ket, local)
        assert sv.expectation(local) == pytest.approx(expected, abs=1e-11)
        assert sv.expectation((matrix, [3, 1])) == pytest.approx(expected, abs=1e-11)
        assert sv.expectation(full) == pytest.approx(np.vdot(ket, full @ ket).real, abs=1e-10)
        mean, square = np.vdot(ket, full @ ket).real, np.linalg.norm(full @ ket) ** 2
        assert sv.variance(full) == pytest.approx(square - mean**2, rel=1e-10)


def test_variance_keeps_its_digits_where_the_mean_is_large() -> None:
    sv = StateVector.from_amplitudes(random_ket(6))
    z = sv.variance("Z0")
    assert sv.variance({"Z0": 1.0, "": 1e7}) == pytest.approx(z, rel=1e-6)
    assert StateVector(4, "complex128").variance("Z0 Z1") == 0
    assert StateVector(4, "complex128").variance("X0") == 1


def test_products_may_have_complex_coefficients_and_re_use_memory() -> None:
    ket, svs = states(5, "complex128")
    observable = random_sum(5, 12) + 1j * random_sum(5, 9, seed=1)
    for sv in svs:
        out = StateVector(5, "complex128")
        assert sv.apply_pauli_sum(observable, out=out) is out
        np.testing.assert_allclose(out.amplitudes(), applied(observable, ket), atol=1e-12)
        assert not sv.apply_pauli_sum(PauliSum()).amplitudes().any()
        with pytest.raises(StateError, match=r"out must be another state|needs two states of one size and dtype"):
            sv.apply_pauli_sum(observable, out=sv)
        with pytest.raises(StateError, match=r"out is a StateVector, which StateVector.empty makes; got"):
            sv.apply_pauli_sum(observable, out=np.zeros(1 << sv.num_qubits))
        with pytest.raises(StateError, match=r"out must be another state|needs two states of one size and dtype"):
            apply_and_expect(sv, ["X0"], [1.0], StateVector(2))


def test_a_repeated_term_counts_twice_and_imaginary_parts_may_cancel() -> None:
    sv = StateVector.basis(2, "01", "complex128")
    assert sv.expectation(PauliSum([("Z0", 1.0), ("Z0", 2.0)])) == -3
    assert sv.expectation(PauliSum([("Z0", 1 + 1j), ("Z0", 1 - 1j)])) == -2


def test_the_same_sum_is_measured_anew_in_another_layout_and_size() -> None:
    observable = PauliSum({"Z0": 1.0})
    for sv in (
        StateVector.basis(2, "01"),
        StateVector.basis(3, "001"),
        StateVector.basis(3, 1, layout=Layout([2, 0, 1])),
    ):
        assert sv.expectation(observable) == -1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda sv: sv.probabilities([3]), "qubit 3 is out of range: the state has qubits 0 to 2"),
        (lambda sv: sv.probabilities([0, 0]), r"must be different; got \[0, 0\]"),
        (lambda sv: sv.probabilities(["a"]), "must be an int; got 'a'"),
        (lambda sv: sv.sample(-1), "shots must be an int >= 0; got -1"),
        (lambda sv: sv.sample(1.5), "got 1.5"),
        (lambda sv: sv.sample(3, seed=-1), "seed=-1: a seed is an int >= 0, a sequence of them, a NumPy Generator"),
        (lambda sv: sv.counts(3, seed=2.0), "seed=2.0: a seed is an int >= 0"),
        (lambda sv: sv.measure(0, seed="a"), "seed='a': a seed is an int >= 0"),
        (lambda sv: sv.expectation("X0", shots=5, seed=-3), "seed=-3: a seed is an int >= 0"),
        (lambda sv: sv.shadow(3, seed={1}), "a seed is an int >= 0"),
        (lambda sv: sv.gather("a"), "root='a': the state is on ranks 0 to 0"),
        (lambda sv: sv.gather(1), "root=1: the state is on ranks 0 to 0"),
        (lambda sv: sv.probabilities(np.array(1.0)), "must be an int; got array"),
        (lambda sv: sv.sample(5, qubits=[-1]), "qubit -1 is out of range"),
        (lambda sv: sv.counts(5, qubits=[1, 1]), "must be different"),
        (lambda sv: sv.collapse(0, 2), "outcome of 1 qubit is an int from 0 to 1; got 2"),
        (lambda sv: sv.collapse(5, 0), "qubit 5 is out of range"),
        (lambda sv: sv.measure([0, 9]), "qubit 9 is out of range"),
        (lambda sv: sv.reset_qubit(4), "qubit 4 is out of range"),
        (lambda sv: sv.expectation("Z5"), "acts on qubit 5; the state has qubits 0 to 2"),
        (lambda sv: sv.expectation({"X0": 1j}), r"not Hermitian: the coefficient of X0 is 0\+1j.*adjoint"),
        (lambda sv: sv.expectation(["Z0"]), r"expectations\(\) takes a list"),
        (lambda sv: sv.expectation(np.eye(4)), r"has shape \(8, 8\); got \(4, 4\).*\(matrix, qubits\)"),
    ],
)
def test_refuses_what_cannot_be_right(call, message: str) -> None:
    with pytest.raises(StateError, match=message):
        call(StateVector(3))


@pytest.mark.parametrize(
    "call",
    [
        lambda q: lambda sv: sv.probabilities(q()),
        lambda q: lambda sv: sv.sample(9, seed=1, qubits=q()),
        lambda q: lambda sv: sv.counts(9, seed=1, qubits=q()),
        lambda q: lambda sv: sv.measure(q(), seed=1),
        lambda q: lambda sv: sv.collapse(q(), 0),
        lambda q: lambda sv: sv.density_matrix(q()),
        lambda q: lambda sv: sv.entropy(q()),
        lambda q: lambda sv: sv.schmidt_values(q()),
        lambda q: lambda sv: sv.fidelity(StateVector(3), q()),
    ],
)
def test_qubits_in_whatever_holds_them(call) -> None:
    def found(qubits):
        return call(qubits)(StateVector.from_amplitudes(random_ket(3)))

    for alike in (lambda: np.array(1), lambda: iter([1]), lambda: range(1, 2), lambda: np.array([1], ">u2")):
        np.testing.assert_equal(found(alike), found(lambda: 1))


@pytest.mark.parametrize("alpha", [1e-3, 0.5, 2, 7, 60, 1e4, 1e30])
def test_entropies_of_any_order(alpha: float) -> None:
    p = np.array([0.98, 0.02])
    sv = StateVector.from_amplitudes([np.sqrt(p[0]), 0, 0, np.sqrt(p[1])])
    wanted = (alpha * np.log2(p[0]) + np.log2(1 + (p[1] / p[0]) ** alpha)) / (1 - alpha)
    assert sv.entropy([0], alpha) == pytest.approx(wanted)


def test_refuses_matrices_that_are_not_hermitian() -> None:
    with pytest.raises(CircuitError, match="must be Hermitian"):
        StateVector(2).expectation(([[0, 1], [0, 0]], [1]))


def test_nothing_can_be_drawn_from_zero() -> None:
    sv = StateVector(2)
    sv.local[:] = 0
    with pytest.raises(StateError, match="squared norm is 0; nothing can be drawn"):
        sv.sample(3)
