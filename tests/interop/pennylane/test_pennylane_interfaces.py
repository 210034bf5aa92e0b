"""qdist.qubit under autograd, torch and jax: values, gradients and batches in each framework's own way."""

import numpy as np
import pytest

qml = pytest.importorskip("pennylane")

from qdist.interop.pennylane import QdistQubit  # noqa: E402
from qdist.program.rows import RowProgram  # noqa: E402

DEVICE = QdistQubit(wires=4)


def circuit(inputs, weights):
    qml.AngleEmbedding(inputs, wires=range(4))
    qml.RY(weights[0], wires=0)
    qml.CNOT([0, 1])
    qml.Rot(weights[1], weights[0], weights[2], wires=1)
    qml.CNOT([1, 2])
    return [qml.expval(qml.Z(1)), qml.expval(qml.X(0) @ qml.Z(2)), qml.expval(qml.Y(3))]


ROWS = np.random.default_rng(0).random((5, 4))
WEIGHTS = np.array([0.3, 0.4, -0.8])


def expected():
    """The gradient of the sum of squares of all outputs, by the inputs and the weights."""
    pnp = qml.numpy
    node = qml.QNode(circuit, qml.device("default.qubit"), interface="autograd")

    def loss(inputs, weights):
        return sum(qml.math.sum(one**2) for one in node(inputs, weights))

    return qml.grad(loss, argnums=(0, 1))(pnp.array(ROWS), pnp.array(WEIGHTS))


@pytest.fixture
def batches(monkeypatch):
    """The numbers of rows of all gradients that were computed."""
    found, inner = [], RowProgram.vjp

    def counted(self, rows, *args, **kwargs):
        found.append(len(rows))
        return inner(self, rows, *args, **kwargs)

    monkeypatch.setattr(RowProgram, "vjp", counted)
    return found


def test_torch_gradcheck_of_batches():
    torch = pytest.importorskip("torch")
    node = qml.QNode(circuit, DEVICE, interface="torch")
    inputs = torch.tensor(ROWS[:2], requires_grad=True)
    weights = torch.tensor(WEIGHTS, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x, w: torch.stack(node(x, w)), (inputs, weights))
    assert torch.autograd.gradcheck(lambda w: torch.stack(node(inputs[0].detach(), w)), (weights,))


def test_torch_gradcheck_of_the_state():
    torch = pytest.importorskip("torch")

    def amplitudes(weights):
        qml.BasicEntanglerLayers(weights[None], wires=range(3))
        return qml.state()

    node = qml.QNode(amplitudes, DEVICE, interface="torch")
    assert torch.autograd.gradcheck(node, (torch.tensor(WEIGHTS, requires_grad=True),))


def test_a_torch_layer_runs_its_rows_as_one_batch(batches):
    torch = pytest.importorskip("torch")
    layer = qml.qnn.TorchLayer(qml.QNode(circuit, DEVICE, interface="torch"), {"weights": 3})
    with torch.no_grad():
        layer.weights.copy_(torch.tensor(WEIGHTS))
    inputs = torch.tensor(ROWS, requires_grad=True)
    output = layer(inputs)
    assert output.shape == (5, 3)
    (output**2).sum().backward()
    by_inputs, by_weights = expected()
    np.testing.assert_allclose(inputs.grad, by_inputs, atol=1e-6)
    np.testing.assert_allclose(layer.weights.grad, by_weights, atol=1e-5)
    assert batches == [5]


def test_autograd_batches(batches):
    pnp = qml.numpy
    node = qml.QNode(circuit, DEVICE)
    found = qml.grad(lambda x, w: sum(qml.math.sum(one**2) for one in node(x, w)), argnums=(0, 1))(
        pnp.array(ROWS), pnp.array(WEIGHTS)
    )
    for one, other in zip(found, expected()):
        np.testing.assert_allclose(one, other, atol=1e-9)
    assert batches == [5]


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("way", ["vmap", "broadcast"])
def test_jax_batches(way, jit, batches):
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    node = qml.QNode(circuit, DEVICE, interface="jax")

    def loss(inputs, weights):
        run = jax.vmap(node, in_axes=(0, None)) if way == "vmap" else node
        return sum((one**2).sum() for one in run(inputs, weights))

    gradient = jax.grad(loss, argnums=(0, 1))
    found = (jax.jit(gradient) if jit else gradient)(jax.numpy.array(ROWS), jax.numpy.array(WEIGHTS))
    for one, other in zip(found, expected()):
        np.testing.assert_allclose(one, other, atol=1e-9)
    assert batches == [5]


def turned(x, w):
    qml.RX(x, wires=0)
    qml.RY(w, wires=0)


def probabilities(x, w):
    turned(x, w)
    return qml.probs(wires=0)


