"""QuantumLayer: its numbers against the dense reference, its gradients against finite differences."""

import gc
import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import qdist as qd
from qdist import nn, optim, tensor
from qdist.backends.cpu.rows import CpuRows
from qdist.program import adjoint, batches, rows, workspace
from qdist.program.rows import RowPrograms
from qdist.state import StateError, reference

N = 3
_device = "cpu"


@pytest.fixture(scope="module", autouse=True)
def _layers_on_the_device(device: str) -> Iterator[None]:
    """Layers, and what goes into them, are on the device of --device, whatever it is."""
    global _device
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(inspect.unwrap(nn.QuantumLayer.__init__).__kwdefaults__, "device", device)
        _device = device
        yield
    _device = "cpu"


def Tensor(data: Any, **options: Any) -> tensor.Tensor:
    return tensor.Tensor(data, device=_device, **options)


OBSERVABLES = ["Z0", qd.PauliSum({"X0 Y1": 0.5, "Z2": -1.5, "": 0.25}), {"Y2": 1.0}]


def circuit_of(x: qd.ParameterVector, w: qd.ParameterVector) -> qd.Circuit:
    """Uses the elements out of order, more than once and in affine expressions."""
    c = qd.Circuit(N)
    c.h(0).ry(w[3], 1).rx(x[1], 2).cx(0, 1).rz(2 * x[0] - 0.3, 1).crx(w[0], 1, 2)
    c.u(w[1], x[1], w[2] + 0.5 * x[2], 0).rzz(w[0], 0, 2).cx(2, 0)
    return c


@pytest.fixture
def parts() -> tuple[qd.Circuit, qd.ParameterVector, qd.ParameterVector]:
    x, w = qd.ParameterVector("x", 3), qd.ParameterVector("w", 4)
    return circuit_of(x, w), x, w


def expected(circuit: qd.Circuit, params: dict) -> list[float]:
    psi = reference.state(circuit.bind(params))
    sums = [qd.PauliSum(o) for o in OBSERVABLES]
    return [float((psi.conj() @ o.to_matrix(N) @ psi).real) for o in sums]


def differences(loss, array: np.ndarray, step: float = 1e-5) -> np.ndarray:
    """Central differences of loss() by the elements of an array that it reads."""
    gradient = np.zeros(array.shape)
    for index in np.ndindex(array.shape):
        value = float(array[index])
        array[index] = value + step
        above = loss()
        array[index] = value - step
        gradient[index] = (above - loss()) / (2 * step)
        array[index] = value
    return gradient


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_outputs_are_the_references_expectation_values(parts, dtype: str) -> None:
    circuit, x, w = parts
    layer = nn.QuantumLayer(circuit, OBSERVABLES, inputs=x, weights=w, dtype=dtype, seed=1)
    real = np.float32 if dtype == "complex64" else np.float64
    assert layer.weights.dtype == real
    data = np.random.default_rng(0).normal(size=(5, 3)).astype(real)
    out = layer(Tensor(data))
    assert out.shape == (5, 3)
    assert out.dtype == real
    want = [expected(circuit, {x: row, w: layer.weights.numpy()}) for row in data]
    np.testing.assert_allclose(out.numpy(), want, atol=2e-6 if dtype == "complex64" else 1e-13)


def test_features_and_weights_come_in_the_order_given(parts) -> None:
    circuit, x, w = parts
    layer = nn.QuantumLayer(circuit, OBSERVABLES, [x[2], w[1], x[0]], [w[3], x[1], w[0], w[2]], dtype="complex128")
    row = np.array([0.1, 0.2, 0.3])
    with tensor.no_grad():
        layer.weights.assign(Tensor(np.array([0.4, 0.5, 0.6, 0.7])))
    values = {x[2]: 0.1, w[1]: 0.2, x[0]: 0.3, w[3]: 0.4, x[1]: 0.5, w[0]: 0.6, w[2]: 0.7}
    np.testing.assert_allclose(layer(Tensor(row[None])).numpy()[0], expected(circuit, values), atol=1e-13)


