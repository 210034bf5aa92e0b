"""vjp, jacobian and value_and_grad as users call them: every kind of output, batches, other methods, refusals."""

from typing import Any

import numpy as np
import pytest
from states import random_ket, random_sum

import qdist as qd
from qdist.backends.errors import StateError
from qdist.plan.layout import Layout
from qdist.program.rows import RowPrograms
from qdist.state import reference
from qdist.state.measuring import expectation
from qdist.state.measuring.expectation import pull_back

DTYPES = ["complex64", "complex128"]
both = pytest.mark.parametrize("dtype", DTYPES)


def ansatz(n: int = 5) -> tuple[qd.Circuit, np.ndarray]:
    circuit = qd.library.hardware_efficient(n, 2)
    return circuit, np.random.default_rng(1).uniform(-3, 3, circuit.num_parameters)


@both
def test_each_output_pulls_back_the_reference_jacobian(dtype: str) -> None:
    circuit, params = ansatz()
    n, rng = circuit.num_qubits, np.random.default_rng(2)
    ket, jacobian = reference.state(circuit, params), reference.state_jacobian(circuit, params)
    H, phi = random_sum(n, 5, seed=3), random_ket(n, seed=4)
    matrix = np.array([[1, 2 - 1j], [2 + 1j, -0.5]])
    weights, amplitudes = rng.normal(size=8), rng.normal(size=1 << n) + 1j * rng.normal(size=1 << n)
    qubits, overlap = [3, 0, 4], 0.3 - 0.8j

    def loss(psi: np.ndarray) -> list[float]:
        """Each output's value, weighted with its cotangent, as a real number."""
        mean = reference.expectation(psi, H)
        square = np.linalg.norm(qd.StateVector.from_amplitudes(psi, "complex128").apply_pauli_sum(H).amplitudes()) ** 2
        return [
            0.7 * mean,
            -1.3 * reference.expectation(psi, qd.Hermitian(matrix, [2])),
            0.4 * (square - mean**2),
            float(weights @ reference.probabilities(psi, qubits)),
            float((np.conj(overlap) * np.vdot(phi, psi)).real),
            float(np.vdot(amplitudes, psi).real),
        ]

    outputs = [
        H,
        (matrix, [2]),
        qd.Variance(H),
        qd.Probabilities(qubits),
        qd.Overlap(qd.StateVector.from_amplitudes(phi, dtype)),
        qd.State(),
    ]
    cotangents = [0.7, -1.3, 0.4, weights, overlap, amplitudes]
    program = qd.compile(circuit, dtype=dtype)
    tolerance = 2e-4 if dtype == "complex64" else 1e-8
    step = 1e-5
    total = np.zeros(circuit.num_parameters)
    for k, (output, cotangent) in enumerate(zip(outputs, cotangents)):
        (value,), gradient = program.vjp([output], params, [cotangent])
        assert np.real(np.vdot(cotangent, value)) == pytest.approx(loss(ket)[k], abs=tolerance)
        # d psi / d theta is the reference's; how the loss changes with psi comes from differences of it.
        want = [(loss(ket + step * d)[k] - loss(ket - step * d)[k]) / (2 * step) for d in jacobian.T]
        np.testing.assert_allclose(gradient, want, atol=tolerance, err_msg=str(output))
        total += gradient
    values, together = program.vjp(outputs, params, cotangents)
    assert len(values) == len(outputs)
    np.testing.assert_allclose(together, total, atol=tolerance)