def test_cotangents_that_are_a_basis_are_those_of_rows():
    """The trace of two rows of two probabilities; the reference by differences."""
    rows, weight = np.array([0.3, 0.9]), 0.4

    def trace(*x):
        return sum(qml.QNode(probabilities, qml.device("default.qubit"))(x[k], x[2])[k] for k in range(2))

    point = np.array([*rows, weight])
    want = [(trace(*point + h) - trace(*point - h)) / 2e-6 for h in 1e-6 * np.eye(3)]

    torch = pytest.importorskip("torch")
    x, w = (torch.tensor(one, requires_grad=True) for one in (rows, np.array(weight)))
    qml.QNode(probabilities, DEVICE, interface="torch")(x, w).trace().backward()
    np.testing.assert_allclose([*x.grad, w.grad], want, atol=1e-8)

    pnp = qml.numpy
    node = qml.QNode(probabilities, DEVICE, interface="autograd")
    found = qml.grad(lambda x, w: pnp.trace(node(x, w)), argnums=(0, 1))(pnp.array(rows), pnp.array(weight))
    np.testing.assert_allclose([*found[0], found[1]], want, atol=1e-8)

    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    node = qml.QNode(probabilities, DEVICE, interface="jax")
    found = jax.grad(lambda x, w: jax.numpy.trace(node(x, w)), argnums=(0, 1))(jax.numpy.array(rows), weight)
    np.testing.assert_allclose([*found[0], found[1]], want, atol=1e-8)


@pytest.mark.parametrize("way", ["vmap", "broadcast"])
def test_batches_of_one_row(way):
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)

    def measured(x, w):
        turned(x, w)
        return qml.expval(qml.Z(0))

    node = qml.QNode(measured, DEVICE, interface="jax")
    run = jax.vmap(node, in_axes=(0, None)) if way == "vmap" else node
    found = jax.grad(lambda x, w: run(x, w).mean(), argnums=(0, 1))(jax.numpy.array([0.3]), 0.4)
    np.testing.assert_allclose(found[0], [-np.sin(0.3) * np.cos(0.4)], atol=1e-9, strict=True)
    np.testing.assert_allclose(found[1], -np.cos(0.3) * np.sin(0.4), atol=1e-9)


@pytest.mark.parametrize("rows", [2, 5])
@pytest.mark.parametrize("shared", [False, True])
def test_jax_jacobians_of_rows(rows, shared):
    """vmap of jacrev: all rows have the same cotangents, here as many as there are rows or more."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)

    def measured(x, w):
        qml.AmplitudeEmbedding(x[:4], wires=[0, 1], normalize=True)
        qml.RX(x[4], wires=0)
        qml.RY(w[0], wires=1)
        qml.CNOT(wires=[0, 1])
        qml.RX(w[1], wires=1)
        return qml.probs(wires=[0, 1]), qml.expval(qml.Z(0))

    rng = np.random.default_rng(rows)
    given = rng.normal(size=(rows, 5)), rng.normal(size=2) if shared else rng.normal(size=(rows, 2))
    for argnums in (0, 1, (0, 1)):
        found, want = (
            jax.vmap(jax.jacrev(qml.QNode(measured, device, interface="jax"), argnums), (0, None if shared else 0))(
                *given
            )
            for device in (DEVICE, qml.device("default.qubit"))
        )
        jax.tree_util.tree_map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-6, strict=True), found, want)


def test_jax_jacobians_and_single_calls():
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    node = qml.QNode(circuit, DEVICE, interface="jax")
    reference = qml.QNode(circuit, qml.device("default.qubit"), interface="jax")
    weights = jax.numpy.array(WEIGHTS)
    found, other = (jax.jacobian(lambda w, n=n: jax.numpy.stack(n(ROWS[0], w)))(weights) for n in (node, reference))
    np.testing.assert_allclose(found, other, atol=1e-9)
    np.testing.assert_allclose(jax.jit(node)(ROWS[0], weights), reference(ROWS[0], weights), atol=1e-9)
    shifted = qml.QNode(circuit, DEVICE, interface="jax", diff_method="parameter-shift")
    np.testing.assert_allclose(jax.jacfwd(lambda w: jax.numpy.stack(shifted(ROWS[0], w)))(weights), other, atol=1e-9)


def _entangled(x):
    qml.RX(x[0], 0)
    qml.RY(x[1], 1)
    qml.CNOT([0, 1])


def _state(xp, x):
    """What `_entangled` makes of |00>, as a matrix of the amplitudes: a row for each value of wire 0."""
    first, second = xp.array([xp.cos(x[0] / 2), -1j * xp.sin(x[0] / 2)]), [xp.cos(x[1] / 2), xp.sin(x[1] / 2)]
    return xp.stack([first[0] * xp.stack(second), first[1] * xp.stack(second[::-1])])


def _means(x):
    _entangled(x)
    return qml.expval(qml.Z(0)), qml.expval(qml.X(1)), qml.probs(wires=[0, 1])


def _exact_means(xp, x):
    return xp.cos(x[0]), xp.sin(x[1]), abs(_state(xp, x).ravel()) ** 2


@pytest.mark.parametrize("rows", [1, 3])
def test_jax_jacobians_of_rows_by_functions_that_are_not_linear(rows):
    """Then each row has cotangents of its own; of results that a function leaves out they are zeros without any axis of
    rows or of the Jacobian."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    node = qml.QNode(_means, QdistQubit(), interface="jax")
    functions = [
        lambda z, x, p: p**2,
        lambda z, x, p: jax.numpy.stack([z * x, x**2]),
        lambda z, x, p: p + z,
        lambda z, x, p: jax.numpy.sum(p**2),
    ]
    given = jax.numpy.array(np.random.default_rng(3).normal(size=(rows, 2)))
    for way in (lambda f: jax.vmap(jax.jacrev(f)), lambda f: jax.jacrev(jax.vmap(f))):
        for function in functions:
            found = way(lambda x, f=function: f(*node(x)))(given)
            exact = way(lambda x, f=function: f(*_exact_means(jax.numpy, x)))(given)
            assert found.shape == exact.shape
            assert np.abs(exact).max() > 0.1
            np.testing.assert_allclose(found, exact, atol=1e-9)