def test_gradients_of_inputs_and_weights_are_those_of_finite_differences(parts) -> None:
    circuit, x, w = parts
    layer = nn.QuantumLayer(circuit, OBSERVABLES, inputs=x, weights=w, dtype="complex128", seed=2)
    rng = np.random.default_rng(1)
    data, cotangent = Tensor(rng.normal(size=(4, 3)), requires_grad=True), Tensor(rng.normal(size=(4, 3)))
    (layer(data) * cotangent).sum().backward()

    def loss() -> float:
        with tensor.no_grad():
            return (layer(data) * cotangent).sum().item()

    np.testing.assert_allclose(data.grad.numpy(), differences(loss, data.data), atol=1e-8)
    np.testing.assert_allclose(layer.weights.grad.numpy(), differences(loss, layer.weights.data), atol=1e-8)


def test_single_precision_gradients_are_those_of_double(parts) -> None:
    circuit, x, w = parts
    data = np.random.default_rng(2).normal(size=(6, 3))
    gradients = []
    for dtype, real in (("complex64", np.float32), ("complex128", np.float64)):
        layer = nn.QuantumLayer(circuit, OBSERVABLES, x, w, dtype=dtype, initial=[0.3, 1.0, -2.0, 0.7])
        layer(Tensor(data.astype(real))).sum().backward()
        assert layer.weights.grad.dtype == real
        gradients.append(layer.weights.grad.numpy())
    np.testing.assert_allclose(gradients[0], gradients[1], atol=1e-5)


def test_a_hybrid_net_learns_through_linear_layers_on_both_sides(parts) -> None:
    circuit, x, w = parts
    tensor.manual_seed(3)
    quantum = nn.QuantumLayer(circuit, OBSERVABLES, inputs=x, weights=w, dtype="complex128")
    net = nn.Sequential(nn.Linear(2, 3, dtype=np.float64), quantum, nn.Linear(3, 1, dtype=np.float64)).to(_device)
    data = Tensor(np.random.default_rng(3).normal(size=(5, 2)))
    net(data).sum().backward()

    def loss() -> float:
        with tensor.no_grad():
            return net(data).sum().item()

    for name, parameter in net.named_parameters():
        np.testing.assert_allclose(parameter.grad.numpy(), differences(loss, parameter.data), atol=1e-8, err_msg=name)


def test_a_layer_used_twice_gathers_both_gradients(parts) -> None:
    circuit, x, w = parts
    layer = nn.QuantumLayer(circuit, OBSERVABLES, inputs=x, weights=w, dtype="complex128", seed=4)
    data = Tensor(np.random.default_rng(4).normal(size=(2, 3)))
    layer(layer(data)).sum().backward()

    def loss() -> float:
        with tensor.no_grad():
            return layer(layer(data)).sum().item()

    np.testing.assert_allclose(layer.weights.grad.numpy(), differences(loss, layer.weights.data), atol=1e-8)


def test_probabilities_and_variances_are_outputs_too(parts) -> None:
    circuit, x, w = parts
    outputs = [qd.Probabilities([2, 0]), "Z1", qd.Variance({"X0": 1.0, "Z1 Z2": 0.5})]
    layer = nn.QuantumLayer(circuit, outputs, inputs=x, weights=w, dtype="complex128", seed=3)
    rng = np.random.default_rng(6)
    data, cotangent = Tensor(rng.normal(size=(3, 3)), requires_grad=True), Tensor(rng.normal(size=(3, 6)))
    out = layer(data)
    for row, features in zip(out.numpy(), data.numpy()):
        psi = reference.state(circuit.bind({x: features, w: layer.weights.numpy()}))
        chance = (abs(psi) ** 2).reshape(2, 2, 2).sum(axis=1)  # Qubits 2 and 0 are left, in this order.
        o = qd.PauliSum(outputs[2].observable).to_matrix(N)
        mean, square = ((psi.conj() @ m @ psi).real for m in (o, o @ o))
        z1 = (abs(psi) ** 2).reshape(2, 2, 2).sum(axis=(0, 2)) @ [1, -1]
        np.testing.assert_allclose(row, [*chance.T.ravel(), z1, square - mean**2], atol=1e-13)
    (out * cotangent).sum().backward()

    def loss() -> float:
        with tensor.no_grad():
            return (layer(data) * cotangent).sum().item()

    np.testing.assert_allclose(data.grad.numpy(), differences(loss, data.data), atol=1e-8)
    np.testing.assert_allclose(layer.weights.grad.numpy(), differences(loss, layer.weights.data), atol=1e-8)


