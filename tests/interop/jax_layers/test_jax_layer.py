"""Circuits in JAX: derivatives of both orders, jit, vmap as one batch, shard_map, and the functions of a Program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from frameworks import FEATURES, outputs, pennylane_circuit, plain_circuit, random_circuit
from jax.test_util import check_grads

import qdist as qd
from qdist.interop.jax import QuantumLayer, expectation, overlap, probabilities, state
from qdist.program.rows import RowProgram


def given(seed: int, rows: int = 2) -> tuple[QuantumLayer, jax.Array, jax.Array]:
    circuit, x, w = random_circuit(seed)
    layer = QuantumLayer(circuit, outputs(), x, w)
    features = np.random.default_rng(seed).uniform(0.2, 1.2, (rows, FEATURES))
    return layer, layer.init(jax.random.key(seed), jnp.float64), jnp.asarray(features)


@pytest.mark.parametrize("seed", range(3))
def test_check_grads_of_order_two(seed: int) -> None:
    layer, w, x = given(seed)
    check_grads(layer, (w, x), order=2, modes=["rev"])
    check_grads(jax.jit(layer), (w, x), order=2, modes=["rev"])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_outputs_are_those_of_qdists_own_layer(dtype: str) -> None:
    circuit, names, weights = random_circuit(1)
    layer, w, x = given(1)
    w, x = w.astype(dtype), x.astype(dtype)
    kind = {"float32": "complex64", "float64": "complex128"}[dtype]
    own = qd.nn.QuantumLayer(circuit, outputs(), names, weights, initial=np.asarray(w), dtype=kind)
    mine = qd.Tensor(np.asarray(x), requires_grad=True)
    want, found = own(mine), layer(w, x)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, want.numpy())
    (want**2).sum().backward()
    by_w, by_x = jax.grad(lambda w, x: (layer(w, x) ** 2).sum(), (0, 1))(w, x)
    np.testing.assert_allclose(by_w, own.weights.grad.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(by_x, mine.grad.numpy(), rtol=1e-5, atol=1e-6)


def test_vmap_is_one_batch(monkeypatch) -> None:
    layer, w, x = given(4, rows=4)
    each = jnp.stack([w, 2 * w, -w, 0.5 * w])
    want = jnp.stack([layer(each[k], x[k : k + 1])[0] for k in range(4)])
    sizes = []
    plain = RowProgram.values

    def counted(self, rows, *arguments, **options):
        sizes.append(len(rows))
        return plain(self, rows, *arguments, **options)

    monkeypatch.setattr(RowProgram, "values", counted)
    found = jax.vmap(lambda w, x: layer(w, x[None])[0])(each, x)
    np.testing.assert_allclose(found, want, atol=1e-12)
    assert sizes == [4]

    def loss(w, x):
        return (layer(w, x[None]) ** 2).sum()

    gradients = jax.jit(jax.vmap(jax.grad(loss), (None, 0)))(w, x)
    np.testing.assert_allclose(gradients, [jax.grad(loss)(w, row) for row in x], atol=1e-12)
    hessians = jax.vmap(jax.jacrev(jax.grad(loss)), (None, 0))(w, x)
    np.testing.assert_allclose(hessians[0], jax.jacrev(jax.jacrev(loss))(w, x[0]), atol=1e-12)
    assert np.abs(hessians).max() > 0.1


def test_third_derivatives_and_other_shapes_are_refused() -> None:
    layer, w, x = given(1)
    with pytest.raises(NotImplementedError, match="asks for a third"):
        jax.jacrev(jax.jacrev(jax.jacrev(lambda w: (layer(w, x) ** 2).sum())))(w)
    with pytest.raises(ValueError, match="got shapes"):
        layer(w[:-1], x)


def test_shards_of_a_batch_run_where_they_are() -> None:
    if len(jax.devices()) < 2:
        pytest.skip("XLA_FLAGS was set otherwise before JAX started")
    layer, w, x = given(2, rows=4)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("rows",))
    spec = jax.sharding.PartitionSpec
    split = jax.jit(
        jax.shard_map(layer, mesh=mesh, in_specs=(spec(), spec("rows")), out_specs=spec("rows"), check_vma=False)
    )
    np.testing.assert_allclose(split(w, x), layer(w, x), atol=1e-12)


def test_gradients_of_shards_that_jax_types_as_different() -> None:
    """shard_map's check_vma, which is its default: of weights that all shards have, gradients are summed over them."""
    if len(jax.devices()) < 2 or not hasattr(jax.lax, "pcast"):
        pytest.skip("one device, or a JAX that types no shards")
    layer, w, x = given(2, rows=4)
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("rows",))
    every, rows = jax.sharding.PartitionSpec(), jax.sharding.PartitionSpec("rows")

    def loss(w, x, call=layer):
        return (jnp.sin(call(w, x)) ** 2).sum()

    def split(function, out_specs, in_specs=(every, rows)):
        return jax.jit(jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs))

    gradient, both = jax.grad(loss, (0, 1)), (every, rows)
    want, hessian = gradient(w, x), jax.jacrev(jax.grad(loss))(w, x)
    outside = jax.grad(lambda w, x: loss(w, x, split(layer, rows)), (0, 1))
    for found in (outside(w, x), split(gradient, both)(w, x)):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), found, want)
    np.testing.assert_allclose(split(jax.jacrev(jax.grad(loss)), every)(w, x), hessian, atol=1e-12)
    own = jax.vmap(lambda w, row: jax.grad(loss)(jax.lax.pcast(w, "rows", to="varying"), row), (None, 0))
    np.testing.assert_allclose(split(own, rows)(w, x).sum(0), want[0], atol=1e-12)
    each = jnp.stack([w, 2 * w])
    found = split(lambda w, x: jax.grad(loss)(w[0], x)[None], rows, (rows, every))(each, x)
    np.testing.assert_allclose(found, [jax.grad(loss)(one, x) for one in each], atol=1e-12)
    program = qd.compile(qd.library.hardware_efficient(3, 1), device="cpu")
    theta = jnp.linspace(-1, 1, 4 * program.circuit.num_parameters).reshape(4, -1)
    slopes = jax.vmap(jax.grad(lambda p: expectation(program, "Z0 X1", p)))
    np.testing.assert_allclose(split(slopes, rows, rows)(theta), slopes(theta), atol=1e-12)
    with pytest.raises(ValueError, match="out_specs"):
        split(layer, every)(w, x)


