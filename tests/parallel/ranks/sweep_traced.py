"""Cases of tests/parallel/sweep.py: pipelines of models that are no list of layers, on meshes and in all schedules."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial
from itertools import product
from typing import Any

import models
from meshes import assert_trains_as, share_of
from models import Trained, adam, sgd
from sweep_cases import ROWS, SCHEDULES, ZERO, Case, _mesh, factorisations, unit_for
from traced_models import batches, build, loss_of

from qdist.comm import Communicator
from qdist.parallel import Plan, parallelize
from qdist.tensor import Tensor, random

AXES = ("dp", "tp", "pp", "cp")
KINDS = ("gpt", "gpt-call-head-module", "gpt-table-read-module", "unet")
CALLS = {"gpt": 7, "gpt-call-head-module": 10, "gpt-table-read-module": 8, "unet": 10}
"""How many modules each calls: as many stages can be made of it."""


@cache
def alone(kind: str, unit: int, make: models.MakeOptimizer) -> Trained:
    model, loss = build(kind, unit), loss_of(kind)
    update = make(model.parameters())
    random.manual_seed(31)
    losses = []
    for x, y in batches(kind, ROWS, unit):
        update.zero_grad()
        value = loss(model(Tensor(x)), Tensor(y))
        value.backward()
        update.step()
        losses.append(value.item())
    return Trained(losses, models.gradients_of(model), models.state_of(model))


def traced_cases(comm: Communicator) -> Iterator[Case]:
    for kind, zero, degrees in product(KINDS, ZERO, factorisations(comm.size, len(AXES))):
        shape = dict(zip(AXES, degrees))
        schedules = SCHEDULES if shape["pp"] > 1 else SCHEDULES[:1]
        for schedule in schedules:
            virtual = 2 if schedule == "interleaved" else 1
            refusals: list[str] = []
            if shape["cp"] > 1 and kind == "unet":
                refusals.append("cp without attention")
            if shape["cp"] > 1 and kind == "gpt":
                refusals.append("positions that are not this rank's")
            if shape["pp"] > 1 and shape["pp"] * virtual > CALLS[kind]:
                refusals = ["more stages than layers"]
            text = f"{kind}, {shape}, zero={zero}, {schedule}"
            yield Case(text, partial(_on_mesh, comm, kind, shape, zero, schedule, virtual), tuple(refusals))


def _on_mesh(comm: Communicator, kind: str, shape: dict[str, int], zero: int, schedule: str, virtual: int) -> None:
    mesh, unit = _mesh(comm, **shape), unit_for(comm.size)
    make = adam if zero else sgd
    want = alone(kind, unit, make)
    layers: dict[str, Any] = {}
    if shape["tp"] > 1:
        layers = {"middle.one": "column-gather", "again": "column-gather"} if kind == "unet" else {"blocks.*": "block"}
    positions = ["wpe.weight"] if kind != "unet" and shape["cp"] > 1 and "table" in kind else []
    plan = Plan(layers, positions=positions, zero=zero, micro_batches=2, schedule=schedule, virtual_stages=virtual)
    x, _ = batches(kind, ROWS, unit)[0]
    trained = parallelize(build(kind, unit), mesh, plan, optimizer=make, loss=loss_of(kind), example=x[:1])
    random.manual_seed(31, comm.rank)
    assert_trains_as(want, trained, [share_of(mesh, x, y) for x, y in batches(kind, ROWS, unit)])