@pytest.fixture
def by_states(monkeypatch) -> None:
    """Batches run state by state: what row programs do not take."""
    monkeypatch.setattr(RowPrograms, "unfit", "the test wants states")


@pytest.mark.usefixtures("by_states")
def test_backward_is_one_sweep_for_all_rows_and_observables(parts, monkeypatch) -> None:
    circuit, x, w = parts
    layer = nn.QuantumLayer(circuit, OBSERVABLES, inputs=x, weights=w)
    calls = []
    vjp = adjoint.vjp
    monkeypatch.setattr(adjoint, "vjp", lambda *args: calls.append(args) or vjp(*args))
    layer(np.zeros((7, 3), np.float32)).sum().backward()
    assert len(calls) == 1
    assert calls[0][2].shape == (7, 7)


@pytest.fixture
def runs(monkeypatch) -> list[str]:
    """Grows by the name of what ran a circuit forward, each time one does."""
    names: list[str] = []
    for name in ("evolved", "run_rows"):
        whole = getattr(qd.Program, name)
        counted = lambda *args, name=name, whole=whole, **how: names.append(name) or whole(*args, **how)  # noqa: E731
        monkeypatch.setattr(qd.Program, name, counted)
    forward, backward = CpuRows.forward, CpuRows.backward
    monkeypatch.setattr(CpuRows, "forward", lambda *args: names.append("rows") or forward(*args))
    again = lambda args: names.append("rows") if args[7] is None else None  # noqa: E731 (Without kets it runs forward.)
    monkeypatch.setattr(CpuRows, "backward", lambda *args: again(args) or backward(*args))
    return names


@pytest.mark.parametrize(
    ("outputs", "rows", "forward"),
    [(OBSERVABLES, 5, "run_rows"), ([*OBSERVABLES, qd.Probabilities([1])], 1, "evolved")],
)
@pytest.mark.usefixtures("by_states")
def test_a_step_runs_the_circuit_forward_once(parts, runs: list[str], outputs: list, rows: int, forward: str) -> None:
    circuit, x, w = parts
    layer = nn.QuantumLayer(circuit, outputs, inputs=x, weights=w, dtype="complex128", seed=3)
    data = Tensor(np.random.default_rng(8).normal(size=(rows, 3)))
    out = layer(data).sum()
    out.backward(retain_graph=True)
    assert runs == [forward] * (2 if forward == "run_rows" and _device != "cpu" else 1)
    first, layer.weights.grad, before = layer.weights.grad.numpy(), None, len(runs)
    out.backward()  # The sweep has used the states up.
    assert runs[before:] == [forward]
    np.testing.assert_array_equal(layer.weights.grad.numpy(), first)


@pytest.mark.parametrize("outputs", [OBSERVABLES, [*OBSERVABLES, qd.Probabilities([1]), qd.Variance("X0")]])
def test_a_step_of_a_row_program_runs_forward_once(parts, runs: list[str], outputs: list, monkeypatch) -> None:
    circuit, x, w = parts
    layer = nn.QuantumLayer(circuit, outputs, inputs=x, weights=w, dtype="complex128", device="cpu", seed=3)
    data = tensor.Tensor(np.random.default_rng(8).normal(size=(21, 3)), requires_grad=True)

    def step() -> tuple[np.ndarray, np.ndarray]:
        layer.weights.grad = data.grad = None
        out = (layer(data) ** 2).sum()
        out.backward(retain_graph=True)
        found = layer.weights.grad.numpy(), data.grad.numpy()
        layer.weights.grad = data.grad = None
        out.backward()  # The sweep has used the states up.
        np.testing.assert_array_equal(layer.weights.grad.numpy(), found[0])
        return found

    kept = step()
    assert runs == ["rows"] * 2
    monkeypatch.setattr(rows, "_KEPT_BYTES", 100)
    for one, other in zip(step(), kept):
        np.testing.assert_array_equal(one, other)
    assert runs == ["rows"] * 5


