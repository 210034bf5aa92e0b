"""Runs from |0...0> in memory of any content: every amplitude is written, and none is read that was not."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from states import random_sum
from strategies import circuits

import qdist as qd
from qdist.native import kernels
from qdist.plan.levels import Level
from qdist.state import reference

both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])
TOLERANCE = {"complex64": 2e-6, "complex128": 1e-13}


@pytest.fixture(autouse=True, scope="module")
def memory_of_nan(device: str) -> Any:
    """Memory that is asked for without a content is full of numbers that are none."""
    with pytest.MonkeyPatch.context() as patch:
        backend = type(qd.StateVector(1, device=device).backend)
        original = backend.empty

        def empty(self: Any, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
            result = original(self, shape, dtype)
            if result.dtype.kind in "fc":
                result.fill(np.nan)
            return result

        patch.setattr(backend, "empty", empty)
        yield


def check(circuit: qd.Circuit, dtype: str, levels: list[Level] | None, params: np.ndarray) -> None:
    program = qd.Program(circuit, dtype=dtype, levels=levels)
    want = reference.state(circuit, params)
    for out in (None, qd.StateVector.empty(circuit.num_qubits, dtype, layout=program.plan.layout)):
        state = program.run(params, out=out)
        np.testing.assert_allclose(state.amplitudes(), want, atol=TOLERANCE[dtype])
        np.testing.assert_array_equal(state.copy().amplitudes(), state.amplitudes())


@both
@given(circuits(max_qubits=10), st.integers(0, 3))
@settings(max_examples=60)
def test_any_circuit(dtype: str, device: str, circuit: qd.Circuit, more: int) -> None:
    n, lanes = circuit.num_qubits, kernels.lane_bits[dtype == "complex128"]
    tiles = [Level("cache", min(n, lanes + more), min(n, lanes))] if device == "cpu" else None
    check(circuit, dtype, tiles, np.zeros(0))


def reaching(n: int, touched: range) -> qd.Circuit:
    """Layers that mix some qubits, with gates under conditions on them and phases between, of two parameters."""
    a, b = qd.Parameter("a"), qd.Parameter("b")
    circuit = qd.Circuit(n)
    for layer in range(2):
        circuit.ry(a + layer, touched).rzz(b, touched[0], touched[-1])
        for q in touched[1:]:
            circuit.crx(2 * b, q - 1, q).swap(q - 1, q)
        circuit.mcx([touched[0], touched[-1]], touched[len(touched) // 2])
    return circuit


@both
@pytest.mark.parametrize(
    ("n", "touched"), [(16, range(16)), (16, range(3)), (16, range(12, 16)), (17, range(2, 15)), (15, range(6, 9))]
)
def test_qubits_that_no_gate_mixes_stay_zero(n: int, touched: range, dtype: str) -> None:
    circuit, params = reaching(n, touched), np.array([0.3, -0.7])
    check(circuit, dtype, None, params)
    check(circuit.inverse(), dtype, None, params)


@both
@pytest.mark.parametrize("touched", [range(16), range(4, 16), range(3)])
def test_gradients_use_no_memory_that_nothing_wrote(touched: range, dtype: str) -> None:
    circuit, params = reaching(16, touched), np.array([0.3, -0.7])
    observable = random_sum(16, 6, seed=1, flips=3)
    energy, gradient = qd.Program(circuit, dtype=dtype).value_and_grad(observable, params)
    np.testing.assert_allclose(energy, reference.expectation(circuit, observable, params), atol=2e-5)
    np.testing.assert_allclose(gradient, reference.gradient(circuit, observable, params), atol=1e-4)
