"""QuantumLayer in torch: derivatives of both orders, compilation, transforms, precision, saving, other processes."""

import copy
import io
import pickle

import numpy as np
import pytest
import torch
from frameworks import FEATURES, outputs, pennylane_circuit, plain_circuit, random_circuit

import qdist as qd
from qdist.backends.errors import StateError
from qdist.interop.torch import QuantumLayer, expectation
from qdist.program.rows import RowProgram
from qdist.tensor.versions import held_elsewhere

DOUBLE = torch.float64


def layer_of(seed: int = 0, **options) -> QuantumLayer:
    circuit, x, w = random_circuit(seed)
    torch.manual_seed(seed)
    return QuantumLayer(circuit, outputs(), inputs=x, weights=w, **{"dtype": DOUBLE, **options})


def function_of(layer: QuantumLayer):
    return lambda x, w: torch.func.functional_call(layer, {"weights": w}, (x,))


def values_of(layer: QuantumLayer, rows: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    x = torch.rand(rows, FEATURES, dtype=layer.weights.dtype) + 0.2
    return x.requires_grad_(), layer.weights.detach().clone().requires_grad_()


@pytest.mark.parametrize("seed", range(6))
def test_gradcheck_and_gradgradcheck_of_random_circuits(seed: int) -> None:
    layer = layer_of(seed)
    call, given = function_of(layer), values_of(layer, 2)
    assert torch.autograd.gradcheck(call, given)
    assert torch.autograd.gradgradcheck(call, given)


def test_a_plain_backward_has_the_states_of_its_own_forward(monkeypatch) -> None:
    """Also after another forward with other values, whose states are then the ones that are kept."""
    layer = layer_of(1)
    (x, w), forwards = values_of(layer), []
    run = RowProgram.values
    monkeypatch.setattr(RowProgram, "values", lambda *args, **how: forwards.append(1) or run(*args, **how))
    call = function_of(layer)
    first, second = call(x, w), call(2 * x, w)
    assert len(forwards) == 2
    found = [torch.autograd.grad((out**2).sum(), (x, w)) for out in (first, second)]
    assert len(forwards) == 2
    again = [torch.autograd.grad((call(k * x, w) ** 2).sum(), (x, w)) for k in (1, 2)]
    for one, other in zip(found, again):
        for a, b in zip(one, other):
            torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", [0, 3])
def test_opcheck(seed: int) -> None:
    layer = layer_of(seed)
    x, w = values_of(layer)
    g = torch.rand(3, layer.out_features, dtype=DOUBLE, requires_grad=True)
    ops = torch.ops.qdist
    torch.library.opcheck(ops.circuit.default, (x, w, layer._handle))
    torch.library.opcheck(ops.circuit_vjp.default, (x, w, g, layer._handle, True, True))
    torch.library.opcheck(ops.circuit_vjp.default, (x, w, g, layer._handle, False, True))
    plain = [t.detach() for t in (x, w, g, x, w)]
    torch.library.opcheck(ops.circuit_second.default, (*plain, layer._handle))
    each = w.detach().expand(3, -1).contiguous().requires_grad_()
    torch.library.opcheck(ops.circuit.default, (x, each, layer._handle))


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE])
def test_outputs_are_those_of_qdists_own_layer(dtype: torch.dtype) -> None:
    circuit, x, w = random_circuit(1)
    layer = QuantumLayer(circuit, outputs(), inputs=x, weights=w, dtype=dtype)
    start = layer.weights.detach().numpy()
    own = qd.nn.QuantumLayer(
        circuit,
        outputs(),
        inputs=x,
        weights=w,
        initial=start,
        dtype="complex64" if dtype is torch.float32 else "complex128",
    )
    rows, _ = values_of(layer)
    mine = qd.Tensor(rows.detach().numpy(), requires_grad=True)
    found, want = layer(rows), own(mine)
    assert found.dtype is dtype
    np.testing.assert_array_equal(found.detach().numpy(), want.numpy())
    (found**2).sum().backward()
    (want**2).sum().backward()
    np.testing.assert_allclose(layer.weights.grad.numpy(), own.weights.grad.numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rows.grad.numpy(), mine.grad.numpy(), rtol=1e-5, atol=1e-6)
    amplitudes = {program.map.program.dtype.name for program in layer._maps._maps.values()}
    assert amplitudes == {"complex64" if dtype is torch.float32 else "complex128"}


