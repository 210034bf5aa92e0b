"""What one stage of a pipeline refuses, every rank raises, and nobody waits for long; run on every rank at once."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from models import F64, sgd

import qdist as qd
from qdist import nn
from qdist.comm import Communicator, Mesh
from qdist.parallel import Pipeline, Plan, parallelize
from qdist.tensor import Tensor, functional, manual_seed

TIMEOUT = 120


@pytest.fixture(scope="session")
def comm() -> Communicator:
    return qd.comm.init(timeout=TIMEOUT)


class ByHand(nn.Module):
    """Attention that nobody can divide."""

    def forward(self, x: Tensor) -> Tensor:
        return x + functional.softmax(x @ x.swapaxes(1, 2)) @ x


class LongTable(nn.Module):
    """A table as long as the whole sequence, which the plan does not name."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Parameter(np.ones((8, 4)))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table


class Positive(nn.Module):
    """Refuses some values."""

    def forward(self, x: Tensor) -> Tensor:
        if x.numpy().min() < -1e3:
            raise ValueError("the values are too small")
        return x


def language(first: nn.Module, last: nn.Module) -> nn.Sequential:
    manual_seed(1)
    block = nn.TransformerBlock(4, 2, 4, 0.0, True, dtype=F64)
    return nn.Sequential(nn.Embedding(7, 4, dtype=F64), first, block, last, nn.Linear(4, 7, dtype=F64))


def raised(comm: Communicator, message: str, call: Any) -> None:
    """Every rank raises ValueError, with the message, long before a time-out."""
    begin = time.monotonic()
    with pytest.raises(ValueError, match=message) as caught:
        call()
    ends = comm.all_gather_object((time.monotonic() - begin, str(caught.value)))
    assert max(seconds for seconds, _ in ends) < TIMEOUT / 4, ends


@pytest.mark.parametrize("schedule", ["1f1b", "f-then-b"])
@pytest.mark.parametrize("place", ["first", "last"])
@pytest.mark.parametrize("kind", [ByHand, LongTable])
def test_positions_that_one_stage_mistakes_are_refused_by_all(
    comm: Communicator, kind: Any, place: str, schedule: str
) -> None:
    mesh = Mesh(comm, pp=2, cp=comm.size // 2)
    layers = (kind(), nn.Identity()) if place == "first" else (nn.Identity(), kind())
    plan = Plan(micro_batches=2, stages=[2, 3], schedule=schedule)
    model = parallelize(language(*layers), mesh, plan, optimizer=sgd, loss=nn.CrossEntropyLoss())
    x = np.random.default_rng(0).integers(0, 7, (4, 8))
    raised(comm, r"cp=\d+ divides the sequence", lambda: model.train_batch(x, x))
    raised(comm, r"cp=\d+ divides the sequence", lambda: model.eval_batch(x, x))
    raised(comm, r"cp=\d+ divides the sequence", lambda: model.predict(x))


def test_a_plain_mean_that_masks_is_refused_by_all(comm: Communicator) -> None:
    mesh = Mesh(comm, dp=comm.size // 2, pp=2)

    def masked(output: Tensor, targets: Tensor) -> Tensor:
        chosen = (targets != 0).to(np.float64)
        return ((output.sum(-1) * chosen).sum()) / chosen.sum()

    x = np.random.default_rng(mesh.coordinates["dp"]).integers(1, 7, (4, 8))
    y = x.copy()
    y[0] = y[1, :5] = 0
    layers = language(nn.Identity(), nn.Identity())
    for zero in (0, 3):
        plan = Plan(micro_batches=2, zero=zero)
        model = parallelize(language(nn.Identity(), nn.Identity()), mesh, plan, optimizer=sgd, loss=masked)
        raised(comm, "no mean over rows|cannot join its loss", lambda: model.train_batch(x, y))  # noqa: B023
        assert all(p.grad is None for p in model.module.parameters())
    pipeline = Pipeline(layers, masked, mesh, micro_batches=2)
    raised(comm, "no mean over rows|refuses it", lambda: pipeline.train_batch(x, y))


def test_a_pipeline_goes_on_after_a_batch_that_a_stage_refused(comm: Communicator) -> None:
    layers = [nn.Linear(3, 3, dtype=F64) for _ in range(2 * comm.size)]
    manual_seed(3)
    middle = len(layers) // 2
    stack = [*layers[:middle], Positive(), *layers[middle:]]
    for schedule, options in (("1f1b", {}), ("interleaved", {"virtual_stages": 2})):
        pipeline = Pipeline(stack, nn.MSELoss(), comm, micro_batches=3, schedule=schedule, **options)
        good, bad = np.ones((6, 3)), np.ones((6, 3)) * 1e9 * np.array([[-1.0, 1.0, -1.0]])
        layers[0].weight.data = np.eye(3)
        first = pipeline.eval_batch(good, good)
        for call in (pipeline.train_batch, pipeline.eval_batch):
            raised(comm, "the values are too small", lambda: call(bad, good))  # noqa: B023
        np.testing.assert_allclose(pipeline.eval_batch(good, good), first)
        raised(comm, "the values are too small", lambda: pipeline.train_batch(bad[:2], good[:2]))  # noqa: B023
        np.testing.assert_allclose(pipeline.train_batch(good, good), first)
