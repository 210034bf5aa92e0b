"""The cases of tests/parallel/sweep.py: every parallel module, and every mesh, against one process.

A case returns where losses, gradients and parameters are those of one process; it raises AssertionError where they are
not, and ValueError where the combination is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import language
import models
import numpy as np
from meshes import LAYERS, STEPS, assert_trains_as, by_itself, loss, share_of
from models import CLASSES, F64, Trained, adam, assert_same, gradients_of, loss_of, sgd, state_of

from qdist import nn
from qdist.comm import Communicator, Mesh
from qdist.interop import torch_distributed as dist
from qdist.interop.torch_distributed.data_parallel import DistributedDataParallel
from qdist.parallel import (
    DataParallel,
    ParallelModel,
    Pipeline,
    Plan,
    Zero,
    auto,
    average_gradients,
    parallelize,
    recompute,
    recompute_attention,
    share_rows,
)
from qdist.tensor import Tensor, manual_seed

ROWS = 9  # Odd, and two or more for every pipeline beside others on up to eight ranks.
SCHEDULES = ("naive", "f-then-b", "1f1b", "interleaved")
MODELS = ("mlp", "cnn", "transformer", "hybrid")
ZERO = (0, 1, 2, 3)
AXES = ("dp", "tp", "pp", "cp", "state")

REFUSALS = {
    "cp without attention": r"cp=\d+ divides a sequence, and the model has no attention over one",
    "state without a circuit": r"state=\d+ divides the amplitudes of circuits, and the model has no QuantumLayer",
    "hooks on a divided layer": r"has hooks, and the plan divides it or what is in it",
    "more stages than layers": r"\d+ layers do not make \d+ stages: every stage needs at least one layer",
    "positions that are not this rank's": r"cp=\d+ divides the sequence, so a rank has only some positions, and",
    "ranks that do not divide it": r"is \d+, which cannot be divided over \d+ ranks",
    "sequence_parallel without tp": r"sequence_parallel needs an axis 'tp' of more than one rank in the mesh",
}
"""All that is refused, and the error that says so."""


class Case(NamedTuple):
    text: str
    """What it is."""
    run: Callable[[], None]
    """Every rank calls it."""
    refusals: tuple[str, ...] = ()
    """One of these has to be the reason to refuse it. Without any it must not be refused."""


# The models: eight or nine layers, so that as many stages can be made of them ----------------------------------------


def transformer(unit: int) -> nn.Sequential:
    """Blocks with a perceptron between; what embeds tokens also scores them."""
    tokens, first, second, norm, head = models.transformer(unit=unit)
    middle = [nn.Linear(2 * unit, 4 * unit, dtype=F64), nn.Tanh(), nn.Linear(4 * unit, 2 * unit, dtype=F64)]
    head.weight = tokens.table.weight
    return nn.Sequential(tokens, first, *middle, second, norm, head)


def hybrid(unit: int) -> nn.Sequential:
    """A circuit of `unit` qubits, and linear layers around it."""
    after = [nn.Linear(CLASSES, 2 * unit, dtype=F64), nn.Tanh(), nn.Linear(2 * unit, CLASSES, dtype=F64)]
    return nn.Sequential(*models.hybrid(qubits=unit), nn.Tanh(), *after)


MAKERS: dict[str, Callable[[int], nn.Sequential]] = {
    "mlp": lambda unit: models.mlp(unit=unit),
    "cnn": lambda unit: models.cnn(unit=unit),
    "transformer": transformer,
    "hybrid": hybrid,
}
FORMS = {
    "mlp": LAYERS["mlp"],
    "cnn": LAYERS["cnn"],
    "transformer": {
        "0.table": "vocabulary",
        "[15]": "block",
        "2": "column",
        "4": "row",
        "6": "norm",
        "7": "column-gather",
    },
    "hybrid": {"0": "column-gather", "3": "row-scatter", "5": "column", "7": "row"},
}
RECOMPUTED = {"mlp": ["[24]"], "cnn": ["[0-3]"], "transformer": ["1", "5.attention"], "hybrid": ["[02]"]}
"""Patterns of layers, some of them divided, one of them a circuit."""


def unit_for(ranks: int) -> int:
    """The least multiple of the ranks from 8 on: they divide widths, heads, vocabulary, sequence and amplitudes."""
    return ranks * -(-8 // ranks)


def build(name: str, unit: int, seed: int = 0) -> nn.Sequential:
    manual_seed(seed)
    return MAKERS[name](unit)


@cache
def batches(name: str, unit: int) -> list[tuple[np.ndarray, np.ndarray]]:
    return [models.batch(name, step, ROWS, unit) for step in range(STEPS)]


@cache
def alone(name: str, unit: int, make: models.MakeOptimizer) -> tuple[Trained, nn.Sequential]:
    """What training in one process leaves, and the trained model."""
    model = build(name, unit)
    return models.train_plainly(model, batches(name, unit), make), model


@cache
def language_alone(unit: int) -> Trained:
    return language.train(language.language(unit=unit), language.batches(unit))


# Each module by itself -----------------------------------------------------------------------------------------------


def replica_cases(comm: Communicator) -> Iterator[Case]:
    """DataParallel, also under torch's name, average_gradients and Zero over all ranks."""
    ways = ("DataParallel", "DistributedDataParallel", "average_gradients", *ZERO[1:])
    for name, way, again in product(MODELS, ways, (False, True)):
        what = way if isinstance(way, str) else f"Zero {way}"
        yield Case(f"{name}, {what}{', recomputed' * again}", partial(_replica, comm, name, way, again))