def test_one_row_of_a_larger_circuit_runs_by_itself(runs: list[str]) -> None:
    """As ``Program.value_and_grad`` does, and with what the same row has in a batch."""
    n = 13  # More than a GPU takes as a batch of one row.
    x, w = qd.ParameterVector("x", n), qd.ParameterVector("w", n)
    circuit = qd.Circuit(n)
    for q in range(n):
        circuit.rx(x[q], q).cx(q, (q + 1) % n).ry(w[q], q)
    layer = nn.QuantumLayer(circuit, ["Z0", {"X1 Z3": 0.5}], inputs=x, weights=w, dtype="complex128", seed=3)
    data = np.random.default_rng(8).normal(size=(2, n))

    def step(rows: np.ndarray) -> list[np.ndarray]:
        given = Tensor(rows, requires_grad=True)
        layer.weights.grad = None
        out = layer(given)
        (out[:1] ** 2).sum().backward()
        return [out.numpy()[0], given.grad.numpy()[0], layer.weights.grad.numpy()]

    together = step(data)
    runs.clear()
    for alone, one in zip(step(data[:1]), together):
        np.testing.assert_allclose(alone, one, atol=1e-12)
    assert runs == ["evolved"]


def test_a_layer_of_rows_says_what_is_not_finite(parts) -> None:
    circuit, x, w = parts
    layer = nn.QuantumLayer(circuit, OBSERVABLES, inputs=x, weights=w, seed=0)
    for number in (np.nan, np.inf):
        rows = Tensor(np.array([[0.1, number, 0.2], [0.1, 0.2, 0.3]], np.float32))
        if layer.program.device != "cpu":
            # Nothing waits for a GPU to look: outputs of such a row are NaN, and no others.
            values = layer(rows).numpy()
            assert np.isnan(values[0]).all()
            assert np.isfinite(values[1]).all()
            continue
        with pytest.raises(StateError, match="must be finite"):
            layer(rows)


def test_gradients_that_nobody_wants_are_not_computed(parts, monkeypatch) -> None:
    circuit, x, w = parts
    layer = nn.QuantumLayer(circuit, OBSERVABLES, inputs=x, weights=w, device="cpu", seed=0)
    wanted = []
    backward = CpuRows.backward
    monkeypatch.setattr(CpuRows, "backward", lambda *args: wanted.append(args[5:7]) or backward(*args))
    data = np.zeros((2, 3), np.float32)
    layer(tensor.Tensor(data)).sum().backward()
    layer(tensor.Tensor(data, requires_grad=True)).sum().backward()
    layer.weights.requires_grad = False
    layer(tensor.Tensor(data, requires_grad=True)).sum().backward()
    assert wanted == [(False, True), (True, True), (True, False)]


@pytest.mark.usefixtures("by_states")
def test_large_batches_of_states_are_not_kept(parts, runs: list[str], monkeypatch) -> None:
    circuit, x, w = parts
    layer = nn.QuantumLayer(circuit, OBSERVABLES, inputs=x, weights=w)
    monkeypatch.setattr(batches, "_BATCH_BYTES", 2 * 2 * 64)  # Kets and bras of two rows.
    layer(np.zeros((4, 3), np.float32)).sum().backward()
    assert len(runs) == (1 + 2 if _device == "cpu" else 2 + 2)


