"""What a model takes of a rank's memory is foreseen before it is built; on ranks: mpi_traced_pipeline.py."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import qdist as qd
from qdist import nn, optim
from qdist.comm import Mesh
from qdist.parallel import Plan, forecast_memory, parallelize
from qdist.tensor import Tensor

sys.path.append(str(Path(__file__).parents[1] / "ranks"))
from traced_models import batches, build, loss_of


def adam(parameters: Any) -> optim.Optimizer:
    return optim.AdamW(parameters, lr=1e-2)


def sgd(parameters: Any) -> optim.Optimizer:
    return optim.SGD(parameters, lr=0.1)


@pytest.mark.parametrize("make", [adam, sgd])
@pytest.mark.parametrize(
    "plan",
    [
        Plan(),
        Plan(zero=1),
        Plan(zero=2),
        Plan(zero=3),
        Plan(recompute=["blocks.*"], zero=3),
        *(Plan(precision="float16", loss_scale=8.0, zero=zero) for zero in range(4)),
        Plan(precision="float16", loss_scale=8.0, recompute=["blocks.*"], zero=2),
    ],
    ids=lambda plan: f"zero {plan.zero}{', recomputed' * bool(plan.recompute)}{', half' * bool(plan.precision)}",
)
def test_the_forecast_is_what_is_counted(plan: Plan, make: Any) -> None:
    (x, y), loss = batches("gpt", 7)[0], loss_of("gpt")
    model, frozen = (build("gpt") if plan.precision is None else build("gpt").to("float32") for _ in range(2))
    for each in (model, frozen):
        each.wpe.weight.requires_grad_(False)
    (foreseen,) = forecast_memory(frozen, {"dp": 1}, plan, optimizer=make, loss=loss, inputs=x, targets=y)
    trained = parallelize(model, Mesh(qd.comm.init(), dp=1), plan, optimizer=make, loss=loss)
    trained.train_batch(x, y)
    assert trained.memory() == [foreseen]
    assert foreseen.activations > 0


@pytest.mark.parametrize("zero", [0, 1, 3])
def test_weights_that_are_not_trained_and_buffers_are_no_activations(zero: int) -> None:
    def make() -> nn.Module:
        model = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 32), Waves(32), nn.Linear(32, 4))
        for layer in (model[2], model[4]):
            layer.weight.requires_grad_(False)
        return model

    class Waves(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.register_buffer("waves", Tensor(np.linspace(0, 1, width, dtype=np.float32)))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.waves

    x, y, loss, plan = np.ones((3, 6), np.float32), np.array([0, 3, 1]), nn.CrossEntropyLoss(), Plan(zero=zero)
    (foreseen,) = forecast_memory(make(), {"dp": 1}, plan, optimizer=sgd, loss=loss, inputs=x, targets=y)
    trained = parallelize(make(), Mesh(qd.comm.init(), dp=1), plan, optimizer=sgd, loss=loss)
    trained.train_batch(x, y)
    assert trained.memory() == [foreseen]
    # Of each row the input of GELU, what is known of it, and the loss's: never the 32 x 32 numbers of a weight.
    assert 3 * 32 * 4 <= foreseen.activations < 32 * 32 * 4


def test_a_model_without_values_is_foreseen_without_its_memory() -> None:
    width, layers = 512, 8
    with nn.deferred():
        model = nn.Sequential(*(nn.Linear(width, width) for _ in range(layers)))
    x = np.zeros((64, width), np.float32)
    options: dict[str, Any] = {"optimizer": adam, "loss": nn.MSELoss(), "inputs": x, "targets": x}
    tracemalloc.start()
    ranks = forecast_memory(model, {"dp": 2, "pp": 4}, Plan(zero=3, micro_batches=4), **options)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    layer = 4 * (width * width + width)
    assert [memory.parameters for memory in ranks] == [layer] * 8  # Half of two layers.
    assert [memory.optimizer for memory in ranks] == [2 * layer] * 8
    assert peak < layer
    assert all(parameter.deferred for parameter in model.parameters())
    # 1f1b: the first stage waits for four micro-batches of 16 rows, the second for three. A layer keeps its input,
    # and the batch itself is not counted.
    passed = 4 * 16 * width
    assert [memory.activations for memory in ranks[:2]] == [4 * passed, 3 * 2 * passed]
    assert ranks[0].total == sum(ranks[0])


def test_what_does_not_fit_is_refused() -> None:
    (x, y), loss = batches("gpt", 2)[0], loss_of("gpt")
    options: dict[str, Any] = {"optimizer": sgd, "loss": loss, "inputs": x, "targets": y}
    with pytest.raises(ValueError, match="axis 'no', which divides nothing"):
        forecast_memory(build("gpt"), {"no": 2}, **options)
    with pytest.raises(ValueError, match=r"precision='float16' needs a float32 model.*\(float64\)"):
        forecast_memory(build("gpt"), {"dp": 2}, Plan(precision="float16"), **options)
    with pytest.raises(ValueError, match="layers do not make 20 stages"):
        forecast_memory(build("gpt"), {"pp": 20}, **options)