def test_values_gradients_and_hessians_are_those_of_pennylane_with_backprop() -> None:
    qml = pytest.importorskip("pennylane")
    circuit, names, weights = plain_circuit()
    layer, rng = QuantumLayer(circuit, ["Z0", "X1", "Z1 Z2"], names, weights), np.random.default_rng(0)
    w, x = jnp.asarray(rng.uniform(-2, 2, 14)), jnp.asarray(rng.uniform(-1, 1, (2, 3)))

    @qml.qnode(qml.device("default.qubit", wires=3), interface="jax", diff_method="backprop")
    def node(features, weights):
        pennylane_circuit(qml, features, weights)
        return qml.expval(qml.Z(0)), qml.expval(qml.X(1)), qml.expval(qml.Z(1) @ qml.Z(2))

    def mine(w):
        return (layer(w, x) ** 2).sum()

    def theirs(w):
        return (jnp.stack(node(x, w)) ** 2).sum()

    # Compiled at once: operation by operation PennyLane's circuit takes minutes.
    value, gradient, hessian = jax.jit(lambda w: (theirs(w), jax.grad(theirs)(w), jax.hessian(theirs)(w)))(w)
    np.testing.assert_allclose(mine(w), value, atol=1e-12)
    np.testing.assert_allclose(jax.grad(mine)(w), gradient, atol=1e-12)
    np.testing.assert_allclose(jax.jacrev(jax.jacrev(mine))(w), hessian, atol=1e-10)