@pytest.mark.usefixtures("by_states")
def test_only_the_last_forward_keeps_its_state_and_only_for_a_backward(parts, runs: list[str], monkeypatch) -> None:
    circuit, x, w = parts
    for limit in ("MOST_BYTES", "MOST_POOLED"):
        monkeypatch.setattr(workspace, limit, 0)  # What gradients work in is not what a forward keeps.
    outputs = [qd.Probabilities()]  # Not for the kernels' batches.
    one, other = (nn.QuantumLayer(circuit, outputs, x, w, dtype="complex128", seed=seed) for seed in (1, 2))
    data = Tensor(np.full((1, 3), 0.3))

    def kept() -> int:
        gc.collect()
        return sum(type(o) is qd.StateVector for o in gc.get_objects()) - others

    with tensor.no_grad():  # Programs have a state that runs make others like.
        one(data), other(data)
    runs.clear()
    others = 0
    others = kept()
    first, second = one(data), other(data)
    assert kept() == 1
    second.sum().backward()
    assert (kept(), len(runs)) == (0, 2)
    second = other(data)
    first.sum().backward()  # Runs again, and what the other kept gives way to it.
    assert (kept(), len(runs)) == (0, 4)
    with tensor.no_grad():
        one(data)
    assert kept() == 0
    del first, second
    abandoned = one(data)
    assert kept() == 1
    del abandoned
    assert kept() == 0


@pytest.mark.parametrize("functions", [False, True])
@pytest.mark.parametrize("changed", ["x", "weights"])
@pytest.mark.parametrize("again", [False, True])
def test_values_that_change_before_the_backward_pass_give_no_wrong_gradient(
    functions: bool, changed: str, again: bool
) -> None:
    """Where x and the weights are read again, by functions or on a GPU, the backward pass refuses. again: another
    forward run in between, after which the first one's states are gone."""
    x, w = qd.ParameterVector("x", 2), qd.ParameterVector("w", 2)
    circuit = qd.Circuit(2).rx(x[0], 0).rx(x[0] * x[1] if functions else x[1], 1).cx(0, 1)
    circuit.ry(w[0], 0).ry(w[0] * w[1] if functions else w[1], 1)
    gradients = []
    for changes in (False, True):
        layer = nn.QuantumLayer(circuit, ["Z0", "Z1"], inputs=x, weights=w, seed=3)
        assert layer.weights is not None
        given = Tensor(np.array([[0.1, 0.2], [0.3, 0.4]], np.float32), requires_grad=True)
        loss = layer(given).sum()
        if again:
            layer(given)
        if changes:
            with tensor.no_grad():
                (given if changed == "x" else layer.weights)[...] = 0.7
            if functions or _device != "cpu":
                with pytest.raises(RuntimeError, match="quantum_layer needs for its derivative was changed in place"):
                    loss.backward()
                return
        loss.backward()
        gradients.append((given.grad.numpy(), layer.weights.grad.numpy()))
    for before, after in zip(*gradients):
        np.testing.assert_array_equal(before, after)


def test_arrays_of_a_gpu_are_guarded_where_a_backward_run_reads_them(parts) -> None:
    """As what the graph has saved: any module but NumPy stands for CuPy here."""
    xp = SimpleNamespace(asarray=np.asarray, zeros=np.zeros)
    circuit, x, w = parts
    layer = nn.QuantumLayer(circuit, OBSERVABLES, inputs=x, weights=w, seed=1, device="cpu")
    given, weights = np.zeros((2, 3), np.float32), layer.weights.numpy()
    _, saved = layer._map.forward(xp, given, weights)
    assert [part is own for part, own in zip(saved, (given, weights))] == [True, True]
    # Whoever else holds them could change them unseen: nothing but what the graph counts does.
    assert saved[2][0] is None
    gradient = layer._map.backward(xp, np.ones((2, 3), np.float32), saved, [True, True])
    wanted = layer._map.backward(
        np, np.ones((2, 3), np.float32), layer._map.forward(np, given, weights)[1], [True, True]
    )
    for a, b in zip(gradient, wanted):
        np.testing.assert_array_equal(a, b)


def test_without_inputs_a_layer_is_a_function_of_its_weights() -> None:
    theta = qd.Parameter("theta")
    layer = nn.QuantumLayer(qd.Circuit(1).rx(theta, 0), "Z0", weights=theta, dtype="complex128", initial=[0.6])
    energy = layer()
    assert energy.shape == (1, 1)
    assert energy.item() == pytest.approx(np.cos(0.6), abs=1e-14)
    energy.backward()
    assert layer.weights.grad.item() == pytest.approx(-np.sin(0.6), abs=1e-14)
    optimizer = optim.Adam(layer.parameters(), lr=0.2)
    for _ in range(100):
        optimizer.zero_grad()
        layer().sum().backward()
        optimizer.step()
    assert layer().item() == pytest.approx(-1, abs=1e-3)