def test_jax_jacobians_of_as_many_numbers_as_rows_are_refused_where_axes_cannot_be_told_apart():
    """Taken for the other's axis, each row would have derivatives by the cotangents of others."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)
    node = qml.QNode(_means, QdistQubit(), interface="jax")
    given = jax.numpy.array(np.random.default_rng(3).normal(size=(4, 2)))

    def squares(x):
        return node(x)[2] ** 2

    def exact(x):
        return _exact_means(jax.numpy, x)[2] ** 2

    with pytest.raises(Exception, match=r"4 numbers and a batch of 4 rows .*jax.lax.map"):
        jax.vmap(jax.jacrev(squares))(given)
    found = jax.lax.map(jax.jacrev(squares), given)
    np.testing.assert_allclose(found, jax.vmap(jax.jacrev(exact))(given), atol=1e-9)

    # One number a row: the cotangents of other rows are zeros, and either way they are the same.
    found = jax.jacrev(jax.vmap(lambda x: squares(x)[0]))(given)
    np.testing.assert_allclose(found, jax.jacrev(jax.vmap(lambda x: exact(x)[0]))(given), atol=1e-9)


@pytest.mark.parametrize("way", ["plain", "jit", "vmap"])
def test_jax_jacobians_of_one_result_of_several_tapes(way):
    """The results of a circuit that is run as several tapes, of which the function takes those of one: JAX gives the
    others zeros as cotangents, without the axis of the Jacobian."""
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)

    @qml.qnode(QdistQubit(wires=2), interface="jax")
    def node(x):
        _entangled(x)
        return qml.state(), qml.density_matrix([1]), qml.purity([0])

    def exact(x):
        state = _state(jax.numpy, x)
        reduced = state.T @ state.conj()
        return state.ravel(), reduced, jax.numpy.trace(reduced @ reduced).real

    change = {"plain": lambda f: f, "jit": jax.jit, "vmap": jax.vmap}[way]
    given = jax.numpy.array([[0.3, -0.8], [1.1, 0.4], [0.2, 0.7]] if way == "vmap" else [0.3, -0.8])
    for k, read in enumerate([lambda state: abs(state) ** 2, lambda rho: rho.real, lambda purity: purity]):
        found, expected = (
            change(jax.jacrev(lambda x, f=function: read(f(x)[k])))(given)  # noqa: B023
            for function in (node, exact)
        )
        assert found.shape == expected.shape
        assert np.abs(expected).max() > 0.1
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_tensorflow_batches(batches):
    """PennyLane's interface stacks derivatives, so parameters that rows share are repeated for each of them."""
    tf = pytest.importorskip("tensorflow")
    node = qml.QNode(circuit, DEVICE, interface="tf", diff_method="adjoint")
    inputs, weights = tf.Variable(ROWS), tf.Variable(WEIGHTS)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.stack(node(inputs, weights)) ** 2)
    for one, other in zip(tape.gradient(loss, [inputs, weights]), expected()):
        np.testing.assert_allclose(one.numpy(), other, atol=1e-9)
    assert batches == [5]


def test_parameters_that_rows_share_are_repeated_where_shapes_must_be_equal():
    tape = qml.tape.QuantumScript(
        [qml.RX(np.arange(3.0), wires=0), qml.Rot(0.1, 0.2, 0.3, wires=1), qml.CNOT([0, 1])], [qml.expval(qml.Z(1))]
    )
    config = qml.devices.ExecutionConfig(gradient_method="adjoint", interface="tf")
    (converted,), _ = DEVICE.preprocess_transforms(DEVICE.setup_execution_config(config))((tape,))
    assert [np.shape(datum) for datum in converted.get_parameters()] == [(3,)] * 4
    np.testing.assert_allclose(DEVICE.execute(converted), DEVICE.execute(tape), atol=1e-14)
