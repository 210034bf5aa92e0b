"""States and gradients are the same, to the last bit, whatever the number of threads is."""

import numpy as np
import pytest

import qdist as qd
from qdist.native import kernels


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("num_qubits", [14, 17])
def test_the_number_of_threads_changes_nothing(num_qubits: int, dtype: str) -> None:
    # Of 17 qubits neighbouring tiles are loaded together, more of them by one thread than by five.
    circuit = qd.library.strongly_entangling_layers(num_qubits, 2)
    theta = np.random.default_rng(7).uniform(-1, 1, circuit.num_parameters)
    energy = qd.library.heisenberg_xxz(num_qubits)
    program = qd.compile(circuit, dtype=dtype)
    before, results = kernels.max_threads(), []
    try:
        for threads in (1, 2, 5):
            kernels.set_threads(threads)
            value, gradient = program.value_and_grad(energy, theta)
            results.append([program.run(theta).gather(), value, gradient])
    finally:
        kernels.set_threads(before)
    for other in results[1:]:
        for found, expected in zip(other, results[0], strict=True):
            np.testing.assert_array_equal(found, expected)