def test_without_weights_only_the_inputs_have_gradients() -> None:
    x = qd.ParameterVector("x", 2)
    layer = nn.QuantumLayer(qd.Circuit(2).ry(x[0], 0).ry(x[1], 1), ["Z0", "Z1"], inputs=x)
    assert list(layer.parameters()) == []
    data = Tensor([[0.3, 0.4]], requires_grad=True)
    layer(data).sum().backward()
    np.testing.assert_allclose(data.grad.numpy(), -np.sin([[0.3, 0.4]]), atol=1e-6)


def test_seed_initial_and_default_generator_decide_the_weights(parts) -> None:
    circuit, x, w = parts

    def weights(**options) -> np.ndarray:
        return nn.QuantumLayer(circuit, ["Z0"], x, w, **options).weights.numpy()

    np.testing.assert_array_equal(weights(seed=5), weights(seed=5))
    assert (weights(seed=5) != weights(seed=6)).all()
    np.testing.assert_array_equal(weights(initial=[1, 2, 3, 4]), np.array([1, 2, 3, 4], np.float32))
    tensor.manual_seed(8)
    first = weights()
    assert (first != weights()).all()
    tensor.manual_seed(8)
    np.testing.assert_array_equal(first, weights())
    theta = qd.ParameterVector("t", 1000)
    many = nn.QuantumLayer(qd.Circuit(1).compose(_rotations(theta)), ["Z0"], weights=theta, seed=0).weights.numpy()
    assert many.min() >= 0
    assert many.max() < 2 * np.pi
    assert many.mean() == pytest.approx(np.pi, abs=0.2)


def _rotations(theta: qd.ParameterVector) -> qd.Circuit:
    circuit = qd.Circuit(1)
    for angle in theta:
        circuit.ry(angle, 0)
    return circuit


def test_state_dict_carries_the_weights(parts) -> None:
    circuit, x, w = parts
    one, other = (nn.QuantumLayer(circuit, OBSERVABLES, x, w, seed=seed) for seed in (1, 2))
    assert list(one.state_dict()) == ["weights"]
    other.load_state_dict(one.state_dict())
    data = np.ones((2, 3), np.float32)
    np.testing.assert_array_equal(one(data).numpy(), other(data).numpy())


def test_precisions_do_not_mix(parts) -> None:
    circuit, x, w = parts
    layer = nn.QuantumLayer(circuit, OBSERVABLES, x, w)
    with pytest.raises(TypeError, match="float64"):
        layer(np.zeros((1, 3)))
    assert layer(np.zeros((1, 3), np.int64)).dtype == np.float32
    assert layer.to("float64")(np.zeros((1, 3))).dtype == np.float64


def test_what_fitted_before_is_looked_at_again_where_something_differs(parts) -> None:
    """Checks of x are remembered by its kind: its class, dtype and shape, and the dtype of the weights."""
    circuit, x, w = parts
    layer = nn.QuantumLayer(circuit, OBSERVABLES, x, w)
    fits = Tensor(np.zeros((2, 3), np.float32))
    for _ in range(2):
        assert layer(fits).shape == (2, len(OBSERVABLES))
        with pytest.raises(ValueError, match=r"takes \(batch, 3\), got shape \(2, 4\)"):
            layer(Tensor(np.zeros((2, 4), np.float32)))
        with pytest.raises(TypeError, match="x is float64"):
            layer(Tensor(np.zeros((2, 3))))
        with pytest.raises(TypeError, match="takes real numbers"):
            layer(Tensor(np.zeros((2, 3), np.complex64)))
    copied = pickle.loads(pickle.dumps(layer))
    np.testing.assert_array_equal(copied(fits).numpy(), layer(fits).numpy())
    layer.to("float64")
    with pytest.raises(TypeError, match="x is float32"):
        layer(fits)


