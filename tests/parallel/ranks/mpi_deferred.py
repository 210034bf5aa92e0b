"""Models that are larger than the memory of a rank; run on every rank of 4 at once.

A limit of the address space stands for a small machine: the whole model does not fit below it, a rank's part does.
"""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import qdist as qd
from qdist import nn, optim
from qdist.comm import Communicator
from qdist.parallel import DataParallel, LayerDesc, Pipeline, SharedLayerDesc, Zero
from qdist.tensor import Tensor, functional, manual_seed

WIDTH = 1024  # A layer has 4 MiB in float32.
LAYERS = 64
ROOM = 200 << 20
"""Bytes that a rank may take besides what it has: less than the model, more than training its part takes."""


@pytest.fixture(scope="session")
def comm() -> Communicator:
    return qd.comm.init(timeout=120)


@contextmanager
def little_memory(room: int) -> Iterator[None]:
    """Inside, this process may take so many bytes more."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + room, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def layers(width: int, count: int, dtype: type = np.float32) -> list[LayerDesc]:
    return [LayerDesc(nn.Linear, width, width, dtype=dtype) for _ in range(count)]


def test_the_whole_model_does_not_fit(comm: Communicator) -> None:
    if comm.rank == 0:  # The others would see the same.
        with little_memory(ROOM), pytest.raises(MemoryError):
            [nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)]
    comm.barrier()


def test_a_pipeline_of_described_layers_fits(comm: Communicator) -> None:
    x = np.ones((4, WIDTH), np.float32)
    # Messages need their buffers once, before the limit.
    Pipeline(layers(8, 4), nn.MSELoss(), comm, micro_batches=2).train_batch(x[:, :8], x[:, :8])
    with little_memory(ROOM):
        manual_seed(3)
        pipeline = Pipeline(layers(WIDTH, LAYERS), nn.MSELoss(), comm, micro_batches=2)
        optimizer = pipeline.make_optimizer(optim.SGD, lr=0.01)
        losses = [pipeline.train_batch(x, x, optimizer) for _ in range(2)]
    assert losses[1] < losses[0]
    assert sum(p.nbytes for p in pipeline.parameters()) < LAYERS / comm.size * 4.3e6


def test_zero_of_a_deferred_model_fits(comm: Communicator) -> None:
    def train(width: int, count: int) -> list[float]:
        with nn.deferred():
            model = nn.Sequential(*(nn.Linear(width, width) for _ in range(count)))
        zero = Zero(model, optim.SGD(model.parameters(), lr=0.01), stage=3, comm=comm)
        losses = []
        for _ in range(2):
            x = Tensor(np.ones((2, width), np.float32))
            loss = functional.mse_loss(zero(x), x)
            zero.backward(loss)
            zero.step()
            losses.append(float(loss))
        return losses

    train(8, 2)
    with little_memory(ROOM):
        losses = train(WIDTH, LAYERS)
    assert losses[1] < losses[0]


def weights(seed: int) -> list[np.ndarray]:
    manual_seed(seed)
    return [p.numpy() for _ in range(4) for p in nn.Linear(8, 8, dtype=np.float64).parameters()]


def test_numbers_are_those_of_building_it_whole(comm: Communicator) -> None:
    expected = weights(5)
    for partition in ("count", "parameters", [1] * comm.size):
        manual_seed(5)
        pipeline = Pipeline(layers(8, 4, np.float64), nn.MSELoss(), comm, micro_batches=1, partition=partition)
        for got, wanted in zip(pipeline.whole_state_dict().values(), expected, strict=True):
            np.testing.assert_array_equal(got.numpy(), wanted)
    for stage in (1, 2, 3):
        manual_seed(5 + comm.rank)  # The first rank's are taken.
        with nn.deferred():
            model = nn.Sequential(*(nn.Linear(8, 8, dtype=np.float64) for _ in range(4)))
        zero = Zero(model, optim.Adam(model.parameters()), stage=stage, comm=comm)
        for got, wanted in zip(zero.state_dict().values(), expected, strict=True):
            np.testing.assert_array_equal(Tensor(got).numpy(), wanted)


def test_what_is_not_sharded_gets_the_first_ranks_values(comm: Communicator) -> None:
    expected = weights(5)[:4]
    manual_seed(5 + comm.rank)
    with nn.deferred():
        model = nn.Sequential(nn.Linear(8, 8, dtype=np.float64), nn.Linear(8, 8, dtype=np.float64))
    model[0].requires_grad_(False)
    Zero(model, optim.SGD(model[1].parameters(), lr=0.1), stage=3, comm=comm)
    np.testing.assert_array_equal(model[0].weight.numpy(), expected[0])
    manual_seed(5 + comm.rank)
    with nn.deferred():
        model = nn.Sequential(nn.Linear(8, 8, dtype=np.float64), nn.Linear(8, 8, dtype=np.float64))
    wrapped = DataParallel(model, comm)
    for got, wanted in zip(wrapped.parameters(), expected, strict=True):
        np.testing.assert_array_equal(got.numpy(), wanted)


def test_shared_descriptions_share_one_weight(comm: Communicator) -> None:
    def described() -> list[LayerDesc]:
        return [
            SharedLayerDesc("table", nn.Embedding, 6, 4, dtype=np.float64),
            LayerDesc(nn.Linear, 4, 4, dtype=np.float64),
            LayerDesc(nn.Tanh),
            SharedLayerDesc(
                "table",
                nn.Embedding,
                6,
                4,
                dtype=np.float64,
                forward_func=lambda layer, x: x @ layer.weight.transpose(1, 0),
            ),
        ]

    x, y = np.array([0, 3, 5, 1]), np.array([1, 2, 0, 4])
    manual_seed(1)
    table, middle = nn.Embedding(6, 4, dtype=np.float64), nn.Linear(4, 4, dtype=np.float64)
    loss = functional.cross_entropy(middle(table(x)).tanh() @ table.weight.transpose(1, 0), y)
    loss.backward()
    manual_seed(1)
    pipeline = Pipeline(described(), nn.CrossEntropyLoss(), comm, micro_batches=2)
    assert pipeline.train_batch(x, y) == pytest.approx(float(loss), abs=1e-12)
    for name, p in pipeline.module.named_parameters():
        if "1." not in name:
            np.testing.assert_allclose(p.grad.numpy(), table.weight.grad.numpy(), atol=1e-12)
