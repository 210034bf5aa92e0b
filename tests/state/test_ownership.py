"""A program owns what it was made from: what is changed afterwards changes nothing."""

import numpy as np
import pytest

import qdist as qd
from qdist.circuit import CircuitError
from qdist.plan import Layout
from qdist.state import reference

N = 5


def test_a_circuit_that_grows_after_compile_changes_nothing() -> None:
    theta = qd.ParameterVector("theta", N)
    circuit = qd.Circuit(N)
    for q in range(N):
        circuit.ry(theta[q], q)
    for q in range(N - 1):
        circuit.cx(q, q + 1)
    before = circuit.copy()
    program = qd.compile(circuit, dtype="complex128")
    params = np.random.default_rng(0).normal(size=N)
    state, observable = reference.state(before, params), qd.PauliSum({"Z0": 1.0, "X3 X4": 0.5})
    circuit.h(0).rx(qd.Parameter("new"), 1).measure_all()
    np.testing.assert_allclose(program.run(params).amplitudes(), state, atol=1e-13)
    # What is planned later: another start, the shortened program of gradients, shots.
    start = qd.StateVector.from_amplitudes(np.full(1 << N, 2.0 ** (-N / 2)), layout=Layout(range(N)[::-1]))
    want = reference.state(before, params, initial=start.amplitudes())
    np.testing.assert_allclose(program.run(params, initial=start).amplitudes(), want, atol=1e-13)
    for method in ("adjoint", "parameter-shift"):
        _, gradient = program.value_and_grad(observable, params, method=method)
        np.testing.assert_allclose(gradient, reference.gradient(before, observable, params), atol=1e-12)
    assert program.run_batch([params]).shape == (1, 1 << N)
    assert {len(bits) for bits in program.counts(10, params, seed=0)} == {N}
    assert program.circuit == before
    with pytest.raises(CircuitError, match=r"change a copy\(\)"):
        program.circuit.x(0)


def test_a_layer_keeps_its_circuit_observables_and_outputs() -> None:
    theta = qd.ParameterVector("theta", 2)
    circuit = qd.Circuit(2).ry(theta[0], 0).ry(theta[1], 1)
    terms, matrix, qubits = {"Z0": 1.0}, np.diag([1.0, 1.0, -1.0, -1.0]), [0]
    outputs = [terms, matrix, (matrix[:2, :2] * 2, qubits), qd.Variance(terms), qd.Probabilities(qubits)]

    def values() -> list[float]:
        return layer().numpy().ravel().tolist()

    layer = qd.nn.QuantumLayer(circuit, outputs, weights=theta, initial=[0.4, 1.1], dtype="complex128")
    before = values()
    circuit.x(0).x(1)
    terms["Z0"], terms["X1"] = 5.0, 3.0
    matrix[:] = 0
    qubits[0] = 1
    outputs.append("Z1")
    assert values() == before
    layer().sum().backward()
    cosines, sines = np.cos([0.4, 1.1]), np.sin([0.4, 1.1])
    np.testing.assert_allclose(before[:2], cosines, atol=1e-13)
    # d/da of cos a + (1 - cos^2 a) + (cos^2(a/2) + sin^2(a/2)), and of cos b.
    want = [-sines[0] + 2 * cosines[0] * sines[0], -sines[1]]
    np.testing.assert_allclose(layer.weights.grad.numpy(), want, atol=1e-12)


def test_observables_that_are_changed_between_calls_count_as_they_are() -> None:
    state = qd.simulate(qd.Circuit(1).ry(0.7, 0), dtype="complex128")
    program = qd.compile(qd.Circuit(1).ry(0.7, 0), dtype="complex128")
    terms, matrix = {"Z0": 1.0}, np.diag([1.0, -1.0])
    for scale in (1.0, -2.0, 0.5):
        terms["Z0"] = scale
        matrix[:] = scale * np.diag([1.0, -1.0])
        for value in (state.expectation(terms), state.expectation(matrix), state.expectation((matrix, [0]))):
            assert value == pytest.approx(scale * np.cos(0.7), abs=1e-12)
        assert program.expectation(terms) == pytest.approx(scale * np.cos(0.7), abs=1e-12)
    observable = qd.PauliSum(terms)
    with pytest.raises(ValueError, match="read-only"):
        observable.coefficients[0] = 7
    masks = np.array([1], np.uint64), np.array([0], np.uint64), np.array([1.0 + 0j])
    built = qd.PauliSum.from_masks(*masks)
    before = state.expectation(built)
    masks[0][0], masks[1][0], masks[2][0] = 0, 1, 9
    assert state.expectation(built) == before


def test_arrays_of_gates_starts_and_parameters_are_copied() -> None:
    x, start = np.array([[0, 1], [1, 0]], complex), np.array([0, 1], complex)
    amplitudes, theta = np.array([0, 1], complex), np.array([0.3])
    angle = qd.Parameter("angle")
    program = qd.compile(qd.Circuit(1).initialize(start).unitary(x, 0).rx(angle, 0), dtype="complex128").bind(theta)
    state = qd.StateVector.from_amplitudes(amplitudes)
    x[:], start[:], amplitudes[:], theta[:] = np.eye(2), [1, 0], [1, 0], 2.0
    np.testing.assert_allclose(program.run().probabilities(), [np.cos(0.15) ** 2, np.sin(0.15) ** 2], atol=1e-12)
    np.testing.assert_array_equal(state.amplitudes(), [0, 1])


def test_gradients_of_a_layer_are_those_of_the_values_it_was_called_with() -> None:
    theta = qd.ParameterVector("theta", 2)
    layer = qd.nn.QuantumLayer(
        qd.Circuit(2).ry(theta[0], 0).ry(theta[1], 0), "Z0", theta[:1], theta[1:], dtype="complex128", initial=[0.2]
    )
    x = np.array([[0.3], [0.4]])
    out = layer(x)
    x[:] = 2.0
    layer(np.array([[1.0], [1.5]]))
    out.sum().backward()
    want = -np.sin(0.5) - np.sin(0.6)
    assert layer.weights.grad.item() == pytest.approx(want, abs=1e-12)