@both
def test_an_expectation_value_is_an_output_like_the_others(dtype: str) -> None:
    circuit, params = ansatz()
    program, H = qd.compile(circuit, dtype=dtype), {"Z0 Z1": -1.0, "X3": 0.5, "Y4": 0.2}
    named = qd.Expectation(H)
    assert (named.shape(5), named.dtype, named.more_states) == ((), np.float64, 0)
    assert named.frozen(5) == qd.Expectation(qd.PauliSum(H))
    for parameters, weight in ((params, 0.7), (np.stack([params, -params]), np.array([0.7, 1.1]))):
        got = program.vjp([named, qd.State()], parameters, [weight, np.ones((*np.shape(weight), 32))])
        want = program.vjp([H, qd.State()], parameters, [weight, np.ones((*np.shape(weight), 32))])
        np.testing.assert_array_equal(got[0][0], want[0][0])
        np.testing.assert_array_equal(got[1], want[1])
    # On its own, as any output: the value, and what is added to a bra.
    ket, bra = program.run(params), program.run(-params)
    before = bra.amplitudes()
    assert named.value(ket) == pytest.approx(program.expectation(H, params), abs=1e-6)
    named.pull_back(ket, 0.7, bra)
    want = before + 0.7 * ket.apply_pauli_sum(H).amplitudes()
    np.testing.assert_allclose(bra.amplitudes(), want, atol=1e-6 if dtype == "complex64" else 1e-14)
    with pytest.raises(StateError, match="not Hermitian"):
        program.vjp([qd.Expectation({"X0": 1j})], params, [1.0])
    with pytest.raises(StateError, match="acts on qubit 7"):
        program.vjp([qd.Expectation("Z7")], params, [1.0])
    for parameters in (params, params[None], params[None][:0]):
        with pytest.raises(StateError, match="an observable is a PauliSum"):
            program.expectation(qd.Variance(H), parameters)  # type: ignore[arg-type]


@both
def test_a_batch_equals_a_loop(dtype: str) -> None:
    circuit, _ = ansatz()
    rng = np.random.default_rng(5)
    batch = rng.uniform(-3, 3, (7, circuit.num_parameters))
    outputs = ["Z0", "X1 Y2", qd.Probabilities([1, 2]), qd.State()]
    cotangents = [rng.normal(size=7), rng.normal(size=7), rng.normal(size=(7, 4)), rng.normal(size=(7, 32)) + 0j]
    program = qd.compile(circuit, dtype=dtype)
    values, gradients = program.vjp(outputs, batch, cotangents)
    assert [v.shape for v in values] == [(7,), (7,), (7, 4), (7, 32)]
    assert gradients.shape == batch.shape
    for b, row in enumerate(batch):
        want_values, want = program.vjp(outputs, row, [c[b] for c in cotangents])
        np.testing.assert_allclose(gradients[b], want, atol=1e-5 if dtype == "complex64" else 1e-13)
        for value, one in zip(values, want_values):
            np.testing.assert_allclose(value[b], one, atol=1e-6 if dtype == "complex64" else 1e-13)
    H = random_sum(5, 6)
    energies, slopes = program.value_and_grad(H, batch)
    want_slopes = [reference.gradient(circuit, H, row) for row in batch]
    np.testing.assert_allclose(energies, program.expectation(H, batch), atol=1e-5)
    np.testing.assert_allclose(slopes, want_slopes, atol=1e-4 if dtype == "complex64" else 1e-13)


def test_an_empty_batch_and_a_circuit_without_parameters() -> None:
    circuit, _ = ansatz()
    values, gradients = qd.compile(circuit).value_and_grad("Z0", np.zeros((0, circuit.num_parameters)))
    assert values.shape == (0,)
    assert gradients.shape == (0, circuit.num_parameters)
    value, gradient = qd.compile(qd.Circuit(2).x(1)).value_and_grad("Z1")
    assert value == -1
    assert gradient.shape == (0,)


@both
def test_jacobian_has_a_row_for_each_observable(dtype: str) -> None:
    circuit, params = ansatz()
    observables = ["Z0", "X1 X2", random_sum(5, 4)]
    got = qd.compile(circuit, dtype=dtype).jacobian(observables, params)
    want = [reference.gradient(circuit, qd.PauliSum(o) if isinstance(o, str) else o, params) for o in observables]
    np.testing.assert_allclose(got, want, atol=2e-5 if dtype == "complex64" else 1e-13)
    batch = np.stack([params, -params])
    got = qd.compile(circuit, dtype="complex128").jacobian(observables, batch)
    assert got.shape == (2, 3, circuit.num_parameters)
    np.testing.assert_allclose(got[0], want, atol=1e-12)


