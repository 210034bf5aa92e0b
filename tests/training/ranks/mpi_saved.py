"""`Saved` pipelines and ZeRO models, saved by two ranks, gone on from by two and by one; run on every rank at once."""

import os
from pathlib import Path

import numpy as np
import pytest

import qdist as qd
from qdist import nn, optim, training
from qdist.parallel import Pipeline, Saved, Zero
from qdist.tensor import Tensor, functional, manual_seed

STEPS = 6
X = np.random.default_rng(0).normal(size=(STEPS, 4, 5)).astype(np.float32)
Y = np.random.default_rng(1).integers(0, 3, (STEPS, 4))


@pytest.fixture(scope="session")
def comm() -> qd.comm.Communicator:
    return qd.comm.init(timeout=120)


def layers() -> list[nn.Module]:
    manual_seed(2)
    return [nn.Linear(5, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3)]


def pipeline(comm) -> tuple[Saved, object]:
    made = Pipeline(layers(), nn.CrossEntropyLoss(), comm, micro_batches=2)
    optimizer = made.make_optimizer(optim.Adam, lr=0.05)
    manual_seed(9)
    return Saved(made, optimizer), lambda n: made.train_batch(X[n], Y[n], optimizer)


def zero(comm) -> tuple[Saved, object]:
    model = nn.Sequential(*[layer for layer in layers() if not isinstance(layer, nn.Dropout)])
    made = Zero(model, optim.Adam(model.parameters(), lr=0.05), 2, comm)
    rows = slice(4 * comm.rank // comm.size, 4 * (comm.rank + 1) // comm.size)

    def step(n: int) -> float:
        loss = functional.cross_entropy(made(Tensor(X[n][rows])), Tensor(Y[n][rows]))
        made.backward(loss)
        made.step()
        return float(comm.all_reduce(np.array(loss.item()), "avg"))

    return Saved(made), step


@pytest.mark.parametrize("make", [pipeline, zero])
def test_it_goes_on(comm, make) -> None:
    folder = Path(comm.broadcast_object(os.environ["QDIST_TEST_FOLDER"])) / make.__name__
    saved, step = make(comm)
    loop = training.steps(STEPS, {"model": saved}, comm=comm)
    for n in loop:
        n.record(loss=step(n))
    want = loop.history.values["loss"]
    own = comm.split([[rank] for rank in range(comm.size)])
    for ranks, total in ((comm, 3), (comm, 5), (own, STEPS)):
        saved, step = make(ranks)
        place = folder if ranks is comm else folder.with_name(f"{make.__name__}{comm.rank}")
        for n in (
            (loop := training.steps(total, {"model": saved}, place, resume=folder, comm=ranks))
            if total > 3
            else (loop := training.steps(total, {"model": saved}, place, comm=ranks))
        ):
            n.record(loss=step(n))
        got = loop.history.values["loss"]
        if ranks is comm:
            assert got == want[:total]
        else:
            np.testing.assert_allclose(got, want, rtol=1e-5)
        comm.barrier()