def _replica(comm: Communicator, name: str, way: str | int, again: bool) -> None:
    unit = unit_for(comm.size)
    # Each rank draws other weights: the first rank's are taken, except by those who write the loop themselves.
    plain = build(name, unit, 0 if way == "average_gradients" else comm.rank)
    if again:
        recompute(plain[2])
    update = adam(plain.parameters())
    model: Any = plain
    if way == "DataParallel":
        model = DataParallel(plain, comm)
    elif way == "DistributedDataParallel":
        if not dist.is_initialized():
            dist.init_process_group("mpi")
        model = DistributedDataParallel(plain, device_ids=["cpu"])
    elif isinstance(way, int):
        model = Zero(plain, update, way, comm)
    losses = []
    for x, y in batches(name, unit):
        mine = share_rows((x, y), comm)
        value = loss_of(model, *mine)
        if isinstance(way, int):
            model.backward(value)
            gradients = model.gradients()
            model.step()
        else:
            update.zero_grad()
            value.backward()
            if way == "average_gradients":
                average_gradients(plain, comm, rows=len(mine[0]))
            gradients = gradients_of(model)
            update.step()
        losses.append(float(comm.all_reduce(np.array(value.item() * len(mine[0]) / ROWS))))
    _assert_alike(Trained(losses, gradients, state_of(model)), alone(name, unit, adam)[0])


def divided_cases(comm: Communicator) -> Iterator[Case]:
    """Tensor, sequence and context parallelism of a language model with dropout, made divided from a seed."""
    degrees = [tp for tp in range(1, comm.size + 1) if comm.size % tp == 0]
    for tp, sequence, again in product(degrees, (False, True), ("", "attention", "block")):
        if sequence and tp == 1:
            continue  # There is nothing to divide, and no rank to say so.
        name = f"tp={tp}, cp={comm.size // tp}{', sequence' * sequence}{f', {again} recomputed' if again else ''}"
        yield Case(name, partial(_divided, comm, tp, sequence, again))


