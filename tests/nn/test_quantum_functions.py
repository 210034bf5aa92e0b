"""QuantumLayer with functions of inputs and weights, names, and vectors with unused elements."""

import numpy as np
import pytest

import qdist as qd
from qdist import nn
from qdist.tensor import Tensor

x, w = qd.ParameterVector("x", 3), qd.ParameterVector("w", 4)
X = np.random.default_rng(0).uniform(0.2, 1, (3, 3))
W = np.random.default_rng(1).uniform(0.2, 1, 4)


def circuit(num_qubits: int) -> qd.Circuit:
    made = qd.Circuit(num_qubits).h(range(num_qubits))
    made.rx(x[0] * w[1], 0).ry(np.sin(x[2]), 1).rz(w[0] * w[3], 0).cx(0, 1).ry(w[3] + x[0], num_qubits - 1)
    return made


@pytest.mark.parametrize("num_qubits", [3, 17])
def test_gradients_by_inputs_and_weights_follow_the_chain_rule(num_qubits: int) -> None:
    observables = ["Z0", f"X{num_qubits - 1}"]
    layer = nn.QuantumLayer(
        circuit(num_qubits), observables, inputs=x, weights="w", dtype="complex128", initial=W, device="cpu"
    )
    assert (layer.in_features, layer.weights.shape) == (3, (4,))
    given = Tensor(X, requires_grad=True)
    out = layer(given)
    weights = np.random.default_rng(2).normal(size=out.shape)
    (out * Tensor(weights)).sum().backward()

    def loss(inputs: np.ndarray, values: np.ndarray) -> float:
        layer.weights.data[:] = values
        return float((layer(inputs).data * weights).sum())

    for b, k in [(0, 0), (1, 2), (2, 1)]:
        step = np.zeros_like(X)
        step[b, k] = 1e-5
        difference = (loss(X + step, W) - loss(X - step, W)) / 2e-5
        assert given.grad.data[b, k] == pytest.approx(difference, abs=1e-7)
    for k in range(4):
        step = np.eye(4)[k] * 1e-5
        difference = (loss(X, W + step) - loss(X, W - step)) / 2e-5
        assert layer.weights.grad.data[k] == pytest.approx(difference, abs=1e-7)
    assert layer.weights.grad.data[2] == 0
    assert not given.grad.data[:, 1].any()
    assert layer(np.zeros((0, 3))).shape == (0, 2)


@pytest.mark.parametrize("used", [[0], [0, 2], [2, 1]])
def test_unused_elements_of_vectors_have_no_gradient_without_functions_too(used: list[int]) -> None:
    made = qd.Circuit(2).rx(x[used[0]], 0).ry(w[1], 1).cx(0, 1).rx(0.4, 1)
    for k in used[1:]:
        made.ry(x[k], 1).cx(1, 0).rx(0.3, 0)
    layer = nn.QuantumLayer(made, ["Z1", "Y0"], inputs=x, weights=w, dtype="complex128", initial=W, device="cpu")
    given = Tensor(X, requires_grad=True)
    out = layer(given)
    values = [{**{x[k]: row[k] for k in used}, w[1]: W[1]} for row in X]
    wanted = [[qd.simulate(made, v, dtype="complex128").expectation(o) for o in ("Z1", "Y0")] for v in values]
    np.testing.assert_allclose(out.data, wanted, atol=1e-12)
    out.sum().backward()
    moves = np.abs(given.grad.data)
    assert moves[:, used].min() > 0
    assert not np.delete(moves, used, axis=1).any()
    np.testing.assert_array_equal(layer.weights.grad.data != 0, [False, True, False, False])
    with pytest.raises(qd.CircuitError, match="inputs: the circuit has no parameter y"):
        nn.QuantumLayer(made, ["Z1"], inputs=qd.Parameter("y"), weights=w)
