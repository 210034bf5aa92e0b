"""Cases of tests/parallel/sweep.py: recurrent layers, convolutions and norms of sequences, hooks, half precision."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import product
from typing import Any

import half_models
import models
import numpy as np
from meshes import assert_trains_as, share_of
from models import F64, Trained, adam, sgd
from sweep_cases import ROWS, ZERO, Case, _mesh, factorisations

from qdist import nn
from qdist.comm import Communicator, Mesh
from qdist.parallel import Plan, SyncBatchNorm, parallelize
from qdist.tensor import Tensor, random

WIDTH, LENGTH, CLASSES = 16, 6, 5
KINDS = ("recurrent", "convolutions", "batch norm", "hooks", "hooks on divided layers")


class States(nn.Module):
    """A recurrent layer's states at all positions."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


class Channels(nn.Module):
    """A layer over the sequence as the last axis."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x.swapaxes(1, 2)).swapaxes(1, 2)


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


def build(kind: str, rows: Any) -> nn.Sequential:
    """Eight layers. rows: the ranks that share the batch, or None for one process."""
    random.manual_seed(0)
    # A bias before a batch norm changes nothing: its gradient is rounding, which Adam would take for a direction.
    first = nn.Linear(WIDTH, WIDTH, kind != "batch norm", dtype=F64)
    last = nn.Linear(WIDTH, CLASSES, dtype=F64)
    if kind == "recurrent":
        parts: list[nn.Module] = [
            States(nn.LSTM(WIDTH, WIDTH, 2, dropout=0.2, dtype=F64)),
            States(nn.GRU(WIDTH, WIDTH, dtype=F64)),
        ]
    elif kind == "convolutions":
        parts = [
            Channels(nn.Conv1d(WIDTH, WIDTH, 3, padding=1, groups=2, dtype=F64)),
            Channels(nn.ConvTranspose1d(WIDTH, WIDTH, 3, padding=1, dtype=F64)),
        ]
    elif kind == "batch norm":
        norm = nn.BatchNorm1d(WIDTH, dtype=F64) if rows is None else SyncBatchNorm(WIDTH, comm=rows, dtype=F64)
        parts = [Channels(norm), nn.SiLU()]
    else:
        parts = [nn.Tanh(), nn.Linear(WIDTH, WIDTH, dtype=F64)]
        parts[0].register_forward_hook(lambda module, inputs, output: output * 0.5)
        hooked = parts[1] if kind == "hooks on divided layers" else parts[0]
        hooked.register_forward_pre_hook(lambda module, inputs: (inputs[0] + 0.25,))
    tail: list[nn.Module] = [nn.Identity(), nn.SiLU(), Mean(), nn.RMSNorm(WIDTH, dtype=F64)]
    return nn.Sequential(first, *parts, *tail, last)


def batches() -> list[tuple[np.ndarray, np.ndarray]]:
    draws = [np.random.default_rng([6, step]) for step in range(2)]
    return [(d.normal(size=(ROWS, LENGTH, WIDTH)), d.integers(0, CLASSES, ROWS)) for d in draws]


LOSS = nn.CrossEntropyLoss()


@cache
def alone(kind: str, make: models.MakeOptimizer) -> Trained:
    model = build(kind, None)
    update = make(model.parameters())
    random.manual_seed(31)
    losses = []
    for x, y in batches():
        update.zero_grad()
        value = LOSS(model(Tensor(x)), Tensor(y))
        value.backward()
        update.step()
        losses.append(value.item())
    return Trained(losses, models.gradients_of(model), models.state_of(model))


def layer_cases(comm: Communicator) -> Iterator[Case]:
    for kind, zero, degrees in product(KINDS, ZERO, factorisations(comm.size, 3)):
        shape = dict(zip(("dp", "tp", "pp"), degrees))
        if WIDTH % shape["tp"]:
            continue
        if kind == "batch norm" and (shape["pp"] > 1 or shape["dp"] > ROWS):
            continue  # A pipeline normalises micro-batches, which is another model.
        divided = kind == "hooks on divided layers" and shape["tp"] > 1
        refusals = ("hooks on a divided layer",) if divided else ()
        yield Case(f"{kind}, {shape}, zero={zero}", partial(_on_mesh, comm, kind, shape, zero), refusals)


def _on_mesh(comm: Communicator, kind: str, shape: dict[str, int], zero: int) -> None:
    mesh = _mesh(comm, **shape)
    make = adam if zero else sgd
    want = alone(kind, make)
    layers = {} if shape["tp"] == 1 else {"0": "column-gather", "7": "row-scatter"}
    if shape["tp"] > 1 and kind.startswith("hooks"):
        layers["2"] = "column-gather"
    rows = mesh["dp"] if shape["dp"] > 1 else None
    plan = Plan(layers, zero=zero, micro_batches=2)
    trained = parallelize(build(kind, rows), mesh, plan, optimizer=make, loss=LOSS)
    random.manual_seed(31, comm.rank)
    assert_trains_as(want, trained, [share_of(mesh, x, y) for x, y in batches()])


def half_cases(comm: Communicator) -> Iterator[Case]:
    """Heads and positions are powers of two, which no other number of ranks divides."""
    everything = product(("gpt", "llama"), ("bfloat16", "float16"), ZERO, factorisations(comm.size, 4))
    for kind, half, zero, degrees in everything:
        shape = dict(zip(("dp", "tp", "pp", "cp"), degrees))
        refusals = ("more stages than layers",) if shape["pp"] > 5 else ()
        if any(shape[axis] & (shape[axis] - 1) for axis in ("tp", "cp")):
            refusals += ("ranks that do not divide it",)
        run = partial(_in_half, comm, kind, half, shape, zero)
        yield Case(f"{kind} in {half}, {shape}, zero={zero}", run, refusals)


def _in_half(comm: Communicator, kind: str, half: str, shape: dict[str, int], zero: int) -> None:
    model = half_models.spread(kind, Mesh(comm, **shape), half, zero=zero, micro_batches=2)
    losses = half_models.train(model)
    np.testing.assert_allclose(losses, half_models.alone(comm, kind, half)[0], rtol=half_models.SAME[half])
    np.testing.assert_allclose(losses, half_models.alone(comm, kind, None)[0], rtol=half_models.NEAR[half])