def test_values_gradients_and_hessians_are_those_of_pennylane_with_backprop() -> None:
    qml = pytest.importorskip("pennylane")
    circuit, x, w = plain_circuit()
    rng = np.random.default_rng(0)
    start = rng.uniform(-2, 2, 14)
    layer = QuantumLayer(circuit, ["Z0", "X1", "Z1 Z2"], inputs=x, weights=w, initial=start, dtype=DOUBLE)

    @qml.qnode(qml.device("default.qubit", wires=3), interface="torch", diff_method="backprop")
    def node(features, weights):
        pennylane_circuit(qml, features, weights)
        return qml.expval(qml.Z(0)), qml.expval(qml.X(1)), qml.expval(qml.Z(1) @ qml.Z(2))

    rows = torch.tensor(rng.uniform(-1, 1, (2, 3)))
    call = function_of(layer)

    def mine(weights):
        return (call(rows, weights) ** 2).sum()

    def theirs(weights):
        return (torch.stack(node(rows, weights)) ** 2).sum()

    given = torch.tensor(start, requires_grad=True)
    np.testing.assert_allclose(mine(given).item(), theirs(given).item(), atol=1e-12)
    gradients = [torch.autograd.grad(f(given), given)[0].numpy() for f in (mine, theirs)]
    np.testing.assert_allclose(*gradients, atol=1e-12)
    hessians = [torch.autograd.functional.hessian(f, given).numpy() for f in (mine, theirs)]
    np.testing.assert_allclose(*hessians, atol=1e-10)


def test_compiled_in_one_graph() -> None:
    layer = layer_of(2, dtype=torch.float32)
    model = torch.nn.Sequential(torch.nn.Linear(4, FEATURES), layer, torch.nn.Linear(layer.out_features, 2))
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    data = torch.rand(5, 4)
    want = model(data)
    torch.testing.assert_close(compiled(data), want)
    torch.testing.assert_close(compiled(torch.rand(5, 4)).shape, want.shape)
    wanted = torch.autograd.grad((want**2).sum(), list(model.parameters()))
    found = torch.autograd.grad((compiled(data) ** 2).sum(), list(model.parameters()))
    for one, other in zip(found, wanted):
        torch.testing.assert_close(one, other)


# The second one takes a C++ compiler a quarter of a minute; in a model the layer is compiled above as well.
@pytest.mark.parametrize(
    "around", [pytest.param(False, id="alone"), pytest.param(True, id="in a model", marks=pytest.mark.thorough)]
)
def test_compiled_by_inductor(around: bool) -> None:
    """The default backend: alone the layer takes no C++ compiler, with a function around it inductor writes kernels."""
    layer = layer_of(2)
    x, _ = values_of(layer)
    model = (lambda x: torch.sin(layer(2 * x))) if around else layer
    given = [x, layer.weights]
    want = model(x)
    g = torch.rand(want.shape, dtype=DOUBLE, generator=torch.manual_seed(0))
    wanted = torch.autograd.grad(want, given, g)
    compiled = torch.compile(model, fullgraph=True)
    try:
        out = compiled(x)
    except torch._inductor.exc.InductorError as error:
        if around and "InvalidCxxCompiler" in str(error):
            pytest.skip("inductor finds no C++ compiler")
        raise
    torch.testing.assert_close(out, want)
    torch.testing.assert_close(torch.autograd.grad(out, given, g), wanted)


