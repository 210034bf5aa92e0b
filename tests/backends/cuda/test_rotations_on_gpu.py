"""Pauli rotations and matrices that keep parities on a GPU, against the CPU: states and gradients."""

import numpy as np
import pytest
from test_back_on_gpu import check as check_gradient
from test_on_gpu import check
from test_parities import heisenberg, random_layers
from test_turned import rotations

from qdist.comm import cuda_devices

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(cuda_devices() == 0, reason="no CUDA device")]
both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])


@both
@pytest.mark.parametrize("n", [7, 15])
def test_states(n: int, dtype: str) -> None:
    for seed in range(3):
        for circuit in (rotations(n, 40, seed), random_layers(n, 60, seed)):
            check(circuit, dtype, np.random.default_rng(seed).uniform(-6, 6, circuit.num_parameters))


@both
@pytest.mark.parametrize("n", [7, 14])
def test_gradients(n: int, dtype: str) -> None:
    for circuit in (rotations(n, 30, 5, widest=6), random_layers(n, 40, 5), heisenberg(n, 3)):
        check_gradient(circuit, dtype)
