"""Rows on the CPU go from tensors to kernels as they lie in memory: what callers do to tensors changes no gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from qdist import Circuit, Parameter, ParameterVector, compile  # noqa: E402
from qdist.backends import StateError  # noqa: E402
from qdist.interop.torch import QuantumLayer, expectation, operators  # noqa: E402


def layer(dtype: Any = torch.float64, qubits: int = 3) -> Any:
    x, w = ParameterVector("x", qubits), ParameterVector("w", 2 * qubits)
    circuit = Circuit(qubits)
    for q in range(qubits):
        circuit.rx(x[q], q).ry(w[q], q)
    for q in range(qubits - 1):
        circuit.cx(q, q + 1)
    for q in range(qubits):
        circuit.rz(w[qubits + q], q).rx(0.3, q)
    initial = np.random.default_rng(1).uniform(-3, 3, 2 * qubits)
    return QuantumLayer(circuit, ["Z0", "X1"], x, w, dtype=dtype, initial=initial)


def features(count: int = 5, dtype: Any = torch.float64) -> Any:
    return torch.tensor(np.random.default_rng(2).uniform(-3, 3, (count, 3)), dtype=dtype)


def gradients(model: Any, x: Any, out: Any) -> tuple[Any, Any]:
    return torch.autograd.grad((out * torch.arange(1.0, 3.0, dtype=out.dtype)).sum(), (x, model.weights))  # type: ignore[no-any-return]


def by_differences(model: Any, x: Any) -> tuple[Any, Any]:
    """The same derivatives without ours."""
    scale = torch.arange(1.0, 3.0, dtype=torch.float64)

    def loss() -> float:
        with torch.no_grad():
            return float((model(x) * scale).sum())

    found = []
    for tensor in (x, model.weights):
        gradient = torch.zeros_like(tensor)
        flat, to = tensor.detach().view(-1), gradient.view(-1)
        for k in range(len(flat)):
            before = float(flat[k])
            flat[k] = before + 1e-5
            more = loss()
            flat[k] = before - 1e-5
            to[k] = (more - loss()) / 2e-5
            flat[k] = before
        found.append(gradient)
    return found[0], found[1]


def assert_close(found: Any, expected: Any, tolerance: float = 1e-8) -> None:
    for a, b in zip(found, expected):
        assert a.shape == b.shape
        torch.testing.assert_close(a.to(b.dtype), b, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("count", [1, 5, 33])
def test_gradients_are_those_of_finite_differences(count: int) -> None:
    model, x = layer(), features(count)
    expected = by_differences(model, x)
    x.requires_grad_()
    assert_close(gradients(model, x, model(x)), expected)


def test_float32_gives_float32() -> None:
    expected = by_differences(layer(), features())
    model, x = layer(torch.float32), features(dtype=torch.float32).requires_grad_()
    found = gradients(model, x, model(x))
    assert found[0].dtype == found[1].dtype == torch.float32
    assert_close(found, expected, 1e-5)


@pytest.mark.parametrize("kind", ["transposed", "every other", "expanded"])
def test_tensors_that_are_not_contiguous(kind: str) -> None:
    x = features(4)
    if kind == "transposed":
        strided = x.t().contiguous().t()
    elif kind == "every other":
        strided = torch.repeat_interleave(x, 2, dim=0)[::2]
    else:
        x = x[:1].repeat(4, 1)
        strided = x[:1].expand(4, 3)
    assert not strided.is_contiguous()
    model = layer()
    expected = by_differences(model, x.clone())
    strided = strided.detach().requires_grad_()
    assert_close(gradients(model, strided, model(strided)), expected)


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("qubits", [3, 9])
def test_tensors_whose_memory_has_the_other_sign(qubits: int, count: int) -> None:
    """What `imag` of a conjugate gives: as features, as weights and as the gradient that comes back."""
    model = layer(qubits=qubits)
    x = torch.tensor(np.random.default_rng(3).uniform(-3, 3, (count, qubits)))
    g = torch.tensor(np.random.default_rng(4).uniform(-3, 3, (count, 2)))
    plain = x.clone().requires_grad_()
    out = model(plain)
    expected = [out, *torch.autograd.grad(out, (plain, model.weights), g)]
    mirrored = torch._neg_view(-x).requires_grad_()
    weights = torch._neg_view(-model.weights.detach()).requires_grad_()
    assert mirrored.is_neg()
    assert weights.is_neg()
    found = torch.func.functional_call(model, {"weights": weights}, (mirrored,))
    for back in (g, torch._neg_view(-g)):
        again = torch.autograd.grad(found, (mirrored, weights), back, retain_graph=True)
        assert_close([found, *again], expected, 1e-13)
    row = torch.complex(torch.zeros_like(x[:1, :1]), -x[:1, :1]).conj().imag
    assert row.is_neg()
    program = compile(Circuit(1).rx(0.4, 0).ry(Parameter("a"), 0))
    one = row[0].detach().requires_grad_()
    value = expectation(program, "X0", one)
    (slope,) = torch.autograd.grad(value, one)
    torch.testing.assert_close(value.item(), np.cos(0.4) * np.sin(x[0, 0].item()))
    torch.testing.assert_close(slope.item(), np.cos(0.4) * np.cos(x[0, 0].item()))


def test_outputs_may_be_changed_in_place() -> None:
    model, x = layer(), features().requires_grad_()
    expected = gradients(model, x, model(x) * 3)
    out = model(x)
    out.mul_(3)
    assert_close(gradients(model, x, out), expected, 1e-14)


def test_another_forward_in_between() -> None:
    """Its states take the place of the first one's."""
    model, other, x = layer(), layer(), features().requires_grad_()
    expected = gradients(model, x, model(x))
    out = model(x)
    kept = out.clone()
    other(features(7))
    assert_close(gradients(model, x, out), expected, 1e-14)
    assert torch.equal(out, kept)


def test_weights_that_change_before_backward_are_refused() -> None:
    model, x = layer(), features()
    out = model(x).sum()
    with torch.no_grad():
        model.weights += 1.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_values_that_are_not_finite_are_named() -> None:
    x = features()
    x[2, 1] = float("nan")
    with pytest.raises(StateError, match="finite"):
        layer()(x)


def test_no_array_is_made_around_what_kernels_read(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any) -> None:
        raise AssertionError("an array was made of a tensor")

    monkeypatch.setattr(operators, "as_array", refuse)
    model = layer()
    model(features()).sum().backward()
    assert model.weights.grad is not None
