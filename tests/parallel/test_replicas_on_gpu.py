"""DataParallel and Zero on CuPy arrays give what they give on NumPy arrays."""

import numpy as np
import pytest

from qdist import nn, optim
from qdist.comm import counting_communicator, cuda_devices
from qdist.parallel import DataParallel, LossScale, Zero, on_local_devices
from qdist.tensor import Tensor, functional, manual_seed
from qdist.tensor.arrays import device_of

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(cuda_devices() == 0, reason="no CUDA device")]


def trained(way: str, device: str) -> list[np.ndarray]:
    """Parameters and gradients of one rank of two after two steps; the other brings nothing, the same everywhere."""
    comm = counting_communicator(2)
    manual_seed(1)
    dtype = np.float32 if way == "half" else np.float64
    model = nn.Sequential(nn.Conv2d(1, 4, 3, dtype=dtype), nn.GELU(), nn.Flatten(), nn.Linear(144, 5, dtype=dtype))
    model.to(device)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(0)
    x = Tensor(rng.normal(size=(6, 1, 8, 8)).astype(dtype), device=device)
    y = Tensor(rng.integers(0, 5, 6), device=device)
    if way == "dp":
        model = DataParallel(model, comm)
        for _ in range(2):
            optimizer.zero_grad()
            functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        return [t.numpy() for p in model.parameters() for t in (p, p.grad)]
    options = {"precision": np.float16, "loss_scale": LossScale(8.0)} if way == "half" else {}
    zero = Zero(model, optimizer, 3 if way == "half" else int(way[-1]), comm, **options)
    for _ in range(2):
        zero.backward(functional.cross_entropy(zero(x), y))
        norm = zero.clip_grad_norm(1.0)
        gradients = list(zero.gradients().values())
        assert zero.step()
    state = zero.sharded_state_dict()
    zero.load_sharded_state_dict(state)
    assert all(device_of(unit.master) == x.device for unit in zero.units)
    return [np.array(norm), *gradients, *(value.numpy() for value in zero.state_dict().values())]


@pytest.mark.parametrize("way", ["dp", "zero1", "zero2", "zero3", "half"])
def test_training(way: str) -> None:
    tolerance = 2e-2 if way == "half" else 1e-9
    for got, want in zip(trained(way, "cuda"), trained(way, "cpu"), strict=True):
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def test_a_plain_script_takes_the_gpu() -> None:
    def train(comm, device: str) -> tuple[str, str, list]:
        model = DataParallel(nn.Linear(3, 1).to(device), comm)
        model(Tensor(np.ones((2, 3), np.float32), device=device)).mean().backward()
        return comm.backend, device, model.module.weight.grad.tolist()

    assert on_local_devices(train, ranks=1, timeout=120) == ("nccl", "cuda:0", [[1.0, 1.0, 1.0]])