def test_transforms_are_one_batch(monkeypatch) -> None:
    layer = layer_of(4)
    call = function_of(layer)
    x, w = (t.detach() for t in values_of(layer, 4))
    by_weights = torch.func.jacrev(call, argnums=1)(x, w)
    torch.testing.assert_close(by_weights, torch.autograd.functional.jacobian(lambda v: call(x, v), w))
    sizes = []
    plain = RowProgram.values

    def counted(self, rows, *arguments, **options):
        sizes.append(len(rows))
        return plain(self, rows, *arguments, **options)

    monkeypatch.setattr(RowProgram, "values", counted)
    each = torch.stack([w, 2 * w, -w, 0.5 * w])
    found = torch.func.vmap(lambda row, weights: call(row[None], weights)[0])(x, each)
    assert sizes == [4]
    want = torch.stack([call(x[k : k + 1], each[k])[0] for k in range(4)])
    torch.testing.assert_close(found, want)
    torch.testing.assert_close(torch.func.vmap(call, (1, None))(x[:, None].expand(4, 3, -1), w)[0], call(x, w))

    def loss(row, weights):
        return (call(row[None], weights) ** 2).sum()

    gradients = torch.func.vmap(torch.func.grad(loss, argnums=1), (0, None))(x, w)
    want = torch.stack([torch.func.grad(loss, argnums=1)(row, w) for row in x])
    torch.testing.assert_close(gradients, want)
    hessian = torch.func.jacrev(torch.func.jacrev(loss, argnums=1), argnums=1)(x[0], w)
    torch.testing.assert_close(hessian, torch.autograd.functional.hessian(lambda v: loss(x[0], v), w))
    assert hessian.abs().max() > 0.1
    both = torch.func.vmap(torch.func.jacrev(torch.func.grad(loss, argnums=1), argnums=1), (0, None))(x, w)
    torch.testing.assert_close(both[0], hessian)


def test_forward_derivatives_and_hessians_of_torch_func() -> None:
    """torch.func.hessian differentiates a reverse derivative forward; the reference does so backwards twice."""
    layer = layer_of(2)
    (x, w), call, func = values_of(layer, 2), function_of(layer), torch.func
    assert torch.autograd.gradcheck(call, (x, w), check_forward_ad=True, check_batched_forward_grad=True)
    assert torch.autograd.gradgradcheck(call, (x, w), check_fwd_over_rev=True)
    x, w = x.detach(), w.detach()

    def loss(row, weights):
        return (call(row[None], weights) ** 2).sum()

    for k in range(2):
        torch.testing.assert_close(func.jacfwd(call, k)(x, w), func.jacrev(call, k)(x, w))
        want = torch.autograd.functional.hessian(lambda *given: loss(*given), (x[0], w))[k][k]
        assert want.abs().max() > 0.1
        ways = [func.hessian(loss, k), func.jacrev(func.jacfwd(loss, k), k), func.jacfwd(func.jacrev(loss, k), k)]
        for hessian in ways:
            torch.testing.assert_close(hessian(x[0], w), want)
    each = func.vmap(func.hessian(loss, 1), (0, None))(x, w)
    torch.testing.assert_close(each, torch.stack([func.hessian(loss, 1)(row, w) for row in x]))


def test_dual_numbers_go_through_functions_of_programs() -> None:
    circuit, _, _ = random_circuit(0)
    program = qd.compile(circuit)
    params = torch.linspace(-1, 1, len(circuit.parameters), dtype=DOUBLE)
    along = torch.cos(3 * params)
    for given in (params, params.clone().requires_grad_()):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(given, along)
            change = torch.autograd.forward_ad.unpack_dual(expectation(program, "Z0", dual)).tangent
        gradient = program.value_and_grad("Z0", params.numpy())[1]
        assert change.item() == pytest.approx(along.numpy() @ gradient, abs=1e-6)


