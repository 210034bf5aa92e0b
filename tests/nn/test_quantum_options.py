"""QuantumLayer: complex outputs, frozen weights, amplitudes as inputs, shots; copies of layers and programs."""

import copy
import pickle

import numpy as np
import pytest

import qdist as qd
from qdist import nn
from qdist.backends.errors import StateError
from qdist.tensor import Tensor

x, w = qd.ParameterVector("x", 2), qd.ParameterVector("w", 3)
X = np.random.default_rng(0).uniform(-1, 1, (3, 2))
W = np.array([0.3, -0.4, 0.9])


def circuit() -> qd.Circuit:
    return qd.Circuit(3).rx(x[0], 0).ry(x[1], 1).cx(0, 1).ry(w[0], 0).rz(w[1], 1).cx(1, 2).ry(w[2], 2)


def layer(observables: object, **options: object) -> nn.QuantumLayer:
    given = {"inputs": x, "weights": w, "dtype": "complex128", "initial": W, "device": "cpu"} | options
    return nn.QuantumLayer(circuit(), observables, **given)


def check_gradients(made: nn.QuantumLayer, data: np.ndarray, tolerance: float = 1e-7) -> None:
    """By x and the weights, against differences of a weighted sum of the outputs."""
    given = Tensor(data, requires_grad=True)
    out = made(given)
    weights = np.random.default_rng(9).normal(size=out.shape)
    (out * Tensor(weights)).sum().backward()
    start = made.weights.data.copy()

    def loss(inputs: np.ndarray, values: np.ndarray) -> float:
        made.weights.data[:] = values
        return float((made(inputs).data * weights).sum())

    step = 1e-5
    for k in np.ndindex(data.shape):
        change = np.zeros_like(data)
        change[k] = step
        difference = (loss(data + change, start) - loss(data - change, start)) / (2 * step)
        assert given.grad.data[k] == pytest.approx(difference, abs=tolerance)
    for k in range(len(start)):
        change = np.eye(len(start))[k] * step
        difference = (loss(data, start + change) - loss(data, start - change)) / (2 * step)
        assert made.weights.grad.data[k] == pytest.approx(difference, abs=tolerance)


def test_states_and_overlaps_are_real_and_imaginary_columns() -> None:
    target = qd.simulate(qd.Circuit(3).h(0).rx(0.4, 2), dtype="complex128", device="cpu")
    made = layer([qd.State(), "Z0", qd.Overlap(target)])
    out = made(X).data
    assert out.shape == (3, 8 + 8 + 1 + 2)
    names = dict(zip(circuit().parameters, [*X[1], *W]))
    state = qd.simulate(circuit(), names, dtype="complex128", device="cpu")
    np.testing.assert_allclose(out[1, :8] + 1j * out[1, 8:16], state.amplitudes(), atol=1e-12)
    assert out[1, 17] + 1j * out[1, 18] == pytest.approx(target.inner(state), abs=1e-12)
    target.normalize()
    target.local[:] = 0  # The layer has a copy.
    check_gradients(made, X)


def test_frozen_weights_are_constants() -> None:
    made = layer(["Z0", "Z2"], frozen={"w[0]": 0.3, w[2]: 0.9}, initial=[-0.4])
    assert made.weights.shape == (1,)
    np.testing.assert_allclose(made(X).data, layer(["Z0", "Z2"])(X).data, atol=1e-12)
    check_gradients(made, X)


def test_amplitudes_are_embedded_row_by_row() -> None:
    body = qd.Circuit(3).ry(w[0], 0).cx(0, 1).rz(w[1], 1).cx(1, 2).ry(w[2], 2)
    made = nn.QuantumLayer(
        body, ["Z0", "X1 Z2"], weights=w, amplitudes=True, dtype="complex128", initial=W, device="cpu"
    )
    data = np.random.default_rng(4).normal(size=(2, 6))
    out = made(data).data
    for row, features in zip(out, data):
        whole = qd.library.amplitude_embedding(features, normalize=True, pad_with=0).compose(body)
        state = qd.simulate(whole, {"w": W}, dtype="complex128", device="cpu")
        np.testing.assert_allclose(row, state.expectations(["Z0", "X1 Z2"]), atol=1e-12)
    check_gradients(made, data)
    with pytest.raises(StateError, match="row 1 of x has the norm 0"):
        made(np.array([[1.0, 0], [0, 0]]))
    with pytest.raises(ValueError, match="there are no inputs"):
        layer("Z0", amplitudes=True)


