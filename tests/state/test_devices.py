"""Names of devices, with and without a GPU."""

import numpy as np
import pytest

import qdist as qd
from qdist.comm import cuda_devices
from qdist.native import kernels
from qdist.state import devices
from qdist.state.errors import StateError


@pytest.mark.parametrize("device", ["auto", "cpu"])
def test_the_cpu(device: str) -> None:
    program = qd.compile(qd.Circuit(2).h(0), device=device)
    assert program.device == program.run().device == "cpu"
    assert isinstance(program.run().local, np.ndarray)
    assert devices.kernels_of(program.run().local) is kernels


@pytest.mark.parametrize("device", ["gpu", "cuda:", "cuda:x", "cuda:-1", 0, None])
def test_names_that_are_none(device: object) -> None:
    with pytest.raises(StateError, match="use 'cpu', 'cuda'"):
        qd.compile(qd.Circuit(2).h(0), device=device)  # type: ignore[arg-type]


@pytest.mark.skipif(cuda_devices() > 0, reason="there is a GPU")
def test_a_gpu_that_is_not_there() -> None:
    for make in (lambda: qd.StateVector(3, device="cuda"), lambda: qd.compile(qd.Circuit(2).h(0), device="cuda:0")):
        with pytest.raises(StateError, match="needs CuPy and a CUDA driver"):
            make()
