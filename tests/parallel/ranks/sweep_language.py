"""Cases of tests/parallel/sweep.py: language models with dropout, padding and position code of their own, on meshes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import product
from typing import Any

import models
import numpy as np
from meshes import assert_trains_as, share_of
from models import F64, Trained, adam, sgd
from sweep_cases import ROWS, ZERO, Case, _mesh, factorisations, unit_for

from qdist import nn
from qdist.comm import Communicator
from qdist.parallel import Plan, parallelize
from qdist.tensor import Tensor, functional, random

AXES = ("dp", "tp", "pp", "cp")
KINDS = ("gpt", "llama", "unnamed", "by hand")
PADDING = 0
LLAMA = {"*.[qkv]": "column", "*.o": "row", "*.gate": "column", "*.up": "column", "*.down": "row"}


class Input(nn.Module):
    """Tokens, and where they stand by rows of a table, as most people write it."""

    def __init__(self, unit: int, placed: bool) -> None:
        super().__init__()
        self.tokens = nn.Embedding(3 * unit, 2 * unit, dtype=F64)
        self.wpe = nn.Embedding(2 * unit + 3, 2 * unit, dtype=F64) if placed else None

    def forward(self, tokens: Any) -> Tensor:
        x = self.tokens(tokens)
        return x if self.wpe is None else x + self.wpe.weight[: x.shape[1]]


class ByHand(nn.Module):
    """Attention that nobody can divide."""

    def forward(self, x: Tensor) -> Tensor:
        return x + functional.softmax(x @ x.swapaxes(1, 2)) @ x


def build(kind: str, unit: int) -> nn.Sequential:
    """Eight layers."""
    random.manual_seed(0)
    width, first = 2 * unit, Input(unit, kind != "llama")
    if kind == "llama":
        middle: list[nn.Module] = [nn.LlamaBlock(width, unit, unit, 2 * unit, dtype=F64) for _ in range(2)]
        norm: nn.Module = nn.RMSNorm(width, dtype=F64)
    else:
        middle = [nn.TransformerBlock(width, unit, width, 0.2, True, dtype=F64) for _ in range(2)]
        norm = nn.LayerNorm(width, dtype=F64)
    alone = ByHand() if kind == "by hand" else nn.SiLU()
    tail = [nn.Dropout(0.3), alone, norm, nn.Dropout(0.1), nn.Linear(width, 3 * unit, dtype=F64)]
    return nn.Sequential(first, *middle, *tail)


def batches(unit: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Rows of very different lengths."""
    made = []
    for step in range(2):
        tokens = np.random.default_rng([5, step]).integers(1, 3 * unit, (ROWS, 2 * unit + 1))
        lengths = np.linspace(2 * unit, 1, ROWS).astype(int)
        goals = np.where(np.arange(2 * unit) < lengths[:, None], tokens[:, 1:], PADDING)
        made.append((tokens[:, :-1], goals))
    return made


LOSS = nn.CrossEntropyLoss(ignore_index=PADDING, label_smoothing=0.1)


@cache
def alone(kind: str, unit: int, make: models.MakeOptimizer) -> Trained:
    model = build(kind, unit)
    update = make(model.parameters())
    random.manual_seed(31)
    losses = []
    for x, y in batches(unit):
        update.zero_grad()
        value = LOSS(model(Tensor(x)), Tensor(y))
        value.backward()
        update.step()
        losses.append(value.item())
    return Trained(losses, models.gradients_of(model), models.state_of(model))


def language_cases(comm: Communicator) -> Iterator[Case]:
    for kind, zero, degrees in product(KINDS, ZERO, factorisations(comm.size, len(AXES))):
        shape = dict(zip(AXES, degrees))
        refusals: tuple[str, ...] = ()
        if shape["cp"] > 1 and kind in ("unnamed", "by hand"):
            refusals = ("positions that are not this rank's",)
        yield Case(f"{kind}, {shape}, zero={zero}", partial(_on_mesh, comm, kind, shape, zero), refusals)


def _on_mesh(comm: Communicator, kind: str, shape: dict[str, int], zero: int) -> None:
    mesh, unit = _mesh(comm, **shape), unit_for(comm.size)
    make = adam if zero else sgd
    want = alone(kind, unit, make)
    layers = {} if shape["tp"] == 1 else LLAMA if kind == "llama" else {"[12]": "block"}
    positions = ["0.wpe.weight"] if kind in ("gpt", "by hand") else []
    plan = Plan(layers, positions=positions, zero=zero, micro_batches=2)
    trained = parallelize(build(kind, unit), mesh, plan, optimizer=make, loss=LOSS)
    random.manual_seed(31, comm.rank)
    assert_trains_as(want, trained, [share_of(mesh, x, y) for x, y in batches(unit)])
