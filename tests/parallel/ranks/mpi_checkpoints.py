"""Checkpoints of one mesh go on on any other; run on every rank at once."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

import models
import numpy as np
import pytest
from meshes import LAYERS, STEPS, by_itself, loss, rows_of, spread
from models import F64, adam, assert_same, batch, build

import qdist as qd
from qdist import nn
from qdist.checkpoint import CheckpointError
from qdist.comm import Communicator, Mesh
from qdist.parallel import ParallelModel, Plan, load_plain, parallelize, seed_mesh
from qdist.tensor import random


@pytest.fixture(scope="session")
def comm() -> Communicator:
    return qd.comm.init(timeout=120)


@pytest.fixture(scope="session")
def folder(comm: Communicator) -> Path:
    return Path(comm.broadcast_object(os.environ["QDIST_TEST_FOLDER"]))


SIZE = qd.comm.init(timeout=120).size

SAVED: dict[int, list[tuple[dict[str, int], dict[str, Any]]]] = {
    2: [({"tp": 2}, {}), ({"pp": 2}, {"micro_batches": 2}), ({"dp": 2}, {"zero": 2})],
    4: [
        ({"dp": 2, "tp": 2}, {"zero": 3}),
        ({"pp": 2, "tp": 2}, {"micro_batches": 2}),
        ({"dp": 4}, {"zero": 1}),
    ],
    8: [({"dp": 2, "pp": 2, "tp": 2}, {"micro_batches": 2, "zero": 3})],
}


def tied() -> nn.Sequential:
    """A table that embeds tokens and scores them."""
    model = build("transformer")
    model[4].weight = model[0].table.weight
    return model


def spread_tied(mesh: Mesh, options: dict[str, Any]) -> ParallelModel:
    plan = Plan(**{"layers": LAYERS["transformer"], **options})
    return parallelize(tied(), mesh, plan, optimizer=adam, loss=loss)


@cache
def tied_alone() -> dict[str, np.ndarray]:
    batches = [batch("transformer", step, 9) for step in range(STEPS)]
    return models.train_plainly(tied(), batches, adam).parameters


def test_a_checkpoint_of_any_mesh_goes_on_on_any_other(comm, folder) -> None:
    path = folder / f"mesh{SIZE}"
    one = by_itself(comm)
    last: Mesh | None = one
    for degrees, options in [({"dp": 1}, {}), *SAVED[SIZE], ({"dp": 1}, {})]:
        mesh = one if degrees == {"dp": 1} else Mesh(comm, **degrees)
        trained = spread_tied(mesh, options)
        if last is not one or mesh is not one:
            assert trained.load(path) == {"epoch": 1, "best": [0.5]}
        else:
            trained.train_batch(*rows_of("transformer", mesh, 0))
        before = {name: tensor.numpy() for name, tensor in trained.state_dict().items()}
        # Saved again from here: the next mesh starts where this one did.
        if mesh is not one or comm.rank == 0:
            trained.save(path, {"epoch": 1, "best": [0.5]})
        comm.barrier()
        for step in range(1, STEPS):
            trained.train_batch(*rows_of("transformer", mesh, step))
        got = {name: tensor.numpy() for name, tensor in trained.state_dict().items()}
        assert_same(got, tied_alone())
        assert any((got[name] != before[name]).any() for name in got)
        last = mesh
    if comm.rank == 0:
        plain = tied()
        plain.load_state_dict(qd.checkpoint.load(path)["model"])
        assert_same({n: t.numpy() for n, t in plain.state_dict().items()}, before)


@pytest.mark.skipif(SIZE != 2, reason="runs where there are 2 ranks, as test_parallel_on_ranks.py also starts")
def test_what_stages_share_has_the_names_of_the_plain_model(comm, folder) -> None:
    def model() -> nn.Sequential:
        random.manual_seed(0)
        tokens = models.Tokens()
        return nn.Sequential(tokens, nn.LayerNorm(models.FEATURES, dtype=F64), models.Scores(tokens.table))

    def start(mesh: Mesh) -> ParallelModel:
        return parallelize(model(), mesh, Plan(micro_batches=2), optimizer=adam, loss=loss)

    plain = model()
    models.loss_of(plain, *batch("transformer", 0, 9)).backward()
    staged = start(Mesh(comm, pp=2))
    staged.backward(*batch("transformer", 0, 9))
    assert_same(staged.gradients(), models.gradients_of(plain))
    staged.step()
    state = {name: tensor.numpy() for name, tensor in staged.state_dict().items()}
    assert state.keys() == plain.state_dict().keys()
    staged.save(folder / "shared")
    whole = start(by_itself(comm))
    whole.load(folder / "shared")
    assert_same(models.state_of(whole), state)
    plain.load_state_dict(qd.checkpoint.load(folder / "shared")["model"])
    assert_same(models.state_of(plain), state)


@pytest.mark.skipif(SIZE != 4, reason="runs where there are 4 ranks, as test_parallel_on_ranks.py also starts")
@pytest.mark.parametrize("zero", [1, 2, 3])
def test_stages_may_shard_what_they_share_in_other_places(comm, folder, zero: int) -> None:
    def start(mesh: Mesh, options: dict[str, Any]) -> ParallelModel:
        random.manual_seed(0)
        widths = [(12, 7), (7, 7), (7, 7), (7, models.CLASSES)]
        first, one, two, last = (nn.Linear(*width, dtype=F64) for width in widths)
        two.weight = one.weight
        model = nn.Sequential(first, one, nn.Tanh(), two, last)
        return parallelize(model, mesh, Plan(micro_batches=2, **options), optimizer=adam, loss=loss)

    mesh, path = Mesh(comm, dp=2, pp=2), folder / f"shards{zero}"
    alone, sharded = start(by_itself(comm), {}), start(mesh, {"zero": zero, "stages": [2, 3]})
    for step in range(2):
        alone.train_batch(*batch("mlp", step, 9))
        sharded.train_batch(*rows_of("mlp", mesh, step))
    sharded.save(path)
    middle = models.state_of(alone)
    alone.train_batch(*batch("mlp", 2, 9))
    for other, options in ((by_itself(comm), {}), (mesh, {"zero": zero, "stages": [1, 4]}), (mesh, {"stages": [3, 2]})):
        again = start(other, options)
        again.load(path)
        assert_same(models.state_of(again), middle)
        again.train_batch(*rows_of("mlp", other, 2))
        assert_same(models.state_of(again), models.state_of(alone))


@pytest.mark.skipif(SIZE != 2, reason="runs where there are 2 ranks, as test_parallel_on_ranks.py also starts")
def test_files_that_do_not_fit_are_refused_everywhere(comm, folder) -> None:
    path = folder / "other"
    spread("mlp", Mesh(comm, tp=2), {}).save(path)
    with pytest.raises(ValueError, match=r"does not fit the model:\n  missing: 0.places"):
        spread("transformer", Mesh(comm, pp=2), {"micro_batches": 2}).load(path)
    with pytest.raises(ValueError, match="the file's optimiser keeps"):
        spread("mlp", Mesh(comm, dp=2), {"zero": 1}).load(path)
    # What only the last stage reads is damaged: no rank takes anything over.
    staged = spread("mlp", Mesh(comm, pp=2), {"micro_batches": 2})
    staged.save(path)
    if comm.rank == 0:
        raw = bytearray(path.read_bytes())
        raw[-1] ^= 1
        path.write_bytes(raw)
    comm.barrier()
    other = spread("mlp", Mesh(comm, pp=2), {"micro_batches": 2}, seed=1)
    before = {name: tensor.numpy() for name, tensor in other.state_dict().items()}
    with pytest.raises(CheckpointError, match=r"(rank 1: )?.*other is damaged: .* does not match its checksum"):
        other.load(path)
    assert_same({name: tensor.numpy() for name, tensor in other.state_dict().items()}, before)


@pytest.mark.skipif(SIZE != 2, reason="runs where there are 2 ranks, as test_parallel_on_ranks.py also starts")
@pytest.mark.parametrize("axis", ["dp", "pp"])
def test_dropout_goes_on_after_a_checkpoint(comm, folder, axis: str) -> None:
    mesh = Mesh(comm, **{axis: 2})

    def start(seed: int) -> ParallelModel:
        random.manual_seed(0)
        model = nn.Sequential(nn.Linear(12, 16, dtype=F64), nn.Dropout(0.5), nn.Linear(16, 5, dtype=F64))
        seed_mesh(mesh, seed)
        return parallelize(model, mesh, Plan(micro_batches=2), optimizer=adam, loss=loss)

    def train(model: ParallelModel, steps: range) -> list[float]:
        return [model.train_batch(*rows_of("mlp", mesh, step)) for step in steps]

    whole = train(start(3), range(4))
    first = start(3)
    assert train(first, range(2)) == whole[:2]
    first.save(folder / "dropout")
    second = start(4)
    second.load(folder / "dropout")
    assert train(second, range(2, 4)) == whole[2:]
    # And in one process, with the plain model and its optimiser.
    plain = nn.Sequential(nn.Linear(12, 16, dtype=F64), nn.Dropout(0.5), nn.Linear(16, 5, dtype=F64))
    update = adam(plain.parameters())
    load_plain(folder / "dropout", plain, update)
    alone = models.train_plainly(plain, [models.batch("mlp", step, 9) for step in (2, 3)], lambda _: update)
    np.testing.assert_allclose(alone.losses, whole[2:], rtol=1e-10)


DAMAGED: dict[str, tuple[Any, str]] = {
    "a model that is a list": (lambda state: state.update(model=[1]), "makes no sense"),
    "a parameter that is a number": (lambda state: state["model"].update({"0.weight": 1}), "makes no sense"),
    "complex parameters": (
        lambda state: state["model"].update({"0.weight": state["model"]["0.weight"].numpy() + 1j}),
        "dtype of 0.weight: complex128",
    ),
    "no optimiser": (lambda state: state.update(optimizer=None), "makes no sense"),
    "an optimiser of text": (lambda state: state["optimizer"].update(state="x"), "makes no sense"),
    "no groups": (lambda state: state["optimizer"].update(groups={}), "makes no sense"),
    "a rate of text": (lambda state: state["optimizer"]["groups"]["0"].update(lr="fast"), "makes no sense"),
    "an option more": (lambda state: state["optimizer"]["groups"]["0"].update(params=[1]), "has the options"),
    "a moment of another shape": (
        lambda state: state["optimizer"]["state"]["0.weight"].update(momentum_buffer=np.zeros(3)),
        "momentum_buffer of 0.weight has shape",
    ),
    "random numbers that are none": (lambda state: state["random"].update(ranks=7), "makes no sense"),
    "no generator": (
        lambda state: state["random"].update(ranks={str(r): {"generator": {}} for r in range(SIZE)}),
        "makes no sense",
    ),
}


@pytest.mark.skipif(SIZE != 2, reason="runs where there are 2 ranks, as test_parallel_on_ranks.py also starts")
def test_crafted_files_are_refused_everywhere_and_change_nothing(comm, folder) -> None:
    mesh = Mesh(comm, dp=2)
    model = spread("mlp", mesh, {})
    model.train_batch(*rows_of("mlp", mesh, 0))
    model.save(folder / "right")
    before = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    for damage, message in DAMAGED.values():
        if comm.rank == 0:
            state = qd.checkpoint.load(folder / "right")
            damage(state)
            qd.checkpoint.save(folder / "wrong", state)
        comm.barrier()
        with pytest.raises(ValueError, match=message):
            model.load(folder / "wrong")
        comm.barrier()
    assert_same({name: tensor.numpy() for name, tensor in model.state_dict().items()}, before)
    model.load(folder / "right")
