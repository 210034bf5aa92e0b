"""Values and gradients of one circuit through torch on a GPU, which nobody waits for."""

import numpy as np
import pytest
import torch

import qdist as qd
from qdist.comm import cuda_devices
from qdist.interop.torch import expectation
from qdist.program import adjoint

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not cuda_devices() or not torch.cuda.is_available(), reason="no CUDA device"),
]
N = 14


def ising() -> tuple[qd.Circuit, qd.PauliSum]:
    circuit, t = qd.Circuit(N).h(range(N)), qd.ParameterVector("t", 4)
    for layer in range(2):
        for q in range(N - 1):
            circuit.rzz(t[2 * layer], q, q + 1)
        circuit.rx(2 * t[2 * layer + 1] + 0.1, range(N))
    terms = {f"Z{q} Z{q + 1}": 1.0 for q in range(N - 1)} | {f"X{q}": 0.5 for q in range(N)} | {"": 0.25}
    return circuit, qd.PauliSum(terms)


def dense() -> tuple[qd.Circuit, qd.PauliSum]:
    """With gates whose derivatives take the host."""
    circuit, t = qd.Circuit(N), qd.ParameterVector("t", 4)
    for q in range(N):
        circuit.u(t[0], t[1], t[2], q)
    circuit.crx(t[3], 0, N - 1)
    return circuit, qd.PauliSum({"Z0 Z13": 1.0, "X3 Y5": -0.5})


@pytest.mark.parametrize(("make", "queued"), [(ising, True), (dense, False)])
@pytest.mark.parametrize(("dtype", "off"), [(torch.float32, 2e-5), (torch.float64, 1e-11)])
def test_values_and_derivatives(make, queued: bool, dtype: torch.dtype, off: float, monkeypatch) -> None:
    circuit, energy = make()
    program = qd.compile(circuit, device="cpu", dtype="complex128")
    found, way = [], adjoint.queued_gradient
    monkeypatch.setattr(adjoint, "queued_gradient", lambda *args: found.append(way(*args)) or found[-1])
    for k in range(4):
        theta = np.random.default_rng(k).normal(size=4)
        params = torch.tensor(theta, dtype=dtype, device="cuda", requires_grad=True)
        value = expectation(program, energy, params)
        assert (value.shape, value.dtype, value.device) == ((), dtype, params.device)
        wanted, gradient = program.value_and_grad(energy, params.detach().double().cpu().numpy())
        value += 1.0
        (3 * value).backward()
        assert value.item() == pytest.approx(wanted + 1, abs=off)
        np.testing.assert_allclose(params.grad.cpu().numpy(), 3 * gradient, atol=3 * off)
    assert [one is not None for one in found] == [queued] * 4


@pytest.mark.parametrize("n", [3, 9, 12])
def test_one_row_is_read_on_the_gpu(n: int, monkeypatch) -> None:
    """Of few qubits: the kernel of rows reads the parameters, and its results stay there."""
    circuit = qd.library.hardware_efficient(n, 2)
    program = qd.compile(circuit, device="cpu", dtype="complex128")
    energy = qd.PauliSum({"Z0 Z1": -1.0, "X2": 0.5, "": 0.25})
    for dtype, off in ((torch.float32, 2e-5), (torch.float64, 1e-11)):
        theta = np.random.default_rng(n).normal(size=circuit.num_parameters)
        params = torch.tensor(theta, dtype=dtype, device="cuda", requires_grad=True)
        wanted, gradient = program.value_and_grad(energy, params.detach().double().cpu().numpy())
        monkeypatch.setattr(torch.Tensor, "cpu", None)  # Nothing comes to the host.
        value = expectation(program, energy, params)
        value.backward()
        monkeypatch.undo()
        assert (value.shape, value.dtype) == ((), dtype)
        assert value.item() == pytest.approx(wanted, abs=off)
        np.testing.assert_allclose(params.grad.cpu().numpy(), gradient, atol=off)
    broken = torch.full_like(params, torch.nan).requires_grad_()
    assert expectation(program, energy, broken).isnan()


def test_streams_one_after_the_other() -> None:
    circuit, energy = ising()
    program = qd.compile(circuit, device="cpu", dtype="complex128")
    streams = [torch.cuda.Stream() for _ in range(3)]
    kept = []
    for k in range(9):
        theta = np.random.default_rng(k).normal(size=4)
        with torch.cuda.stream(streams[k % 3]):
            params = torch.tensor(theta, device="cuda", requires_grad=True)
            value = expectation(program, energy, params)
            value.backward()
        kept.append((theta, value, params))
    torch.cuda.synchronize()
    for theta, value, params in kept:
        wanted, gradient = program.value_and_grad(energy, theta)
        assert value.item() == pytest.approx(wanted, abs=1e-11)
        np.testing.assert_allclose(params.grad.cpu().numpy(), gradient, atol=1e-11)


def test_second_derivatives_and_changes_in_between() -> None:
    circuit, energy = ising()
    program = qd.compile(circuit, device="cpu", dtype="complex128")
    theta = np.random.default_rng(0).normal(size=4)
    params = torch.tensor(theta, device="cuda", requires_grad=True)
    (gradient,) = torch.autograd.grad(expectation(program, energy, params), params, create_graph=True)
    (along,) = torch.autograd.grad(gradient.sum(), params)
    np.testing.assert_allclose(along.cpu().numpy(), program.hvp(energy, theta, np.ones(4)), atol=1e-7)
    value = expectation(program, energy, params)
    with torch.no_grad():
        params += 1.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        value.backward()
