"""Gradients of programs that start from a given state, and of batches however they are stored."""

import numpy as np
import pytest

from qdist import Circuit, ParameterVector, Probabilities, StateVector, Variance, compile, library
from qdist.backends import StateError

OUTPUTS = [{"Z0 X1": 1.0, "Y2": 0.3}, Probabilities([0, 2]), Variance({"X1": 1.0})]
COTANGENTS = [1.0, np.array([0.3, -1.0, 0.5, 2.0]), 0.7]


def circuit(num_qubits: int) -> Circuit:
    t = ParameterVector("t", 6)
    made = Circuit(num_qubits).rx(t[0], 0).cx(0, 1).ry(t[1], 1).rzz(t[2], 1, 2).cx(2, 0)
    return made.crx(t[3], 0, 2).u(t[4], t[5], t[0], 1).cx(0, num_qubits - 1)


def state(num_qubits: int, seed: int = 3) -> StateVector:
    rng = np.random.default_rng(seed)
    amplitudes = rng.normal(size=1 << num_qubits) + 1j * rng.normal(size=1 << num_qubits)
    return StateVector.from_amplitudes(amplitudes / np.linalg.norm(amplitudes))


@pytest.mark.parametrize("num_qubits", [3, 9])
def test_gradient_from_a_state_is_that_of_differences(num_qubits):
    program, start = compile(circuit(num_qubits), dtype="complex128"), state(num_qubits)
    theta = np.random.default_rng(1).normal(size=6)

    def loss(theta):
        end = program.run(theta, initial=start)
        found = end.expectation(OUTPUTS[0]), end.probabilities([0, 2]), end.variance({"X1": 1.0})
        return sum(np.sum(g * value) for g, value in zip(COTANGENTS, found))

    before = start.amplitudes()
    values, gradient = program.vjp(OUTPUTS, theta, COTANGENTS, initial=start)
    expected = [(loss(theta + 1e-5 * e) - loss(theta - 1e-5 * e)) / 2e-5 for e in np.eye(6)]
    np.testing.assert_allclose(gradient, expected, atol=1e-8)
    assert values[0] == pytest.approx(program.run(theta, initial=start).expectation(OUTPUTS[0]))
    np.testing.assert_array_equal(start.amplitudes(), before)
    # The program's own start is as it was.
    _, own = program.vjp([OUTPUTS[0]], theta, [1.0])
    np.testing.assert_allclose(own, program.value_and_grad(OUTPUTS[0], theta, method="parameter-shift")[1], atol=1e-9)


def test_a_batch_from_an_initial_state_is_what_its_rows_are():
    program = compile(circuit(3), dtype="complex128")
    theta = np.random.default_rng(6).normal(size=(2, 6))
    found = program.vjp([{"Z0": 1.0}], theta, [np.array([1.0, -2.0])], initial=state(3))
    rows = [program.vjp([{"Z0": 1.0}], t, [c], initial=state(3)) for t, c in zip(theta, (1.0, -2.0))]
    for row, (values, gradient) in enumerate(rows):
        np.testing.assert_allclose(found[0][0][row], values[0], atol=1e-12)
        np.testing.assert_allclose(found[1][row], gradient, atol=1e-12)


def test_a_batch_may_be_stored_in_any_order():
    program = compile(circuit(4), dtype="complex128")
    theta = np.random.default_rng(5).normal(size=(3, 6))
    expected = program.value_and_grad(OUTPUTS[0], theta)
    for stored in (np.asfortranarray(theta), np.repeat(theta, 2, axis=1)[:, ::2]):
        for found, other in zip(program.value_and_grad(OUTPUTS[0], stored), expected):
            np.testing.assert_allclose(found, other, atol=1e-12)


@pytest.mark.parametrize("given", ["010", b"010", 2, 1.5, True, {"010": 1}, {2}, np.array(1.0), Ellipsis], ids=repr)
def test_what_is_no_initial_state_is_refused(given) -> None:
    program = compile(library.real_amplitudes(3, 1))
    theta = np.zeros(program.circuit.num_parameters)
    for ask in (
        lambda: program.run_batch([theta], initial=given),
        lambda: program.value_and_grad("Z0", theta, initial=given),
        lambda: program.vjp(["Z0"], theta, [1.0], initial=given),
    ):
        with pytest.raises(StateError, match=r"initial is a StateVector, the 2\*\*n amplitudes of one, or .*basis\(n"):
            ask()


def test_amplitudes_of_one_state_are_that_state(device: str) -> None:
    program = compile(library.real_amplitudes(3, 1), dtype="complex128", device=device)
    theta = np.linspace(0.1, 1.2, program.circuit.num_parameters)
    amplitudes = np.array([0.6, 0, 0, 0.8j, 0, 0, 0, 0])
    start = StateVector.from_amplitudes(amplitudes, device=device)
    for given in (amplitudes, amplitudes.tolist()):
        np.testing.assert_allclose(
            program.run(theta, initial=given).amplitudes(), program.run(theta, initial=start).amplitudes()
        )
        value, gradient = program.value_and_grad("Z0", theta, initial=given)
        expected, by_theta = program.value_and_grad("Z0", theta, initial=start)
        assert value == pytest.approx(expected)
        np.testing.assert_allclose(gradient, by_theta)
        np.testing.assert_allclose(program.vjp(["Z0"], theta, [1.0], initial=given)[1], by_theta)
    with pytest.raises(StateError, match="has 8 amplitudes"):
        program.value_and_grad("Z0", theta, initial=amplitudes[:4])
