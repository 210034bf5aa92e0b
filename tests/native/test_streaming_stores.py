"""States too large for any cache are stored past them, where the processor can: the same numbers, bit by bit."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import qdist as qd
from qdist.native import kernels

NUM_QUBITS = 20
"""So many that tiles of the highest qubits have more rows 128 KiB apart than a cache has ways."""


@pytest.fixture
def any_size() -> Iterator[None]:
    before = kernels.set_beyond_caches(0)
    yield
    kernels.set_beyond_caches(before)


def circuit() -> qd.Circuit:
    rng = np.random.default_rng(3)
    theta = iter(qd.ParameterVector("t", 2 * NUM_QUBITS))
    found = qd.Circuit(NUM_QUBITS)
    for _ in range(2):
        for q in range(NUM_QUBITS):
            found.rx(next(theta), q)
        for a, b in rng.permutation(NUM_QUBITS).reshape(-1, 2).tolist():
            found.cx(a, b).rzz(0.3, a, b)
    return found


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_states_and_gradients_are_the_same(dtype: str, any_size: None) -> None:
    values = np.linspace(-2, 2, 2 * NUM_QUBITS)
    program = qd.Program(circuit(), dtype=dtype, device="cpu")
    observable = qd.PauliSum({"Z0 Z19": 1.0, "X7": 0.5})

    def results() -> list[np.ndarray]:
        value, gradient = program.value_and_grad(observable, values)
        return [program.run(values).amplitudes(), np.array(value), gradient]

    past_caches = results()
    kernels.set_beyond_caches(1 << 60)
    for one, other in zip(past_caches, results()):
        np.testing.assert_array_equal(one, other)


def test_the_size_is_kept(any_size: None) -> None:
    assert kernels.set_beyond_caches(5) == 0
    assert kernels.set_beyond_caches(0) == 5
