"""Row programs on a GPU against those on the CPU in double, on arrays of the host and of the GPU."""

from typing import Any

import numpy as np
import pytest
from row_circuits import PARAMETERS, random_circuit, random_sum, row_records

import qdist as qd
from qdist.backends.cpu.rows import CpuRows
from qdist.comm import cuda_devices
from qdist.plan.observables.row_outputs import lowered_outputs

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(cuda_devices() == 0, reason="no CUDA device")]


@pytest.mark.parametrize("in_double", [True, False])
@pytest.mark.parametrize("n", range(1, 17))
def test_values_derivatives_and_states(n: int, in_double: bool) -> None:
    import cupy

    from qdist.backends.cuda.rows import CudaRows

    for seed in range(4 if n <= 12 else 2):
        rng = np.random.default_rng(100 * n + seed)
        of_rows = sorted(rng.permutation(PARAMETERS)[: rng.integers(PARAMETERS + 1)].tolist())
        records = row_records(random_circuit(n, 100 * n + seed), of_rows)
        sums = [random_sum(n, seed, 3), qd.PauliSum({f"Z{n - 1}": 1.0})]
        chosen = lowered_outputs(records.frame, [sums[0], tuple(rng.permutation(n)[:2].tolist()), sums[1]])
        batch = int(rng.integers(0, 12))
        rows, shared = rng.normal(size=(batch, len(of_rows))), rng.normal(size=PARAMETERS - len(of_rows))
        cotangents = rng.normal(size=(batch, chosen.num_outputs))
        cpu, gpu = CpuRows(records, True), CudaRows(records, in_double, 0)
        readings = cpu.outputs(chosen), gpu.outputs(chosen)
        bound = 1e-11 if in_double else 3e-5
        wanted, found = (k.forward(rows, shared, r, False) for k, r in zip((cpu, gpu), readings))
        assert wanted is not None
        assert found is not None
        np.testing.assert_allclose(found[0], wanted[0], atol=bound)
        for which in ((True, True), (True, False), (False, True)):
            expected = cpu.backward(rows, shared, readings[0], cotangents, *which)
            assert expected is not None
            on_host = gpu.backward(rows, shared, readings[1], cotangents, *which)
            there = gpu.backward(*map(cupy.asarray, (rows, shared)), readings[1], cupy.asarray(cotangents), *which)
            for results, is_numpy in ((on_host, True), (there, False)):
                assert results is not None
                for a, b in zip(expected, results):
                    assert (a is None) == (b is None)
                    if a is not None:
                        assert isinstance(b, np.ndarray) == is_numpy
                        np.testing.assert_allclose(cupy.asnumpy(b), a, atol=bound)
        states = np.empty((batch, 1 << n), complex)
        assert cpu.states(rows, shared, states)
        own = np.empty((batch, 1 << n), np.complex128 if in_double else np.complex64)
        assert gpu.states(rows, shared, own)
        np.testing.assert_allclose(own, states, atol=bound)


def test_many_angles_and_masks_that_shared_memory_has_no_room_for() -> None:
    from qdist.backends.cuda.rows import CudaRows

    n, layers = 12, 900
    theta, circuit = iter(qd.ParameterVector("t", n * layers)), qd.Circuit(n)
    for k in range(layers):
        for q in range(n):
            circuit.ry(next(theta), q)
        circuit.cx(k % n, (k + 1) % n)
    records = row_records(circuit, [0, 1])
    chosen = lowered_outputs(records.frame, [random_sum(n, 1, 5)])
    rng = np.random.default_rng(2)
    rows, shared = rng.normal(size=(3, 2)), rng.normal(size=n * layers - 2)
    cpu, gpu = CpuRows(records, True), CudaRows(records, True, 0)
    wanted = cpu.backward(rows, shared, cpu.outputs(chosen), np.ones((3, 1)), True, True)
    found = gpu.backward(rows, shared, gpu.outputs(chosen), np.ones((3, 1)), True, True)
    assert wanted is not None
    assert found is not None
    for a, b in zip(wanted, found):
        np.testing.assert_allclose(b, a, atol=1e-9)