def test_every_parameter_is_in_exactly_one_place(parts) -> None:
    circuit, x, w = parts
    with pytest.raises(qd.CircuitError, match=r"w\[1\], w\[2\] are neither in inputs nor in weights"):
        nn.QuantumLayer(circuit, ["Z0"], inputs=x, weights=[w[0], w[3]])
    with pytest.raises(qd.CircuitError, match=r"w\[2\] is in inputs and in weights"):
        nn.QuantumLayer(circuit, ["Z0"], inputs=[x, w[2]], weights=w)
    with pytest.raises(qd.CircuitError, match=r"x\[0\] is twice in inputs"):
        nn.QuantumLayer(circuit, ["Z0"], inputs=[x, x[0]], weights=w)
    with pytest.raises(qd.CircuitError, match="inputs: the circuit has no parameter other"):
        nn.QuantumLayer(circuit, ["Z0"], inputs=[x, qd.Parameter("other")], weights=w)
    with pytest.raises(TypeError, match="Parameters and ParameterVectors of the circuit, or their names, not 'z'"):
        nn.QuantumLayer(circuit, ["Z0"], inputs=["z"], weights=w)


def test_a_circuit_may_begin_with_a_state_but_not_measure() -> None:
    theta = qd.Parameter("theta")
    start = qd.library.amplitude_embedding([0.6, 0.8])
    layer = nn.QuantumLayer(start.ry(theta, 0), "Z0", weights=theta, dtype="complex128", initial=[0.7])
    assert layer().item() == pytest.approx(np.cos(0.7 + 2 * np.arctan2(0.8, 0.6)), abs=1e-13)
    measured = qd.Circuit(1, 1).measure(0, 0).ry(theta, 0)
    with pytest.raises(StateError, match="only unitary circuits can be differentiated"):
        nn.QuantumLayer(measured, "Z0", weights=theta)


@pytest.mark.usefixtures("by_states")
def test_large_batches_run_in_parts(parts, monkeypatch) -> None:
    circuit, x, w = parts
    layer = nn.QuantumLayer(circuit, OBSERVABLES, inputs=x, weights=w, seed=0)
    data = np.random.default_rng(7).normal(size=(7, 3)).astype(np.float32)
    want = layer(data).numpy()
    for states in (3, 1) if _device == "cpu" else ():
        monkeypatch.setattr(nn.quantum_map, "_BATCH_BYTES", states * 64)
        np.testing.assert_allclose(layer(data).numpy(), want, atol=1e-6)
    assert layer(data[:0]).shape == (0, 3)


def test_wrong_shapes_are_named(parts) -> None:
    circuit, x, w = parts
    layer = nn.QuantumLayer(circuit, OBSERVABLES, x, w)
    for wrong in (np.zeros(3), np.zeros((2, 4)), np.zeros((1, 1, 3))):
        with pytest.raises(ValueError, match=r"takes \(batch, 3\), got shape"):
            layer(wrong.astype(np.float32))
    with pytest.raises(ValueError, match=r"takes \(batch, 3\), got nothing"):
        layer()
    with pytest.raises(ValueError, match="at least one observable"):
        nn.QuantumLayer(circuit, [], x, w)
    with pytest.raises(ValueError, match=r"4 weights; initial has shape \(3,\)"):
        nn.QuantumLayer(circuit, OBSERVABLES, x, w, initial=[1, 2, 3])
    with pytest.raises(ValueError, match="leave one out"):
        nn.QuantumLayer(circuit, OBSERVABLES, x, w, initial=[1, 2, 3, 4], seed=0)
    with pytest.raises(ValueError, match="but no weights"):
        nn.QuantumLayer(circuit, OBSERVABLES, [x, w], initial=[1])


def test_repr_says_what_it_holds(parts) -> None:
    circuit, x, w = parts
    layer = nn.QuantumLayer(circuit, OBSERVABLES, x, w)
    assert repr(layer) == "QuantumLayer(3 qubits, 3 inputs, 4 weights, 3 observables)"


def test_on_a_mesh_of_four_ranks(pass_on_ranks) -> None:
    pass_on_ranks(4, [Path(__file__).parent / "ranks" / "mpi_quantum_layer.py"])