def test_shots_give_noisy_outputs_and_gradients_around_the_exact_ones() -> None:
    exact, noisy = layer(["Z0", "Z2"]), layer(["Z0", "Z2"], shots=20000, seed=1, initial=None)
    noisy.weights.data[:] = W
    np.testing.assert_allclose(noisy(X).data, exact(X).data, atol=0.04)
    assert not np.array_equal(noisy(X).data, noisy(X).data)
    gradients = []
    for made in (exact, noisy):
        given = Tensor(X, requires_grad=True)
        made(given).sum().backward()
        gradients.append((given.grad.data, made.weights.grad.data))
    np.testing.assert_allclose(gradients[1][0], gradients[0][0], atol=0.08)
    np.testing.assert_allclose(gradients[1][1], gradients[0][1], atol=0.15)
    # The same seed, the same outcomes, also of weights that are given.
    first, second, other = (layer(["Z0", "Z2"], shots=50, seed=seed)(X).data for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, second)
    assert (first != other).any()
    with pytest.raises(ValueError, match=r"shots= estimates expectation values and probabilities; .* is neither"):
        layer(qd.Variance("Z0"), shots=10)


def test_shots_give_probabilities_beside_expectation_values() -> None:
    outputs = [qd.Probabilities([0, 2]), "Z2", qd.Probabilities(1)]
    exact, noisy = layer(outputs), layer(outputs, shots=20000, seed=1, initial=None)
    noisy.weights.data[:] = W
    found = noisy(X).data
    # Five standard deviations of a share of 20,000 shots.
    np.testing.assert_allclose(found, exact(X).data, atol=0.04)
    np.testing.assert_allclose(found[:, :4].sum(axis=1), 1)
    np.testing.assert_allclose(found[:, :4] * 20000, np.round(found[:, :4] * 20000), atol=1e-6)
    weights = Tensor(np.random.default_rng(4).normal(size=7))
    gradients = []
    for made in (exact, noisy):
        given = Tensor(X, requires_grad=True)
        (made(given) * weights).sum().backward()
        gradients.append((given.grad.data, made.weights.grad.data))
    np.testing.assert_allclose(gradients[1][0], gradients[0][0], atol=0.12)
    np.testing.assert_allclose(gradients[1][1], gradients[0][1], atol=0.2)


@pytest.mark.parametrize("options", [{}, {"observables": [qd.State()]}])
def test_layers_and_programs_are_copied_and_pickled(options: dict[str, object]) -> None:
    made = layer(options.get("observables", ["Z0", "Z2"]))
    for again in (copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        np.testing.assert_array_equal(again(X).data, made(X).data)
        again.weights.data[:] = 0
        np.testing.assert_array_equal(made.weights.data, W)
        again(Tensor(X)).sum().backward()
        assert made.weights.grad is None
    program = made.program
    for again in (copy.deepcopy(program), pickle.loads(pickle.dumps(program))):
        np.testing.assert_array_equal(again.run([*X[0], *W]).amplitudes(), program.run([*X[0], *W]).amplitudes())
    state = program.run()
    assert pickle.loads(pickle.dumps(state)) == copy.deepcopy(state) == state


def test_other_precisions_are_refused_with_the_line_that_converts() -> None:
    made = nn.QuantumLayer(circuit(), ["Z0"], inputs=x, weights=w, device="auto")
    with pytest.raises(TypeError, match=r"x\.astype\('float32'\).*x\.to\('float32'\).*layer\.to\('float64'\)"):
        made(X)
    assert made(X.astype("float32")).dtype == np.float32
    with pytest.raises(StateError, match="that of row 1, column 0 is nan"):
        made(np.array([[0, 0], [np.nan, 0]], np.float32))


def test_tensor_datasets() -> None:
    data = qd.data.TensorDataset(Tensor(X), np.arange(3))
    assert len(data) == 3
    np.testing.assert_array_equal(data[1][0], X[1])
    assert qd.checkpoint.save is not None
