"""expectation, probabilities, state and overlap of a Program as functions of torch tensors."""

import gc
import re

import numpy as np
import pytest
import torch

import qdist as qd
from qdist.interop.torch import QuantumLayer, expectation, overlap, probabilities, state
from qdist.program import adjoint


@pytest.fixture
def program() -> qd.Program:
    return qd.compile(qd.library.hardware_efficient(3, 1), device="cpu")


@pytest.fixture
def params(program) -> torch.Tensor:
    torch.manual_seed(0)
    return torch.rand(2, program.circuit.num_parameters, dtype=torch.float64, requires_grad=True)


H = {"Z0 Z1": -1.0, "X2": 0.5}


def calls(program, phi):
    return {
        "expectation": lambda p: expectation(program, H, p),
        "expectations": lambda p: expectation(program, [H, "Y1"], p),
        "probabilities": lambda p: probabilities(program, p, [2, 0]),
        "state": lambda p: state(program, p),
        "overlap": lambda p: overlap(program, phi, p),
    }


@pytest.mark.parametrize("name", ["expectation", "expectations", "probabilities", "state", "overlap"])
def test_values_and_both_derivatives(name: str, program, params) -> None:
    exact = qd.compile(program.circuit, dtype="complex128", device="cpu")
    phi = qd.simulate(qd.Circuit(3).h(0).cx(0, 1).t(1), dtype="complex128", device="cpu")
    call = calls(program, phi)[name]
    found = call(params).detach().numpy()
    for row, theta in zip(found, params.detach().numpy()):
        ket = exact.run(theta)
        want = {
            "expectation": ket.expectation(H),
            "expectations": ket.expectations([H, "Y1"]),
            "probabilities": ket.probabilities([2, 0]),
            "state": ket.amplitudes(),
            "overlap": phi.inner(ket),
        }[name]
        np.testing.assert_allclose(row, want, atol=1e-12)
    np.testing.assert_allclose(call(params[0]).detach().numpy(), found[0], atol=1e-12)
    assert torch.autograd.gradcheck(call, (params,))
    assert torch.autograd.gradgradcheck(call, (params,))


def test_precision_is_that_of_the_parameters(program, params) -> None:
    assert expectation(program, H, params.detach().float()).dtype is torch.float32
    assert state(program, params.detach().float()).dtype is torch.complex64
    assert state(program, params.detach()).dtype is torch.complex128
    assert expectation(program, H, params.detach().bfloat16()).dtype is torch.float32
    with pytest.raises(TypeError, match="takes observables"):
        expectation(program, qd.State(), params)


@pytest.mark.parametrize("shape", [(1,), (3,), (2, 1), (2, 3)])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_as_many_parameters_as_the_circuit_has_and_no_others_are_taken(shape, requires_grad: bool) -> None:
    t = qd.ParameterVector("t", 2)
    program = qd.compile(qd.Circuit(3).rx(t[0] * t[1], 0), device="cpu")
    phi = qd.simulate(qd.Circuit(3).h(0), device="cpu")
    for call in calls(program, phi).values():
        with pytest.raises(ValueError, match=re.escape(f"(..., 2) parameters, got shape {shape}")):
            call(torch.ones(shape, requires_grad=requires_grad))


def test_a_state_that_changes_is_another_overlap(program, params) -> None:
    phi = qd.simulate(qd.Circuit(3).h(0), dtype="complex128", device="cpu")
    before = overlap(program, phi, params[0]).item()
    phi.local[:] = qd.simulate(qd.Circuit(3).x(0).h(1), dtype="complex128", device="cpu").local
    want = phi.inner(qd.compile(program.circuit, dtype="complex128", device="cpu").run(params[0].detach().numpy()))
    assert overlap(program, phi, params[0]).item() == pytest.approx(want) != before


@pytest.mark.skipif(
    tuple(map(int, torch.__version__.split(".")[:2])) < (2, 12), reason="older dynamo takes no objects as constants"
)
def test_compiled_in_one_graph(program, params) -> None:
    phi = qd.simulate(qd.Circuit(3).h(0), dtype="complex128", device="cpu")
    for name, call in calls(program, phi).items():

        def loss(p, call=call):
            return call(torch.sin(p)).abs().sum()

        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(params), loss(params), msg=name)
        torch.testing.assert_close(*(torch.autograd.grad(f(params), params)[0] for f in (compiled, loss)))


def test_one_value_of_a_larger_circuit_comes_with_its_gradient(monkeypatch) -> None:
    """In one go where a backward will follow; alone where none can."""
    program = qd.compile(qd.library.hardware_efficient(9, 2), dtype="complex128", device="cpu")
    torch.manual_seed(0)
    params = torch.rand(program.circuit.num_parameters, dtype=torch.float64, requires_grad=True)
    wanted = program.value_and_grad(H, params.detach().numpy())
    gradients, vjp = [], adjoint.vjp
    monkeypatch.setattr(adjoint, "vjp", lambda *args: gradients.append(1) or vjp(*args))
    value = expectation(program, H, params)
    value.backward(retain_graph=True)
    assert value.item() == pytest.approx(wanted[0], abs=1e-12)
    np.testing.assert_allclose(params.grad.numpy(), wanted[1], atol=1e-12)
    (-2 * value).backward()
    np.testing.assert_allclose(params.grad.numpy(), -wanted[1], atol=1e-12)
    assert gradients == [1]
    with torch.no_grad():
        assert expectation(program, H, params).item() == pytest.approx(wanted[0], abs=1e-12)
    expectation(program, H, params.detach())
    assert gradients == [1]
    assert torch.autograd.gradgradcheck(lambda p: expectation(program, H, p).reshape(1), params, fast_mode=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(0,), (0, 4), (2, 0)], ids=str)
