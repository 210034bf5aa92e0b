"""Deferred building: the numbers of plain building, no memory before, and a clear word where values are missing."""

import numpy as np
import pytest

from qdist import nn, optim
from qdist.tensor import Tensor, manual_seed, random


def model() -> nn.Sequential:
    layers = [nn.Embedding(5, 4), nn.Flatten(), nn.Linear(8, 6), nn.LayerNorm(6), nn.Conv2d(1, 2, 3), nn.Linear(6, 2)]
    nn.init.orthogonal_(layers[2].weight)
    nn.init.constant_(layers[2].bias, 0.5)
    nn.init.xavier_normal_(layers[5].weight)
    return nn.Sequential(*layers)


def test_values_and_the_draws_after_are_those_of_plain_building() -> None:
    manual_seed(4)
    plain, after = model(), random.default_generator().uniform((3,))
    manual_seed(4)
    with nn.deferred():
        later = model()
    np.testing.assert_array_equal(random.default_generator().uniform((3,)), after)
    # In any order, and after other draws.
    nn.materialize([later[5].weight])
    nn.materialize(later)
    assert [type(p) for p in later.parameters()] == [nn.Parameter] * 9
    for name, value in plain.state_dict().items():
        np.testing.assert_array_equal(later.state_dict()[name].numpy(), value.numpy())


def test_shapes_are_known_and_values_are_refused() -> None:
    with nn.deferred():
        layer = nn.Linear(1 << 20, 1 << 20)  # 4 TiB
    assert layer.weight.shape == (1 << 20, 1 << 20)
    assert layer.weight.nbytes == 4 << 40
    with pytest.raises(RuntimeError, match=r"Linear.weight, of shape .* nn.materialize\(model\)"):
        layer.weight.numpy()
    with pytest.raises(ValueError, match="has shape"):
        layer.bias.data = np.zeros(3, np.float32)


def test_an_optimiser_may_be_made_before_the_values() -> None:
    def train(build: nn.Sequential, optimizer: optim.Optimizer) -> np.ndarray:
        for _ in range(2):
            optimizer.zero_grad()
            build(Tensor(np.ones((2, 3), np.float32))).sum().backward()
            optimizer.step()
        return build[0].weight.numpy()

    manual_seed(0)
    plain = nn.Sequential(nn.Linear(3, 2))
    manual_seed(0)
    with nn.deferred():
        later = nn.Sequential(nn.Linear(3, 2))
    optimizer = optim.Adam(later.parameters())
    nn.materialize(later)
    np.testing.assert_array_equal(train(later, optimizer), train(plain, optim.Adam(plain.parameters())))


def test_moving_waits_for_the_values_too(device: str) -> None:
    manual_seed(0)
    plain = nn.Linear(3, 2).to(np.float64).to(device)
    manual_seed(0)
    with nn.deferred():
        later = nn.Linear(3, 2).to(np.float64).to(device)
    nn.materialize(later)
    assert later.weight.dtype == np.float64
    assert later.weight.device == plain.weight.device
    np.testing.assert_array_equal(later.weight.numpy(), plain.weight.numpy())


def test_a_parameter_made_of_an_array_keeps_it() -> None:
    with nn.deferred():
        parameter = nn.Parameter(np.arange(3.0))
    np.testing.assert_array_equal(parameter.numpy(), np.arange(3.0))