def test_jacobian_checks_all_observables_first_and_looks_at_one_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit, params = ansatz()
    monkeypatch.setattr(RowPrograms, "unfit", "the test wants states")
    program = qd.compile(circuit)
    asked = []

    def counting(ket: Any, observables: Any, *more: Any) -> Any:
        asked.append(len(observables))
        return pull_back(ket, observables, *more)

    monkeypatch.setattr(expectation, "pull_back", counting)
    for bad, words in (("Z9", "acts on qubit 9"), (qd.PauliSum({"X0": 1j}), "not Hermitian")):
        with pytest.raises(StateError, match=words):
            program.jacobian(["Z0", bad], params)
    assert asked == []
    program.jacobian(["Z0", "X1", "Y2"], params)
    assert asked == [1, 1, 1]


@both
def test_parameter_shifts_and_finite_differences_agree(dtype: str) -> None:
    t = qd.ParameterVector("t", 10)
    circuit = (
        qd.Circuit(4).h(range(4)).rx(t[0], 0).crz(t[1], 0, 1).cu(t[2], t[3], t[4], t[5], 1, 2).fsim(t[6], t[7], 2, 3)
    )
    circuit.xx_plus_yy(t[8], t[9], 3, 0).pauli_rotation(t[0] - 2 * t[1], "XYZ", [0, 1, 2]).r(t[2], t[8], 1).cp(
        t[9], 0, 3
    )
    circuit.append(qd.circuit.pauli_rotation_gate("XY").controlled(1, 0), [3, 1, 2], [t[4]]).u2(t[5], t[6], 2).ry(
        t[7], 3
    )
    params = np.random.default_rng(3).uniform(-3, 3, 10)
    H = random_sum(4, 6, seed=8)
    program = qd.compile(circuit, dtype=dtype)
    value, gradient = program.value_and_grad(H, params)
    np.testing.assert_allclose(
        gradient, reference.gradient(circuit, H, params), atol=5e-5 if dtype == "complex64" else 1e-12
    )
    for method, exact in (("parameter-shift", 1e-11), ("finite-difference", 1e-8)):
        other, same = program.value_and_grad(H, params, method=method)
        assert other == pytest.approx(value, abs=1e-5)
        np.testing.assert_allclose(same, gradient, atol=1e-3 if dtype == "complex64" else exact)
    _, rows = program.value_and_grad(H, np.stack([params, params]), method="parameter-shift")
    np.testing.assert_allclose(rows[1], gradient, atol=1e-3)


def test_derivatives_by_the_coefficients_of_the_observable() -> None:
    circuit, params = ansatz()
    H = random_sum(5, 6)
    program = qd.compile(circuit, dtype="complex128")
    value, gradient, by_coefficient = program.value_and_grad(H, params, coefficients=True)
    np.testing.assert_allclose(by_coefficient @ H.coefficients.real, value, atol=1e-12)
    for k, (string, _) in enumerate(H):
        assert by_coefficient[k] == pytest.approx(
            reference.expectation(circuit, qd.PauliSum(string), params), abs=1e-12
        )
    np.testing.assert_allclose(gradient, program.value_and_grad(H, params)[1])
    batch = program.value_and_grad(H, np.stack([params, params]), coefficients=True)[2]
    np.testing.assert_allclose(batch, [by_coefficient, by_coefficient])


def test_parameters_of_the_last_run_are_used_where_none_are_given() -> None:
    circuit, params = ansatz()
    program = qd.compile(circuit, dtype="complex128").bind(params)
    np.testing.assert_array_equal(program.value_and_grad("Z0")[1], program.value_and_grad("Z0", params)[1])


@pytest.mark.parametrize(
    ("circuit", "words"),
    [
        (qd.Circuit(2, 1).ry(qd.Parameter("a"), 0).measure(0, 0).h(0), "measure of qubit 0"),
        (qd.Circuit(2).h(1).ry(qd.Parameter("a"), 0).reset(1), "reset of qubit 1"),
        (qd.Circuit(2).ry(qd.Parameter("a"), 0).initialize(1, [0, 1]), "initialize of qubits 0, 1"),
    ],
)
def test_circuits_that_are_not_unitary_are_refused(circuit: qd.Circuit, words: str) -> None:
    program = qd.compile(circuit)
    for call in (
        lambda: program.value_and_grad("Z0", [0.1]),
        lambda: program.value_and_grad("Z0", [0.1], method="parameter-shift"),
        lambda: program.vjp(["Z0"], [0.1], [1.0]),
        lambda: program.jacobian(["Z0"], [0.1]),
    ):
        with pytest.raises(StateError, match=words):
            call()