@pytest.mark.parametrize("name", ["expectation", "expectations", "probabilities", "state", "overlap"])
def test_no_rows_have_no_values_and_no_gradients(name: str, shape, dtype, program) -> None:
    phi = qd.simulate(qd.Circuit(3).h(0), dtype="complex128", device="cpu")
    given = torch.zeros(*shape, program.circuit.num_parameters, dtype=dtype, requires_grad=True)
    call = calls(program, phi)[name]
    found, one = call(given), call(torch.zeros(given.shape[-1], dtype=dtype))
    assert found.shape == (*shape, *one.shape)
    assert found.dtype is one.dtype
    (first,) = torch.autograd.grad(found.abs().sum(), given, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), given)
    assert first.shape == second.shape == given.shape
    mapped = torch.vmap(lambda p: call(p).abs())(given.detach().expand(3, *given.shape))
    assert mapped.shape == (3, *found.shape)


def test_rows_of_a_circuit_without_parameters() -> None:
    program = qd.compile(qd.Circuit(1).h(0), device="cpu")
    torch.testing.assert_close(probabilities(program, torch.zeros(4, 2, 0)), torch.full((4, 2, 2), 0.5))
    torch.testing.assert_close(expectation(program, "X0", torch.zeros(3, 0)), torch.ones(3))


def state_of_one(program, _, params):
    return state(program, params)


def test_what_are_no_real_rows_is_refused_where_it_is_given() -> None:
    x, w = qd.ParameterVector("x", 2), qd.ParameterVector("w", 1)
    layer = QuantumLayer(qd.Circuit(2).ry(x[0], 0).rx(x[1], 1).ry(w[0], 0), "Z0", inputs=x, weights=w)
    program = qd.compile(qd.Circuit(1).ry(qd.Parameter("a"), 0))
    with pytest.raises(TypeError, match=r"real numbers, which are angles; got torch\.complex64"):
        layer(torch.ones(3, 2) * 1j)
    with pytest.raises(ValueError, match=r"takes \(\.\.\., 2\), got shape \(\)"):
        layer(torch.tensor(0.3))
    with pytest.raises(ValueError, match="got a tensor without dimensions"):
        expectation(program, "Z0", torch.tensor(0.3))
    for wrong in (torch.ones(2), torch.ones(3, 0)):
        with pytest.raises(ValueError, match=re.escape(f"takes (..., 1) parameters, got shape {tuple(wrong.shape)}")):
            expectation(program, "Z0", wrong)
    for given in ([0.3], np.array([0.3])):
        for call in (expectation, state_of_one):
            with pytest.raises(TypeError, match=r"params are a tensor, got (list|ndarray): give torch.as_tensor"):
                call(program, "Z0", given)
    for kind in (torch.complex64, torch.int64, torch.bool):
        for shape in ((1,), (3, 1)):
            with pytest.raises(TypeError, match=f"float32 or torch.float64; got {kind}"):
                probabilities(program, torch.ones(shape, dtype=kind))


def local_loss(kind: str):
    """A loss that makes its circuit inside itself, and forgets it."""

    def loss(p: torch.Tensor) -> torch.Tensor:
        a = qd.ParameterVector("a", 3)
        circuit = qd.Circuit(2).ry(a[0], 0).rx(a[1], 1).cx(0, 1).ry(a[2], 1)
        if kind == "layer":
            layer = QuantumLayer(circuit, "Z0 X1", inputs=list(a), dtype=torch.float64)
            return layer(p.unsqueeze(0)).sum()
        program = qd.compile(circuit, dtype="complex128", device="cpu")
        return probabilities(program, p)[1] if kind == "probabilities" else expectation(program, "Z0 X1", p)

    return loss


@pytest.mark.parametrize("kind", ["layer", "expectation", "probabilities"])
def test_a_loss_may_make_its_circuit_inside(kind: str) -> None:
    loss, at = local_loss(kind), torch.tensor([0.3, 0.8, -0.4], dtype=torch.float64)

    def differences(function, step: float = 1e-5) -> torch.Tensor:
        shifts = torch.eye(3, dtype=torch.float64) * step
        with torch.no_grad():
            return torch.stack([(function(at + s) - function(at - s)) / (2 * step) for s in shifts])

    def slope(p: torch.Tensor) -> torch.Tensor:
        p = p.detach().requires_grad_()
        with torch.enable_grad():
            value = loss(p)
        gc.collect()
        return torch.autograd.grad(value, p)[0]

    close = {"rtol": 1e-6, "atol": 1e-8}
    torch.testing.assert_close(slope(at), differences(loss), **close)
    torch.testing.assert_close(torch.func.grad(loss)(at), slope(at), **close)
    params = at.clone().requires_grad_()
    (first,) = torch.autograd.grad(loss(params), params, create_graph=True)
    gc.collect()
    second = torch.stack([torch.autograd.grad(part, params, retain_graph=True)[0] for part in first])
    torch.testing.assert_close(second, differences(slope), **close)
    torch.testing.assert_close(torch.func.jacrev(torch.func.grad(loss))(at), second, **close)
    rows = torch.stack([at, at + 0.2])
    torch.testing.assert_close(
        torch.func.vmap(torch.func.grad(loss), randomness="same")(rows)[0], first.detach(), **close
    )