def test_what_torch_func_cannot_have_of_a_circuit_is_refused() -> None:
    layer = layer_of(1)
    (x, w), call, func = values_of(layer, 1), function_of(layer), torch.func
    x, w = x.detach(), w.detach()

    def loss(weights):
        return (call(x, weights) ** 2).sum()

    with pytest.raises(RuntimeError, match="forward once: take jacrev in the place of the inner jacfwd"):
        func.jacfwd(func.jacfwd(loss))(w)
    for third in (func.jacrev(func.hessian(loss)), func.jacrev(func.jacrev(func.jacfwd(loss)))):
        with pytest.raises(RuntimeError, match="this asks for a third"):
            third(w)


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("rows", [1, 3])
def test_vectorized_jacobians_and_hessians(rows: int) -> None:
    """Those of torch.autograd, whose batches of gradients are no transform of torch.func."""
    circuit, x, w = plain_circuit()
    for layer in (layer_of(1), QuantumLayer(circuit, ["Z0"], x, w, dtype=DOUBLE)):
        torch.manual_seed(1)
        given = torch.rand(rows, layer.in_features, dtype=DOUBLE), layer.weights.detach()
        call = function_of(layer)
        jacobian, hessian = torch.autograd.functional.jacobian, torch.autograd.functional.hessian
        want = jacobian(call, given)
        assert all(part.abs().max() > 0.1 for part in want)
        for a, b in zip(jacobian(call, given, vectorize=True), want):
            torch.testing.assert_close(a, b)

        # A penalty on the Jacobian has a derivative.
        leaves = [t.clone().requires_grad_() for t in given]
        slopes = [
            torch.autograd.grad(
                sum(part.sin().sum() for part in jacobian(call, tuple(leaves), True, vectorize=way)), leaves
            )
            for way in (True, False)
        ]
        for a, b in zip(*slopes):
            torch.testing.assert_close(a, b)

        def loss(x, w, call=call):
            return (call(x, w) ** 2).sum()

        for a, b in zip(hessian(loss, given, vectorize=True), hessian(loss, given)):
            torch.testing.assert_close(a, b)


def test_transforms_inside_of_what_is_compiled() -> None:
    """They are not traced, as gradients would be zeros: that is refused with the way out."""
    layer = layer_of(1)
    x, w = (t.detach() / 8 for t in values_of(layer))
    program, call, grad = qd.compile(plain_circuit()[0]), function_of(layer), torch.func.grad
    params = torch.linspace(-1, 1, 17, dtype=DOUBLE)
    functions = [
        (lambda x: grad(lambda x: layer(x).sum())(x), x),
        (lambda w: grad(lambda w: (call(x, torch.sin(w)) ** 2).sum())(w), w),
        (lambda x: grad(lambda x: grad(lambda x: layer(x).sum())(x).sum())(x), x),
        (lambda p: grad(lambda p: (grad(lambda p: expectation(program, "Z0", p))(p) ** 2).sum())(p), params),
        (lambda x: torch.vmap(layer)(x), x),
    ]
    for function, given in functions:
        want = function(given)
        assert want.abs().max() > 0.01
        plain = torch.compiler.disable(function)
        compiled = torch.compile(lambda given, plain=plain: 2 * plain(torch.sin(given)), backend="eager")
        torch.testing.assert_close(compiled(torch.asin(given)), 2 * want)
        with pytest.raises(Exception, match=r"traces no circuit in torch.func.*torch.compiler.disable"):
            torch.compile(function, backend="eager", fullgraph=True)(given)


