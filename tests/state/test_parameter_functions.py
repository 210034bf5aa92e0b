"""Programs with products and functions of parameters: every way a run and a gradient can go."""

import numpy as np
import pytest

import qdist as qd
from qdist.state import reference

N = 5
a, b = qd.Parameter("a"), qd.Parameter("b")
v = qd.ParameterVector("v", 3)


def circuit(num_qubits: int) -> qd.Circuit:
    made = qd.Circuit(num_qubits).h(range(num_qubits))
    for q in range(num_qubits):
        made.rx(a * v[q % 3], q).rz(np.sin(v[q % 3]) + 2 * b, q)
    made.cx(0, 1).rzz(a * b * v[0], 0, num_qubits - 1).crx(np.exp(-b), 1, 2).ry(a, 0)
    return made


THETA = np.random.default_rng(3).uniform(0.2, 1.2, (4, 5))
H = qd.PauliSum({"Z0 Z1": 0.7, "X2": -1.1, "Y0 Y3": 0.4})


@pytest.mark.parametrize("num_qubits", [N, 14])
@pytest.mark.parametrize("method", ["adjoint", "parameter-shift", "finite-difference"])
def test_gradients_are_those_of_the_reference(num_qubits: int, method: str) -> None:
    if num_qubits > N and method != "adjoint":
        return
    made = circuit(num_qubits)
    program = qd.compile(made, dtype="complex128")
    assert program.circuit.parameters == made.parameters
    expected = None
    if num_qubits == N:
        expected = reference.expectation(made, H, THETA[0]), reference.gradient(made, H, THETA[0])
    value, gradient = program.value_and_grad(H, THETA[0], method=method)
    if expected is None:
        expected = program.value_and_grad(H, THETA[0], method="finite-difference")
    np.testing.assert_allclose(value, expected[0], atol=1e-9)
    np.testing.assert_allclose(gradient, expected[1], atol=1e-8)


def test_runs_and_bound_values_know_functions() -> None:
    made = circuit(N)
    program = qd.compile(made, dtype="complex128")
    expected = reference.state(made, THETA[0])
    names = {p.name: x for p, x in zip(made.parameters, THETA[0])}
    np.testing.assert_allclose(program.run(names).amplitudes(), expected, atol=1e-12)
    program.bind(THETA[1])
    value, gradient = program.value_and_grad(H)
    other_value, other_gradient = program.value_and_grad(H, THETA[1])
    assert value == other_value
    np.testing.assert_array_equal(gradient, other_gradient)
    np.testing.assert_allclose(program.jacobian([H])[0], gradient, atol=1e-12)


@pytest.mark.parametrize("num_qubits", [N, 13, 17])
def test_batches_are_their_rows(num_qubits: int) -> None:
    program = qd.compile(circuit(num_qubits), dtype="complex128")
    values, gradients = program.value_and_grad(H, THETA)
    np.testing.assert_allclose(program.expectation(H, THETA), values, atol=1e-10)
    for row, value, gradient in zip(THETA, values, gradients):
        one_value, one_gradient = program.value_and_grad(H, row)
        np.testing.assert_allclose(value, one_value, atol=1e-10)
        np.testing.assert_allclose(gradient, one_gradient, atol=1e-10)
    if num_qubits < 17:
        np.testing.assert_allclose(program.run_batch(THETA)[2], program.run(THETA[2]).amplitudes(), atol=1e-12)


def test_functions_without_a_value_are_refused_before_the_run() -> None:
    program = qd.compile(qd.Circuit(1).rx(1 / a, 0))
    with pytest.raises(qd.CircuitError, match="1/a is not a finite number for a = 0"):
        program.run({"a": 0.0})


@pytest.mark.parametrize("power", [np.power, np.float_power, lambda x, k: x**k])
def test_polynomials_have_derivatives_at_zero(power) -> None:
    coefficients, inner = [0.3, -0.7, 1.1, 0.4], np.sin(a) * 0.5
    made = qd.Circuit(1)
    for x in (a, b, inner):
        made.ry(sum(c * power(x, k) for k, c in enumerate(coefficients)), 0).rx(0.2, 0)
    program = qd.compile(made, dtype="complex128")
    polynomial = np.polynomial.Polynomial(coefficients)
    plain = qd.Circuit(1)
    angles = qd.ParameterVector("angles", 3)
    for angle in angles:
        plain.ry(angle, 0).rx(0.2, 0)
    reference_program = qd.compile(plain, dtype="complex128")

    def expected(values: np.ndarray) -> np.ndarray:
        inner_values = np.array([*values, 0.5 * np.sin(values[0])])
        _, by_angle = reference_program.value_and_grad("Z0", polynomial(inner_values))
        by_inner = by_angle * polynomial.deriv()(inner_values)
        return np.array([by_inner[0] + by_inner[2] * 0.5 * np.cos(values[0]), by_inner[1]])

    direction, step = np.array([0.6, -0.9]), 1e-4
    for values in ([0.0, 0.0], [0.0, 0.7], [-0.4, 0.0], [0.5, -1.2]):
        theta = np.array(values)
        np.testing.assert_allclose(program.value_and_grad("Z0", theta)[1], expected(theta), atol=1e-12)
        found = program.hvp("Z0", theta, direction)
        change = expected(theta + step * direction) - expected(theta - step * direction)
        np.testing.assert_allclose(found, change / (2 * step), atol=1e-6)
