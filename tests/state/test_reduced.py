"""Reduced density matrices, entropies and Schmidt values against NumPy; states that are compared and converted."""

import math

import numpy as np
import pytest
from states import random_sum

import qdist as qd
from qdist.backends.errors import StateError
from qdist.plan import Layout
from qdist.state import StateVector, reference

N = 5


def ket(seed: int, n: int = N) -> np.ndarray:
    rng = np.random.default_rng(seed)
    found = rng.normal(size=1 << n) + 1j * rng.normal(size=1 << n)
    return found / np.linalg.norm(found)


def traced(amplitudes: np.ndarray, kept: list[int]) -> np.ndarray:
    """By einsum over a tensor with an axis a qubit."""
    n = len(amplitudes).bit_length() - 1
    tensor = amplitudes.reshape((2,) * n)
    rest = [q for q in range(n) if q not in kept]
    moved = tensor.transpose([n - 1 - q for q in (*kept[::-1], *rest)]).reshape(1 << len(kept), -1)
    return np.einsum("ar,br->ab", moved, moved.conj())


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("layout", [None, Layout([3, 0, 4, 1, 2])])
@pytest.mark.parametrize("qubits", [[0], [4, 1], [2, 0, 3], [0, 1, 2, 3, 4], []])
def test_density_matrices(dtype: str, layout: Layout | None, qubits: list[int]) -> None:
    amplitudes = ket(1)
    state = StateVector.from_amplitudes(amplitudes, dtype, layout=layout)
    tolerance = 1e-6 if dtype == "complex64" else 1e-13
    found = state.density_matrix(qubits)
    np.testing.assert_allclose(found, traced(amplitudes, qubits), atol=tolerance)
    rest = [q for q in range(N) if q not in qubits]
    np.testing.assert_allclose(state.partial_trace(rest), traced(amplitudes, sorted(qubits)), atol=tolerance)
    assert state.purity(qubits) == pytest.approx(np.trace(found @ found).real, abs=10 * tolerance)
    np.testing.assert_allclose(state.amplitudes(), amplitudes, atol=tolerance)


def test_entropies_are_those_of_the_eigenvalues() -> None:
    state = StateVector.from_amplitudes(ket(2), "complex128")
    p = np.linalg.eigvalsh(traced(ket(2), [1, 3]))
    assert state.entropy([1, 3]) == pytest.approx(-(p * np.log2(p)).sum(), abs=1e-12)
    assert state.entropy([1, 3], base=math.e) == pytest.approx(-(p * np.log(p)).sum(), abs=1e-12)
    assert state.entropy([0, 2, 4]) == pytest.approx(state.entropy([1, 3]), abs=1e-12)
    assert state.entropy([1, 3], alpha=2) == pytest.approx(-np.log2((p**2).sum()), abs=1e-12)
    assert state.entropy([1, 3], alpha=0.5) == pytest.approx(2 * np.log2(np.sqrt(p).sum()), abs=1e-12)
    assert state.entropy([1, 3], alpha=math.inf) == pytest.approx(-np.log2(p.max()), abs=1e-12)
    assert state.entropy([1, 3], alpha=0) == 2.0
    assert state.entropy(range(N)) == 0
    parts = [-(q * np.log2(q)).sum() for q in (np.linalg.eigvalsh(traced(ket(2), k)) for k in ([0], [2], [0, 2]))]
    assert state.mutual_information(0, 2) == pytest.approx(parts[0] + parts[1] - parts[2], abs=1e-12)
    ghz = qd.simulate(qd.Circuit(3).h(0).cx(0, 1).cx(1, 2))
    assert ghz.entropy(0) == pytest.approx(1, abs=1e-6)
    assert ghz.mutual_information(0, [1, 2]) == pytest.approx(2, abs=1e-6)


@pytest.mark.parametrize("away", [1e-15, 1e-12, 1e-8, 1e-4, 9e-3, 2e-2])
def test_entropies_of_orders_near_one_keep_their_digits(away: float) -> None:
    state = StateVector.from_amplitudes(ket(2), "complex128")
    p = np.linalg.eigvalsh(traced(ket(2), [1, 3]))
    # The series around von Neumann's: its slope is minus half the variance of -log p, and so on.
    surprise = -np.log(p)
    cumulants = [(p * surprise).sum()]
    centred = surprise - cumulants[0]
    cumulants += [(p * centred**2).sum(), (p * centred**3).sum()]
    cumulants.append((p * centred**4).sum() - 3 * cumulants[1] ** 2)
    for x in (away, -away):
        alpha = 1 + x
        x = alpha - 1
        series = sum(c * (-x) ** k / math.factorial(k + 1) for k, c in enumerate(cumulants))
        assert state.entropy([1, 3], alpha=alpha, base=math.e) == pytest.approx(series, abs=1e-12 + 10 * abs(x) ** 4)