def _divided(comm: Communicator, tp: int, sequence: bool, again: str) -> None:
    mesh, unit = _mesh(comm, cp=comm.size // tp, tp=tp), unit_for(comm.size)
    context = mesh["cp"] if mesh.shape["cp"] > 1 else None
    model = language.language(tensor=mesh["tp"] if tp > 1 else None, context=context, sequence=sequence, unit=unit)
    if again == "attention":
        recompute_attention(model)
    elif again == "block":
        for block in model.blocks.children():
            recompute(block)
    got = language.train(model, language.batches(unit), context)
    language.assert_trained(model, got, language_alone(unit))


def pipeline_cases(comm: Communicator) -> Iterator[Case]:
    """Pipelines over all ranks."""
    micro = ({"micro_batches": 1}, {"micro_batches": 3}, {"micro_batch_size": 2})
    for name, schedule, cut, by, again in product(MODELS, SCHEDULES, micro, ("count", "parameters"), (False, True)):
        options = {
            "schedule": schedule,
            "virtual_stages": _virtual(schedule),
            "partition": by,
            "recompute": again,
            **cut,
        }
        refusals = _too_many_stages(name, comm.size, schedule)
        yield Case(f"{name}, {options}", partial(_pipeline, comm, name, options), refusals)


def engine_cases(comm: Communicator) -> Iterator[Case]:
    """An Engine's stages on every pp x dp x mp, with what goes on inside of a stage; layers are built deferred."""
    parts: dict[str, dict[str, Any]] = {
        "plain": {},
        "cut everywhere": {"fully_use_devices": True},
        "sharding 1": {"sharding": auto.Strategy().sharding.__class__(True, 1)},
        "sharding 3": {"sharding": auto.Strategy().sharding.__class__(True, 3)},
        "recompute": {"recompute": auto.Strategy().recompute.__class__(True)},
        **{
            search: {"auto": True, "search_mode": search}
            for search in ("dynamic_programming", "recursive_programming", "sharding_propagation")
        },
    }
    sizes = [n for n in range(1, comm.size + 1) if comm.size % n == 0]
    for pp, dp, (what, options) in product(sizes, sizes, parts.items()):
        if comm.size % (pp * dp) or pp > 5 or ("sharding" in options and dp == 1):
            continue
        for schedule in ("naive", "f-then-b", "1f1b"):
            text = f"pp={pp} dp={dp} mp={comm.size // pp // dp}, {what}, {schedule}"
            yield Case(text, partial(_engine, comm, (pp, dp, comm.size // pp // dp), options, schedule))


def _engine(comm: Communicator, degrees: tuple[int, int, int], options: dict[str, Any], schedule: str) -> None:
    unit, rows = unit_for(comm.size), 4 * degrees[1]
    data = [models.batch("mlp", step, rows, unit) for step in range(STEPS)]
    want = models.train_plainly(build("mlp", unit), data, sgd)
    with nn.deferred():
        model = build("mlp", unit)
    mesh = auto.ProcessMesh(np.arange(comm.size).reshape(degrees), ["pp", "dp", "mp"], comm)
    strategy = auto.Strategy(**options)
    strategy.pipeline.enable, strategy.pipeline.accumulate_steps, strategy.pipeline.schedule = True, 2, schedule
    engine = auto.Engine(model, nn.CrossEntropyLoss(), sgd(model.parameters()), None, strategy, mesh)
    losses = [engine.run(batch)["loss"] for batch in data]
    np.testing.assert_allclose(losses, want.losses, rtol=1e-10)
    assert_same(engine.state_dict(), want.parameters)


def _virtual(schedule: str) -> int:
    return 2 if schedule == "interleaved" else 1


def _too_many_stages(name: str, ranks: int, schedule: str) -> tuple[str, ...]:
    layers = 9 if name == "mlp" else 8
    return ("more stages than layers",) if ranks * _virtual(schedule) > layers else ()


def _pipeline(comm: Communicator, name: str, options: dict[str, Any]) -> None:
    unit = unit_for(comm.size)
    pipeline = Pipeline(build(name, unit), nn.CrossEntropyLoss(), comm, **options)
    update = sgd(pipeline.parameters()) if list(pipeline.parameters()) else None
    losses = [pipeline.train_batch(x, y, update) for x, y in batches(name, unit)]
    want, _ = alone(name, unit, sgd)
    names = {n: n if n in want.gradients else "0.table.weight" for n, _ in pipeline.module.named_parameters()}
    state = {n: tensor.numpy() for n, tensor in pipeline.whole_state_dict().items()}
    own = Trained(want.losses, {n: want.gradients[whole] for n, whole in names.items()}, want.parameters)
    _assert_alike(Trained(losses, gradients_of(pipeline.module), state), own)


def _assert_alike(got: Trained, want: Trained) -> None:
    np.testing.assert_allclose(got.losses, want.losses, rtol=1e-10)
    assert_same(got.gradients, want.gradients)
    assert_same(got.parameters, want.parameters)


# Meshes --------------------------------------------------------------------------------------------------------------


def factorisations(ranks: int, factors: int) -> Iterator[tuple[int, ...]]:
    """Every way to write a number as an ordered product."""
    if factors == 1:
        yield (ranks,)
        return
    for first in range(1, ranks + 1):
        if ranks % first == 0:
            yield from ((first, *rest) for rest in factorisations(ranks // first, factors - 1))


def mesh_cases(comm: Communicator, name: str, zero: int) -> Iterator[Case]:
    """A model on every mesh of all ranks, in all schedules of a pipeline, with and without recomputation, and, where it
    has sequences, sequence parallelism."""
    for degrees in factorisations(comm.size, len(AXES)):
        shape = dict(zip(AXES, degrees))
        schedules = SCHEDULES if shape["pp"] > 1 else SCHEDULES[:1]
        for schedule, again, sequence in product(
            schedules, (False, True), (False, True)[: 1 + (name == "transformer")]
        ):
            options: dict[str, Any] = {
                "zero": zero,
                "micro_batches": 2,
                "schedule": schedule,
                "virtual_stages": _virtual(schedule),
                "recompute": RECOMPUTED[name] if again else [],
                "sequence_parallel": sequence,
            }
            refusals = (*_nothing_to_divide(name, shape), *_too_many_stages(name, shape["pp"], schedule))
            if sequence and shape["tp"] == 1:
                refusals += ("sequence_parallel without tp",)
            yield Case(f"{name}, {shape}, {options}", partial(_on_mesh, comm, name, shape, options), refusals)


def _nothing_to_divide(name: str, shape: dict[str, int]) -> tuple[str, ...]:
    has = {"cp": name == "transformer", "state": name == "hybrid"}
    why = {"cp": "cp without attention", "state": "state without a circuit"}
    return tuple(why[axis] for axis in has if shape[axis] > 1 and not has[axis])


def _spread(comm: Communicator, mesh: Mesh, name: str, options: dict[str, Any], unit: int) -> ParallelModel:
    positions = ["0.places"] if name == "transformer" else []
    plan = Plan(FORMS[name], positions=positions, **options)
    # Every rank draws other weights: the first rank's are taken.
    model = build(name, unit, comm.rank)
    return parallelize(model, mesh, plan, optimizer=_optimizer(options["zero"]), loss=loss)


def _optimizer(zero: int) -> models.MakeOptimizer:
    return adam if zero else sgd


def _on_mesh(comm: Communicator, name: str, shape: dict[str, int], options: dict[str, Any]) -> None:
    mesh, unit = _mesh(comm, **shape), unit_for(comm.size)
    trained = _spread(comm, mesh, name, options, unit)
    rows = [share_of(mesh, x, y) for x, y in batches(name, unit)]
    want, plain = alone(name, unit, _optimizer(options["zero"]))
    assert_trains_as(want, trained, rows)
    value = loss_of(plain, *batches(name, unit)[0]).item()
    np.testing.assert_allclose(trained.eval_batch(*rows[0]), value, rtol=1e-10)
    outputs = plain(Tensor(rows[0][0])).numpy()
    np.testing.assert_allclose(trained.predict(rows[0][0]).numpy(), outputs, rtol=1e-10, atol=1e-10)


def checkpoint_cases(comm: Communicator, name: str) -> Iterator[Case]:
    """A model that goes on, on every mesh, from a file of one process, and in one process from a file of the mesh."""
    with TemporaryDirectory() as own:
        folder = Path(comm.broadcast_object(own))
        for zero, degrees in product(ZERO, factorisations(comm.size, len(AXES))):
            shape = dict(zip(AXES, degrees))
            refusals = (*_nothing_to_divide(name, shape), *_too_many_stages(name, shape["pp"], "1f1b"))
            yield Case(f"{name}, {shape}, zero={zero}", partial(_checkpoint, comm, name, shape, zero, folder), refusals)
        comm.barrier()


def _checkpoint(comm: Communicator, name: str, shape: dict[str, int], zero: int, folder: Path) -> None:
    unit, options = unit_for(comm.size), {"zero": zero, "micro_batches": 2}
    # The state of SGD and that of Adam are different ones.
    start, middle = folder / f"start-{zero > 0}", folder / "middle"
    one = by_itself(comm)
    if comm.rank == 0 and not start.exists():
        first = _spread(one.comm, one, name, options, unit)
        first.train_batch(*batches(name, unit)[0])
        first.save(start, {"steps": 1})
    comm.barrier()
    mesh = _mesh(comm, **shape)
    trained = _spread(comm, mesh, name, options, unit)
    assert trained.load(start) == {"steps": 1}
    trained.save(middle)
    want, _ = alone(name, unit, _optimizer(zero))
    rest = Trained(want.losses[1:], want.gradients, want.parameters)
    assert_trains_as(rest, trained, [share_of(mesh, x, y) for x, y in batches(name, unit)[1:]])
    if comm.rank == 0:
        again = _spread(one.comm, one, name, options, unit)
        again.load(middle)
        assert_trains_as(rest, again, batches(name, unit)[1:])
    comm.barrier()


_meshes: dict[tuple[tuple[str, int], ...], Mesh] = {}


def _mesh(comm: Communicator, **shape: int) -> Mesh:
    """One mesh a shape: MPI has only so many groups."""
    key = tuple(shape.items())
    if key not in _meshes:
        _meshes[key] = Mesh(comm, **shape)
    return _meshes[key]
