"""Rows on the CPU go from tensors to kernels as they lie in memory: what callers do to tensors changes no gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from qdist import Circuit, ParameterVector  # noqa: E402
from qdist.backends import StateError  # noqa: E402
from qdist.interop.torch import QuantumLayer, operators  # noqa: E402


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