def test_branches_are_refused() -> None:
    circuit = qd.Circuit(2, 1).ry(qd.Parameter("a"), 0)
    with circuit.if_(0, 1):
        circuit.x(1)
    with pytest.raises(StateError, match="x of qubit 1 under a classical condition"):
        qd.compile(circuit).value_and_grad("Z0", [0.1])


def test_wrong_arguments_are_refused() -> None:
    circuit, params = ansatz()
    program = qd.compile(circuit)
    with pytest.raises(StateError, match="method='spsa': there are adjoint, parameter-shift, finite-difference"):
        program.value_and_grad("Z0", params, method="spsa")
    with pytest.raises(StateError, match="2 outputs take as many cotangents; got 1"):
        program.vjp(["Z0", "Z1"], params, [1.0])
    with pytest.raises(StateError, match=r"has the shape of its value, \(4,\); got \(2,\)"):
        program.vjp([qd.Probabilities([0, 1])], params, [np.ones(2)])
    with pytest.raises(StateError, match="is float64; got complex128"):
        program.vjp(["Z0"], params, [1j])
    with pytest.raises(StateError, match="not finite"):
        program.vjp(["Z0"], params, [np.inf])
    with pytest.raises(StateError, match="outputs must be a list"):
        program.vjp("Z0", params, [1.0])  # type: ignore[arg-type]
    with pytest.raises(StateError, match="needs a PauliSum"):
        program.value_and_grad("Z0", params, coefficients=True)
    with pytest.raises(StateError, match="not Hermitian"):
        program.value_and_grad({"Z0": 1j}, params)
    with pytest.raises(StateError, match="an overlap needs two states of one size and dtype"):
        program.vjp([qd.Overlap(qd.StateVector(4))], params, [1.0])


def test_probabilities_of_qubits_that_can_be_read_only_once_or_change() -> None:
    circuit, params = ansatz()
    program, cotangent = qd.compile(circuit), np.arange(4.0)
    want = program.vjp([qd.Probabilities([0, 2])], params, [cotangent])
    listed = [0, 2]
    for output in (qd.Probabilities(iter([0, 2])), qd.Probabilities(np.array([0, 2])), qd.Probabilities(listed)):
        listed[:] = [1]
        assert output == qd.Probabilities((0, 2))
        for _ in range(2):
            found = program.vjp([output], params, [cotangent])
            np.testing.assert_array_equal(found[0][0], want[0][0])
            np.testing.assert_array_equal(found[1], want[1])


def test_an_output_that_moves_the_state_changes_no_gradient() -> None:
    class Moving(qd.Probabilities):
        def pull_back(self, ket: qd.StateVector, cotangent: np.ndarray, bra: qd.StateVector) -> None:
            super().pull_back(ket, cotangent, bra)
            ket.relayout(Layout((2, 0, 1)))

    theta = qd.ParameterVector("t", 3)
    circuit = qd.Circuit(3).ry(theta[0], 0).cx(0, 1).rx(theta[1], 1).cx(1, 2).ry(theta[2], 2)
    program, params, cotangent = qd.compile(circuit, dtype="complex128"), [0.4, 0.9, 1.3], np.array([1.0, -2.0])
    _, want = program.vjp([qd.Probabilities(1)], params, [cotangent])
    _, got = program.vjp([Moving(1)], params, [cotangent])
    np.testing.assert_allclose(got, want, atol=1e-13)


@pytest.mark.parametrize("given", [np.ones(4) / 2, [1, 0], "00", None])
def test_an_overlap_takes_a_state_and_nothing_else(given) -> None:
    with pytest.raises(StateError, match=r"Overlap takes a StateVector, got .*from_amplitudes"):
        qd.Overlap(given)