@pytest.mark.parametrize("seed", range(3))
def test_products_with_hessians_by_differentiating_gradients_backwards_twice(seed: int) -> None:
    """torch.autograd.functional.hvp differentiates second derivatives by the directions, in which they are linear."""
    layer = layer_of(seed)
    call, (x, w) = function_of(layer), (t.detach() for t in values_of(layer))
    directions = torch.randn_like(x), torch.randn_like(w)
    functional = torch.autograd.functional

    def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return call(x, w)[:, 1].sum()

    def twice(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return call(call(x, w)[:, :FEATURES], torch.sin(w)).pow(2).sum()

    for loss in (linear, twice):
        want = functional.vhp(loss, (x, w), directions)[1]  # Hessians are symmetric.
        for found in (
            functional.hvp(loss, (x, w), directions)[1],
            functional.hvp(loss, (x, w), directions, create_graph=True)[1],
        ):
            for one, other in zip(found, want):
                torch.testing.assert_close(one, other)
        # By the weights alone, along several directions at once.
        along = torch.randn(4, len(w), dtype=DOUBLE)
        hessian = functional.hessian(lambda w, loss=loss: loss(x, w), w)
        step = torch.zeros_like(w, requires_grad=True)
        v = w.clone().requires_grad_()
        first = torch.autograd.grad(loss(x, v), v, create_graph=True)[0]
        back = torch.autograd.grad(first, v, step, create_graph=True)[0]
        together = torch.autograd.grad(back, step, along, is_grads_batched=True, create_graph=True)[0]
        torch.testing.assert_close(together, along @ hessian)
        with pytest.raises(RuntimeError, match="asks for a third"):
            torch.autograd.grad(together.sum(), v)


def test_third_derivatives_are_refused() -> None:
    layer = layer_of(1)
    x, w = values_of(layer)
    call = function_of(layer)
    first = torch.autograd.grad(call(x, w).pow(2).sum(), w, create_graph=True)[0]
    second = torch.autograd.grad(first.sum(), w, create_graph=True)[0]
    for ask in (
        lambda: torch.autograd.grad(second.sum(), w, retain_graph=True),
        lambda: torch.autograd.grad(second.sum(), x, retain_graph=True),
        lambda: second.sum().backward(),
    ):
        with pytest.raises(RuntimeError, match="asks for a third"):
            ask()


def test_half_precision_is_widened() -> None:
    layer = layer_of(1, dtype=torch.float32)
    model = torch.nn.Sequential(torch.nn.Linear(2, FEATURES), layer)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = model(torch.rand(3, 2))
    assert out.dtype is torch.float32
    out.sum().backward()
    assert model[0].weight.grad is not None
    assert layer(torch.rand(2, 5, FEATURES, dtype=DOUBLE)).shape == (2, 5, layer.out_features)
    assert layer.double()(torch.rand(2, FEATURES)).dtype is DOUBLE


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_model_in_half_precision_fits_together(dtype: torch.dtype) -> None:
    layer = layer_of(1, dtype=torch.float32)
    model = torch.nn.Sequential(torch.nn.Linear(2, FEATURES), layer, torch.nn.Linear(layer.out_features, 1)).to(dtype)
    out = model(torch.rand(3, 2, dtype=dtype))
    assert out.dtype is dtype
    out.sum().backward()
    assert {parameter.grad.dtype for parameter in model.parameters()} == {dtype}
    x = torch.rand(3, FEATURES, dtype=dtype)
    rounded = layer(x)
    torch.testing.assert_close(rounded, layer.float()(x).to(dtype), rtol=0, atol=0)


def test_saved_copied_and_loaded() -> None:
    layer = layer_of(3)
    x, _ = values_of(layer)
    want = layer(x)
    buffer = io.BytesIO()
    torch.save(layer, buffer)
    buffer.seek(0)
    again = torch.load(buffer, weights_only=False)
    torch.testing.assert_close(again(x), want)
    assert again._handle != layer._handle
    torch.testing.assert_close(copy.deepcopy(layer)(x), want)
    torch.testing.assert_close(pickle.loads(pickle.dumps(layer))(x), want)
    other = layer_of(3, initial=np.zeros(5))
    other.load_state_dict(layer.state_dict())
    torch.testing.assert_close(other(x), want)
    assert list(layer.state_dict()) == ["weights"]


class Rows(torch.utils.data.Dataset):
    """Runs a layer in the worker."""

    def __init__(self, layer: QuantumLayer) -> None:
        self.layer = layer

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        with torch.no_grad():
            return self.layer(torch.full((1, FEATURES), 0.1 * index, dtype=DOUBLE))[0]


def test_workers_of_a_data_loader_run_it() -> None:
    layer = layer_of(5)
    want = layer(0.1 * torch.arange(4, dtype=DOUBLE)[:, None].expand(4, FEATURES))
    found = next(iter(torch.utils.data.DataLoader(Rows(layer), batch_size=4, num_workers=1)))
    torch.testing.assert_close(found, want.detach())


def test_frozen_weights_complex_outputs_and_layers_without_inputs() -> None:
    w = qd.ParameterVector("w", 2)
    circuit = qd.Circuit(1).ry(w[0], 0).rz(w[1], 0)
    layer = QuantumLayer(circuit, qd.State(), weights=w, frozen={w[1]: 0.4}, initial=[0.6], dtype=DOUBLE)
    state = qd.simulate(circuit, [0.6, 0.4], dtype="complex128").amplitudes()
    np.testing.assert_allclose(layer().detach()[0], [*state.real, *state.imag], atol=1e-12)
    assert "1 qubits, 0 inputs, 1 weights, 4 outputs" in repr(layer)


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE, torch.float16])
@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)], ids=str)
def test_no_rows_have_no_outputs_and_zero_gradients_of_the_weights(shape, dtype) -> None:
    layer = layer_of(0)
    x = torch.zeros(*shape, FEATURES, dtype=dtype, requires_grad=True)
    found = layer(x)
    assert found.shape == (*shape, layer.out_features)
    found.sum().backward()
    assert x.grad.shape == x.shape
    assert (layer.weights.grad == 0).all()
    gradient = torch.vmap(torch.func.grad(lambda w, x: function_of(layer)(x, w).sum()), in_dims=(None, 0))
    given = torch.zeros(2, *shape, FEATURES, dtype=DOUBLE)
    torch.testing.assert_close(
        gradient(layer.weights.detach(), given), torch.zeros(2, len(layer.weights), dtype=DOUBLE)
    )


