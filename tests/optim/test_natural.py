"""The quantum natural gradient: its steps are those of the metric tensor, whole or by products with it."""

import numpy as np
import pytest

import qdist as qd
from qdist import nn, optim
from qdist.optim.natural import conjugate_gradients


def layer(inputs: int = 0, dtype: str = "complex128") -> qd.nn.QuantumLayer:
    x, w = qd.ParameterVector("x", 3), qd.ParameterVector("w", 6)
    circuit = qd.Circuit(3)
    for q in range(inputs):
        circuit.rx(x[q], q)
    for k in range(6):
        (circuit.ry if k < 3 else circuit.rz)(w[k], k % 3).cx(k % 3, (k + 1) % 3)
    start = np.linspace(0.2, 1.3, 6)
    return qd.nn.QuantumLayer(circuit, "X0", inputs=[x] if inputs else (), weights=w, dtype=dtype, initial=start)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_a_step_solves_with_the_metric_tensor(dtype: str) -> None:
    model = layer(dtype=dtype)
    before = model.weights.numpy().astype(np.float64)
    optimizer = optim.QuantumNaturalGradient(model.parameters(), model.metric_vector, lr=0.3, damping=0.02)
    model().sum().backward()
    gradient = model.weights.grad.numpy().astype(np.float64)
    optimizer.step()
    metric = model.program.metric_tensor(before)
    want = before - 0.3 * np.linalg.solve(metric + 0.02 * np.eye(6), gradient)
    np.testing.assert_allclose(model.weights.numpy(), want, atol=1e-4 if dtype == "complex64" else 1e-6)
    np.testing.assert_allclose(model.weights.grad.numpy(), gradient)


def test_the_metric_of_a_batch_is_the_mean_over_its_rows() -> None:
    model, rng = layer(inputs=3), np.random.default_rng(0)
    x, v = rng.normal(size=(4, 3)), rng.normal(size=6)
    weights = model.weights.numpy()
    wanted = [model.program.metric_tensor(np.concatenate([row, weights]))[3:, 3:] @ v for row in x]
    np.testing.assert_allclose(model.metric_vector(v, x), np.mean(wanted, axis=0), atol=1e-12)
    np.testing.assert_allclose(model.metric_vector(v, qd.Tensor(x)), np.mean(wanted, axis=0), atol=1e-12)


def test_conjugate_gradients_end_after_as_many_products_as_told() -> None:
    rng = np.random.default_rng(1)
    root = rng.normal(size=(8, 8))
    matrix, right, calls = root @ root.T + np.eye(8), rng.normal(size=8), []

    def product(v: np.ndarray) -> np.ndarray:
        calls.append(v)
        return matrix @ v

    np.testing.assert_allclose(
        conjugate_gradients(product, right, 30, 1e-12), np.linalg.solve(matrix, right), atol=1e-9
    )
    assert 8 <= len(calls) <= 12
    calls.clear()
    conjugate_gradients(product, right, 3, 1e-12)
    assert len(calls) == 3
    assert not conjugate_gradients(product, 0 * right, 3, 1e-12).any()


def test_state_and_options_come_back() -> None:
    model = layer()
    optimizer = optim.QuantumNaturalGradient(model.parameters(), model.metric_vector, lr=0.2, damping=0.1)
    model().sum().backward()
    optimizer.step()
    other = optim.QuantumNaturalGradient(model.parameters(), model.metric_vector)
    other.load_state_dict(optimizer.state_dict())
    assert [other.param_groups[0][name] for name in ("lr", "damping")] == [0.2, 0.1]
    assert other.started


def test_refusals() -> None:
    model = layer()
    for wrong in (-1, float("nan")):
        for name in ("damping", "tolerance", "iterations"):
            with pytest.raises(ValueError, match=f"{name} must be at least [01]"):
                optim.QuantumNaturalGradient(model.parameters(), model.metric_vector, **{name: wrong})
    with pytest.raises(ValueError, match=r"iterations is a whole number, got 2\.5"):
        optim.QuantumNaturalGradient(model.parameters(), model.metric_vector, iterations=2.5)
    optimizer = optim.QuantumNaturalGradient(model.parameters(), model.metric_vector)
    with pytest.raises(ValueError, match="one group"):
        optimizer.add_param_group({"params": [nn.Parameter(np.zeros(2))]})
    with pytest.raises(TypeError, match="real parameters"):
        optim.QuantumNaturalGradient([nn.Parameter(np.zeros(2, np.complex128))], model.metric_vector)
    two = [nn.Parameter(np.zeros(2)), nn.Parameter(np.zeros(2))]
    optimizer = optim.QuantumNaturalGradient(two, lambda v: v)
    optimizer.step()
    two[0].grad = qd.Tensor(np.ones(2))
    with pytest.raises(ValueError, match="no gradient"):
        optimizer.step()
    with pytest.raises(ValueError, match="by the weights"):
        qd.nn.QuantumLayer(qd.Circuit(2).h(0), "Z0").metric_vector([])


def test_a_program_is_no_metric() -> None:
    program = qd.compile(qd.Circuit(1).ry(qd.Parameter("a"), 0))
    with pytest.raises(TypeError, match=r"not Program: lambda v: program\.metric_vector"):
        optim.QuantumNaturalGradient([nn.Parameter(np.zeros(1))], program)  # type: ignore[arg-type]


def test_gradients_that_do_not_fit_their_angles_are_refused() -> None:
    for gradient in (np.ones((2, 3)), np.ones(()), np.ones((3, 2), np.complex128)):
        angles = [nn.Parameter(np.zeros((3, 2))), nn.Parameter(np.zeros(1))]
        optimizer = optim.QuantumNaturalGradient(angles, lambda v: v)
        angles[0].grad, angles[1].grad = qd.Tensor(gradient), qd.Tensor(np.ones(1))
        with pytest.raises(ValueError, match="was given to a parameter"):
            optimizer.step()