def test_orders_and_bases_may_be_of_numpy() -> None:
    state = StateVector.from_amplitudes(ket(2), "complex128")
    for alpha in (0, 1, 2):
        for kind in (np.int64, np.float32, np.float64):
            assert state.entropy([1, 3], alpha=kind(alpha), base=kind(4)) == state.entropy([1, 3], alpha, 4)
    with pytest.raises(StateError, match="alpha="):
        state.entropy([0], alpha=np.float32(-1))


def test_schmidt_values_are_singular_values() -> None:
    state = StateVector.from_amplitudes(ket(3), "complex128", layout=Layout([4, 3, 2, 1, 0]))
    matrix = ket(3).reshape((2,) * N).transpose([0, 2, 1, 3, 4]).reshape(4, 8)
    np.testing.assert_allclose(state.schmidt_values([4, 2]), np.linalg.svd(matrix, compute_uv=False), atol=1e-13)
    np.testing.assert_allclose(state.schmidt_values([0, 1, 3]), state.schmidt_values([2, 4]), atol=1e-13)
    large = qd.simulate(qd.Circuit(21).h(0).cx(0, 20), dtype="complex128", device="cpu")
    np.testing.assert_allclose(large.schmidt_values([20]), [0.5**0.5] * 2, atol=1e-12)


def test_fidelity_of_reduced_states() -> None:
    one, other = (StateVector.from_amplitudes(ket(k), "complex128") for k in (4, 5))
    rho, sigma = traced(ket(4), [1, 2]), traced(ket(5), [1, 2])
    values, vectors = np.linalg.eigh(rho)
    root = vectors @ np.diag(np.sqrt(values)) @ vectors.conj().T
    expected = np.sqrt(np.linalg.eigvalsh(root @ sigma @ root)).sum() ** 2
    assert one.fidelity(other, [1, 2]) == pytest.approx(expected, abs=1e-12)
    assert one.fidelity(one, [1, 2]) == pytest.approx(1, abs=1e-12)
    # Most eigenvalues of these reduced states are 0, and roots of their rounding errors are 1e-8.
    wide = qd.simulate(qd.library.random_circuit(8, 6, seed=1), dtype="complex128")
    assert wide.fidelity(wide, [0, 2, 3, 5, 6, 7]) == pytest.approx(1, abs=1e-12)


def test_what_cannot_be_is_refused() -> None:
    state = StateVector(3)
    for wrong, message in [
        (lambda: state.entropy([0], alpha=-1), "alpha=-1"),
        (lambda: state.entropy([0], base=1), "base=1"),
        (lambda: state.mutual_information([0, 1], 1), "both sides have qubit 1"),
        (lambda: state.density_matrix([3]), "qubit 3 is out of range"),
        (lambda: state.amplitudes(["00"]), "3 characters"),
    ]:
        with pytest.raises(StateError, match=message):
            wrong()


def test_states_are_compared_up_to_rounding_and_converted() -> None:
    one = StateVector.from_amplitudes(ket(6), "complex128")
    same = StateVector.from_amplitudes(ket(6) * (1 + 1e-14), "complex128", layout=Layout([1, 0, 2, 4, 3]))
    assert one == same
    assert one == one.astype("complex64")
    assert one != StateVector.from_amplitudes(ket(6) * np.exp(1e-3j), "complex128")
    assert one != StateVector(N, "complex128")
    assert one != StateVector(N + 1, "complex128")
    assert one != "state"
    assert one.astype("complex64").dtype == np.complex64
    np.testing.assert_array_equal(one.amplitudes([["00000", "10000"]]), ket(6)[[[0, 16]]])
    assert repr(one) == f"<StateVector of 5 qubits, complex128, {one.device}, 512 B>"


def test_batches_of_initial_states() -> None:
    a, b = qd.Parameter("a"), qd.Parameter("b")
    circuit = qd.Circuit(N).rx(a, 0).cx(0, 3).rzz(a * b, 1, 3).ry(b, 4)
    program = qd.compile(circuit, dtype="complex128")
    starts, theta = np.array([ket(7), ket(8), ket(9)]), np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
    found = program.run_batch(theta, initial=starts)
    for row, start, values in zip(found, starts, theta):
        np.testing.assert_allclose(row, reference.state(circuit, values, start), atol=1e-12)
    given = [StateVector.from_amplitudes(s, "complex128", device=program.device) for s in starts]
    np.testing.assert_allclose(program.run_batch({"a": 0.1, "b": 0.2}, initial=given)[0], found[0], atol=1e-12)
    observable = random_sum(N, 6, 1)
    values, gradients = program.value_and_grad(observable, theta, initial=starts)
    for b_, start in enumerate(given):
        value, gradient = program.value_and_grad(observable, theta[b_], initial=start)
        assert values[b_] == pytest.approx(value, abs=1e-12)
        np.testing.assert_allclose(gradients[b_], gradient, atol=1e-12)
        np.testing.assert_allclose(
            gradient, reference.gradient(circuit, observable, theta[b_], initial=starts[b_]), atol=1e-8
        )
    with pytest.raises(StateError, match="2 parameter sets and 3 initial states"):
        program.run_batch(theta[:2], initial=starts)