def test_functions_of_a_program() -> None:
    program = qd.compile(qd.library.hardware_efficient(3, 1), device="cpu")
    exact = qd.compile(program.circuit, dtype="complex128", device="cpu")
    theta = jnp.asarray(np.random.default_rng(3).uniform(-1, 1, (2, program.circuit.num_parameters)))
    phi = qd.simulate(qd.Circuit(3).h(0).cx(0, 1).t(1), dtype="complex128", device="cpu")
    ket = exact.run(np.asarray(theta[1]))
    calls = {
        "expectation": (lambda p: expectation(program, "X0 Z1", p), ket.expectation("X0 Z1")),
        "expectations": (lambda p: expectation(program, ["X0", "Z1"], p), ket.expectations(["X0", "Z1"])),
        "probabilities": (lambda p: probabilities(program, p, [2, 0]), ket.probabilities([2, 0])),
        "state": (lambda p: state(program, p), ket.amplitudes()),
        "overlap": (lambda p: overlap(program, phi, p), phi.inner(ket)),
    }
    for name, (call, want) in calls.items():
        np.testing.assert_allclose(jax.jit(call)(theta)[1], want, atol=1e-12, err_msg=name)
        np.testing.assert_allclose(call(theta[1]), want, atol=1e-12, err_msg=name)
        check_grads(lambda p, call=call: jnp.abs(call(p)) ** 2, (theta,), order=2, modes=["rev"])
    assert expectation(program, "Z0", theta.astype(jnp.float32)).dtype == jnp.float32


def test_circuits_without_features_and_without_parameters() -> None:
    w = qd.ParameterVector("w", 2)
    circuit = qd.Circuit(2).ry(w[0], 0).cx(0, 1).ry(w[1], 1)
    layer, weights = QuantumLayer(circuit, ["Z0", "Z1"], weights=w), jnp.array([0.3, -0.8])
    own = qd.compile(circuit, dtype="complex128")
    want = own.expectations(["Z0", "Z1"], np.asarray(weights, float))
    np.testing.assert_allclose(layer(weights), [want], atol=1e-6)
    for shape in ((3, 0), (0,), (0, 0), (2, 1, 0)):
        found = layer(weights, jnp.zeros(shape))
        np.testing.assert_allclose(found, np.broadcast_to(want, (*shape[:-1], 2)), atol=1e-6)
    np.testing.assert_allclose(
        jax.jit(jax.grad(lambda w: layer(w)[0, 1]))(weights),
        own.value_and_grad("Z1", np.asarray(weights, float))[1],
        atol=1e-6,
    )
    bell = qd.compile(qd.Circuit(2).h(0).cx(0, 1))
    for shape in ((0,), (3, 0), (2, 0, 0)):
        found = expectation(bell, ["Z0 Z1", "Z0", "X0 X1"], jnp.zeros(shape))
        np.testing.assert_allclose(found, np.broadcast_to([1, 0, 1], (*shape[:-1], 3)), atol=1e-6)
    np.testing.assert_allclose(probabilities(bell, []), [0.5, 0, 0, 0.5], atol=1e-6)


def test_the_wider_of_both_precisions_counts() -> None:
    layer, w, x = given(2)
    want = layer(w, x)
    for a, b in (("float32", "float64"), ("float64", "float32")):
        found = layer(w.astype(a), x.astype(b))
        assert found.dtype == "float64"
        np.testing.assert_array_equal(found, layer(w.astype(a).astype("float64"), x.astype(b).astype("float64")))
    assert layer(w.astype("float16"), x.astype("bfloat16")).dtype == "float32"
    assert layer(w.astype("float32"), jnp.zeros(x.shape, int)).dtype == "float32"
    assert want.dtype == "float64"


def test_what_are_no_real_rows_is_refused_where_it_is_given() -> None:
    layer, w, x = given(3)
    program = qd.compile(qd.Circuit(1).ry(qd.Parameter("a"), 0))
    for arguments in ((w * 1j, x), (w, x * 1j)):
        with pytest.raises(TypeError, match="real numbers, which are angles; got complex"):
            layer(*arguments)
    with pytest.raises(TypeError, match="real numbers, which are angles; got complex"):
        expectation(program, "Z0", jnp.array([1j]))
    with pytest.raises(ValueError, match=r"features, got shapes .* and \(\)"):
        layer(w, 0.3)
    for wrong in (0.3, [0.3, 0.4], np.zeros((2, 0))):
        with pytest.raises(ValueError, match=r"takes \(\.\.\., 1\) parameters, got shape"):
            probabilities(program, wrong)