def test_a_step_of_a_layer_is_four_launches_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values in float32 are read and written as they are, weights in the layer's order."""
    import cupy

    from qdist import nn
    from qdist.backends.cuda.rows import kernel as rows
    from qdist.tensor import Tensor

    names: list[str] = []
    found = rows.kernel

    class Counted:
        def __init__(self, *key: Any) -> None:
            self._kernel, self._name = found(*key), key[1]
            self.max_dynamic_shared_size_bytes = self._kernel.max_dynamic_shared_size_bytes

        def __call__(self, *given: Any, **more: Any) -> None:
            names.append(self._name)
            self._kernel.max_dynamic_shared_size_bytes = self.max_dynamic_shared_size_bytes
            self._kernel(*given, **more)

    monkeypatch.setattr(rows, "kernel", Counted)
    rows._with_room.cache_clear()
    x, w = qd.ParameterVector("x", 4), qd.ParameterVector("w", 8)
    circuit = qd.Circuit(4)
    for q in range(4):
        circuit.rx(x[q], q).ry(w[7 - q], q)
    circuit.cx(0, 1).cx(2, 3)
    for q in range(4):
        circuit.rz(w[q], q).ry(2 * w[q], q)
    data = np.random.default_rng(1).normal(size=(5, 4)).astype(np.float32)
    results = []
    for device in ("cpu", "cuda"):
        layer = nn.QuantumLayer(circuit, ["Z0", "X1 Y2", "Z3"], inputs=x, weights=w, seed=3, device=device)
        assert layer.weights is not None
        names.clear()
        out = layer(Tensor(data, device=layer.program.device))
        (out * out).sum().backward()
        results.append((out.numpy(), layer.weights.grad.numpy()))
    rows._with_room.cache_clear()
    assert names == ["prepare_rows", "rows_forward", "rows_backward", "shared_gradients"]
    assert isinstance(out.data, cupy.ndarray)
    assert out.dtype == layer.weights.grad.dtype == np.float32
    for a, b in zip(*results):
        np.testing.assert_allclose(b, a, atol=1e-5)


def test_parameters_that_are_not_finite_are_told() -> None:
    from qdist.backends.cuda.rows import CudaRows

    records = row_records(random_circuit(3, 1), [0])
    kernel = CudaRows(records, False, 0)
    reading = kernel.outputs(lowered_outputs(records.frame, [random_sum(3, 1, 2)]))
    assert kernel.forward(np.array([[np.nan]]), np.zeros(PARAMETERS - 1), reading, False) is None


def test_nothing_of_a_step_is_digested(monkeypatch: pytest.MonkeyPatch) -> None:
    """That would wait for the GPU: x that others hold is copied there, and weights are reached by tensors alone."""
    import cupy

    from qdist import nn, optim
    from qdist.tensor import Tensor, autograd

    x, w = qd.ParameterVector("x", 2), qd.ParameterVector("w", 2)
    circuit = qd.Circuit(2).rx(x[0], 0).rx(x[1], 1).cx(0, 1).ry(w[0], 0).ry(w[1], 1)
    layer = nn.QuantumLayer(circuit, ["Z0", "Z1"], inputs=x, weights=w, seed=3, device="cuda")
    optimizer = optim.SGD(layer.parameters(), lr=0.1)
    digested: list[Any] = []
    monkeypatch.setattr(autograd, "digest", digested.append)
    held = cupy.asarray(np.random.default_rng(1).normal(size=(8, 2)).astype(np.float32))
    for _ in range(3):
        for given in (Tensor(held), Tensor(held[::2]), Tensor(held.copy())):
            optimizer.zero_grad()
            out = layer(given)
            (out * out).sum().backward()
            optimizer.step()
    assert digested == []


@pytest.mark.parametrize("rows", [1, 5])
def test_layers_without_a_row_program_take_products_and_functions_of_parameters(rows: int) -> None:
    from qdist import nn
    from qdist.tensor import Tensor

    n, rng = 6, np.random.default_rng(4)
    x, w = qd.ParameterVector("x", 2), qd.ParameterVector("w", 2)
    circuit = qd.Circuit(n).ry(x[0] * w[0], 0).rx(np.sin(w[1]), 1).permutation(rng.permutation(1 << n), range(n))
    circuit.ry(x[1], 2).rz(w[0] * w[1], 0).cx(0, 2)
    program = qd.compile(circuit, device="cuda")
    assert program.plan.rows_unfit
    found: list[list[Any]] = []
    given = rng.normal(size=(rows, 2))
    for device in ("cuda", "cpu"):
        layer = nn.QuantumLayer(circuit, ["Z0", "X1 Y2"], x, w, dtype="complex128", device=device, seed=2)
        features = Tensor(given, requires_grad=True, device=device)
        out = layer(features)
        (out * out).sum().backward()
        found.append([np.asarray(t.numpy()) for t in (out, features.grad, layer.weights.grad)])
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, atol=1e-12)