def test_rows_without_features() -> None:
    circuit = qd.Circuit(1).rx(qd.Parameter("a"), 0)
    layer = QuantumLayer(circuit, ["Z0"], weights=["a"], dtype=DOUBLE)
    for shape in [(4,), (2, 3), (0,), (0, 2)]:
        torch.testing.assert_close(layer(torch.zeros(*shape, 0)).detach(), layer().detach().expand(*shape, 1))


def test_refusals() -> None:
    layer = layer_of(0)
    with pytest.raises(ValueError, match=r"takes \(..., 3\)"):
        layer(torch.rand(2, 4))
    with pytest.raises(TypeError, match="float32 or"):
        layer_of(0, dtype=torch.float16)
    with pytest.raises(ValueError, match="initial has shape"):
        layer_of(0, initial=[1.0])
    with pytest.raises(StateError, match="finite"):
        layer(torch.full((1, FEATURES), float("nan"), dtype=DOUBLE))
    for given in (np.zeros((2, FEATURES)), [[0.1] * FEATURES]):
        with pytest.raises(TypeError, match=r"takes a tensor, got (ndarray|list): give it torch.as_tensor"):
            layer(given)


@pytest.mark.filterwarnings("ignore:Complex modules:UserWarning")
def test_kinds_of_weights_in_which_no_circuit_runs() -> None:
    x = torch.rand(2, FEATURES, dtype=DOUBLE)
    for given in (x, x.to(torch.complex128)):
        with pytest.raises(TypeError, match=r"circuits take torch.float32 or torch.float64.* got torch.complex128"):
            layer_of(0).to(torch.complex128)(given)
    meta = layer_of(0).to("meta")
    with pytest.raises(TypeError, match="the weights are on meta and x is on cpu"):
        meta(x)
    for layer in (meta, layer_of(0)):
        with pytest.raises(TypeError, match="on the CPU and on CUDA GPUs; got a tensor on meta"):
            layer(x.to("meta"))
    assert meta.to_empty(device="cpu")(x).shape == (2, meta.out_features)


def test_tensors_are_not_taken_for_shared_where_torch_watches_calls() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x

    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(broken, backend="eager", fullgraph=True)(torch.ones(2))
    tensor = qd.Tensor(np.ones(3))
    assert not held_elsewhere(tensor)
    array = tensor._data
    assert held_elsewhere(tensor)
    assert array.sum() == 3
