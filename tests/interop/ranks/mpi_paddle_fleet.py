"""fleet's hybrid arrangements with clipping, divided optimiser state and scaled losses, beside one process."""

from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest

import qdist as qd
from qdist.interop import paddle
from qdist.interop.paddle.distributed import (
    Engine,
    ProcessMesh,
    Shard,
    Strategy,
    fleet,
    shard_op,
    shard_tensor,
    sharding,
)
from qdist.interop.paddle.distributed.fleet import topology
from qdist.interop.paddle.distributed.fleet.meta_parallel import (
    ColumnParallelLinear,
    LayerDesc,
    PipelineLayer,
    RowParallelLinear,
)
from qdist.parallel import LossScale, whole_state_dict
from qdist.tensor import Tensor

ROWS, STEPS = 4, 3
ALL = range(STEPS)
CLIPS = {
    "none": lambda: None,
    "global": partial(paddle.nn.ClipGradByGlobalNorm, 0.05),
    "norm": partial(paddle.nn.ClipGradByNorm, 0.02),
    "value": partial(paddle.nn.ClipGradByValue, 0.01, -0.002),
}


@pytest.fixture(scope="session")
def comm() -> qd.comm.Communicator:
    return qd.comm.init(timeout=60)


@pytest.fixture(autouse=True)
def _anew(comm):
    paddle.set_default_dtype("float64")
    topology.reset()
    yield
    comm.barrier()


def init(**degrees: int) -> int:
    """Arranges the ranks; how many replicas there are."""
    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = {f"{name}_degree": n for name, n in degrees.items()}
    strategy.pipeline_configs = {"accumulate_steps": 2, "micro_batch_size": ROWS // 2}
    fleet.init(is_collective=True, strategy=strategy)
    return topology.current().mesh.shape["dp"]


class Net(paddle.nn.Layer):
    """Two layers, which ranks along "mp" divide."""

    def __init__(self, divided: bool) -> None:
        super().__init__()
        first, second = (ColumnParallelLinear, RowParallelLinear) if divided else (paddle.nn.Linear,) * 2
        options = ({"gather_output": False}, {"input_is_parallel": True}) if divided else ({}, {})
        self.first, self.act = first(6, 8, **options[0]), paddle.nn.Tanh()
        self.second, self.last = second(8, 6, **options[1]), paddle.nn.Linear(6, 3)

    def forward(self, x):
        return self.last(self.second(self.act(self.first(x))))


DESCRIBED = [
    LayerDesc(paddle.nn.Linear, 6, 8),
    LayerDesc(paddle.nn.Tanh),
    LayerDesc(paddle.nn.Linear, 8, 6),
    LayerDesc(paddle.nn.Linear, 6, 3),
]


DIVIDED = [
    LayerDesc(ColumnParallelLinear, 6, 8, gather_output=False),
    DESCRIBED[1],
    LayerDesc(RowParallelLinear, 8, 6, input_is_parallel=True),
    DESCRIBED[3],
]


def optimizer_of(model, clip: str = "none"):
    return paddle.optimizer.Adam(0.05, parameters=list(model.parameters()), grad_clip=CLIPS[clip]())


def batch(step: int, replicas: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(step)
    return rng.normal(size=(ROWS * replicas, 6)), rng.integers(0, 3, ROWS * replicas)


def own(step: int, replicas: int) -> tuple[Tensor, Tensor]:
    place = topology.current().mesh["dp"].rank
    x, y = batch(step, replicas)
    return Tensor(x[place * ROWS :][:ROWS]), Tensor(y[place * ROWS :][:ROWS])


def alone(clip: str, replicas: int, steps=ALL) -> list[np.ndarray]:
    paddle.seed(5)
    model = Net(False)
    optimizer = optimizer_of(model, clip)
    for step in steps:
        x, y = batch(step, replicas)
        paddle.nn.functional.cross_entropy(input=model(Tensor(x)), label=y).backward()
        optimizer.step()
        optimizer.clear_grad()
    return [value.numpy() for value in model.state_dict().values()]


def check(found, clip: str, replicas: int, steps=ALL) -> None:
    for got, want in zip(found, alone(clip, replicas, steps), strict=True):
        np.testing.assert_allclose(np.asarray(got), want, atol=1e-10)


HYBRID = [{"sharding": 4}, {"dp": 2, "sharding": 2}, {"sharding": 2, "mp": 2}, {"dp": 2, "mp": 2}, {"mp": 4}]


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("degrees", HYBRID, ids=str)
def test_models_by_hand(comm, degrees: dict, clip: str) -> None:
    replicas = init(**degrees)
    paddle.seed(5)
    model = Net(degrees.get("mp", 1) > 1)
    plain = optimizer_of(model, clip)
    everything = sum(p.size for p in model.parameters())
    trained, optimizer = fleet.distributed_model(model), fleet.distributed_optimizer(plain)
    for step in range(STEPS):
        x, y = own(step, replicas)
        paddle.nn.functional.cross_entropy(input=trained(x), label=y).backward()
        optimizer.step()
        optimizer.clear_grad()
        assert all(p.grad is None for p in model.parameters())
    check([value.numpy() for value in whole_state_dict(model).values()], clip, replicas)
    groups = topology.current()
    kept = sum(p.size for group in plain.param_groups for p in group["params"])
    group = groups.get_sharding_parallel_group()
    assert group.size == groups.get_sharding_parallel_world_size() == degrees.get("sharding", 1)
    assert groups.get_data_parallel_world_size() == degrees.get("dp", 1)
    if group.size > 1:
        assert kept < everything
        assert group.all_reduce(np.array(kept)) == everything
        again = fleet.distributed_optimizer(optimizer_of(model))
        again.load_state_dict(optimizer.state_dict())
        with pytest.raises(ValueError, match="has made steps"):
            fleet.distributed_optimizer(plain)


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize(
    "degrees", [{"pp": 4}, {"pp": 2, "dp": 2}, {"pp": 2, "sharding": 2}, {"pp": 2, "mp": 2}], ids=str
)
@pytest.mark.parametrize("scaler", [None, paddle.amp.GradScaler, LossScale])
def test_pipelines_by_hand(comm, degrees: dict, clip: str, scaler) -> None:
    replicas = init(**degrees)
    paddle.seed(5)
    model = PipelineLayer(DIVIDED if "mp" in degrees else DESCRIBED, paddle.nn.CrossEntropyLoss())
    pipeline, optimizer = model.pipeline, optimizer_of(model, clip)
    trained, optimizer = fleet.distributed_model(model), fleet.distributed_optimizer(optimizer)
    scale = None if scaler is None else fleet.distributed_scaler(scaler())
    calls = []
    schedule = type("Schedule", (), {"step": lambda self: calls.append(1)})()
    for step in range(STEPS):
        x, y = own(step, replicas)
        trained.train_batch([x, y], optimizer, schedule, scale)
    assert len(calls) == STEPS
    check([value.numpy() for value in pipeline.whole_state_dict().values()], clip, replicas)


def test_a_step_that_is_not_finite_is_left_out_everywhere(comm) -> None:
    replicas = init(pp=2, dp=2)
    paddle.seed(5)
    model = PipelineLayer(DESCRIBED, paddle.nn.CrossEntropyLoss())
    optimizer, scaler = optimizer_of(model, "global"), paddle.amp.GradScaler(init_loss_scaling=1e300)
    trained = fleet.distributed_model(model)
    for step in range(STEPS):
        x, y = own(step, replicas)
        if step == 1 and topology.current().mesh["dp"].rank == 1:
            x = x * np.inf
        with np.errstate(all="ignore"):
            trained.train_batch([x, y], optimizer, scaler=scaler)
    assert scaler.value == 0.5e300
    check([value.numpy() for value in model.pipeline.whole_state_dict().values()], "global", replicas, [0, 2])


@pytest.mark.parametrize("clip", ["none", "global"])
def test_a_scaler_around_a_model_of_replicas(comm, clip: str) -> None:
    replicas = init(dp=2, sharding=2)
    paddle.seed(5)
    model = Net(False)
    trained, optimizer = fleet.distributed_model(model), fleet.distributed_optimizer(optimizer_of(model, clip))
    scaler = paddle.amp.GradScaler(incr_every_n_steps=2)
    for step in range(STEPS):
        x, y = own(step, replicas)
        if step == 1 and comm.rank == 3:
            x = x * np.inf
        with np.errstate(all="ignore"):
            scaler.scale(paddle.nn.functional.cross_entropy(input=trained(x), label=y)).backward()
        scaler.minimize(optimizer, None)
        optimizer.clear_grad()
    check([value.numpy() for value in model.state_dict().values()], clip, replicas, [0, 2])
    assert scaler.value == 2.0**15


@pytest.mark.parametrize("level", ["os", "os_g", "p_g_os"])
def test_clipping_of_group_sharded_models(comm, level: str) -> None:
    replicas = init(dp=4)
    paddle.seed(5)
    model = Net(False)
    model, optimizer, _ = sharding.group_sharded_parallel(model, optimizer_of(model, "global"), level)
    for step in range(STEPS):
        x, y = own(step, replicas)
        paddle.nn.functional.cross_entropy(input=model(x), label=y).backward()
        optimizer.step()
        optimizer.clear_grad()
    check([value.numpy() for value in model.state_dict().values()], "global", replicas)
    other = Net(False)
    with pytest.raises(ValueError, match="grad_clip=ClipGradByNorm"):
        sharding.group_sharded_parallel(other, optimizer_of(other, "norm"), level)


@pytest.mark.parametrize("level", ["os", "os_g", "p_g_os"])
def test_a_scaler_around_a_group_sharded_model(comm, level: str) -> None:
    replicas = init(dp=4)
    paddle.seed(5)
    model, scaler = Net(False), paddle.amp.GradScaler(incr_every_n_steps=2)
    model, optimizer, _ = sharding.group_sharded_parallel(model, optimizer_of(model, "global"), level)
    for step in range(STEPS):
        x, y = own(step, replicas)
        if step == 1 and comm.rank == 3:
            x = x * np.inf
        with np.errstate(all="ignore"):
            scaler.scale(paddle.nn.functional.cross_entropy(input=model(x), label=y)).backward()
            scaler.step(optimizer)
        scaler.update()
        optimizer.clear_grad()
    check([value.numpy() for value in model.state_dict().values()], "global", replicas, [0, 2])
    assert scaler.value == 2.0**15


@pytest.mark.parametrize("level", ["os", "os_g", "p_g_os"])
def test_small_gradients_in_float16_need_the_scaler(comm, level: str) -> None:
    init(dp=4)
    paddle.set_default_dtype("float32")
    x = Tensor(np.full((2, 3), 1.0 + comm.rank, np.float32))
    for value, moves in ((2.0**16, True), (1.0, False)):
        model = paddle.nn.Linear(3, 2, bias_attr=False)
        scaler, before = paddle.amp.GradScaler(init_loss_scaling=value), model.weight.numpy().copy()
        plain = paddle.optimizer.SGD(1e6, parameters=model.parameters())
        trained, optimizer, same = sharding.group_sharded_parallel(model, plain, level, scaler)
        assert same is scaler
        scaler.scale(trained(x).sum() * 1e-8).backward()
        scaler.minimize(optimizer, None)
        # Each rank's two rows weigh a quarter: 2 x (1 + 2 + 3 + 4) / 4.
        np.testing.assert_allclose(before - trained.state_dict()["weight"].numpy(), 0.05 * moves, rtol=2e-2, atol=1e-6)


class Staged(Net):
    """Its layers on two stages."""

    def __init__(self, mesh: ProcessMesh) -> None:
        super().__init__(False)
        self.mesh = mesh

    def forward(self, x):
        x = self.act(shard_op(self.first, self.mesh[0])(x))
        return self.last(shard_op(self.second, self.mesh[1])(x))


@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("kind", ["sharding", "pipeline"])
def test_clipping_by_an_engine(comm, kind: str, clip: str) -> None:
    paddle.seed(5)
    strategy = Strategy()
    if kind == "sharding":
        strategy.sharding.enable = True
        model = Net(False)
    else:
        strategy.pipeline.enable, strategy.pipeline.accumulate_steps = True, 2
        model = Staged(ProcessMesh(np.arange(4).reshape(2, 2), ["pp", "mp"]))
    engine = Engine(model, paddle.nn.CrossEntropyLoss(), optimizer_of(model, clip), strategy=strategy)
    for step in range(STEPS):
        engine.run(batch(step, 4))
    check(engine.state_dict().values(), clip, 4)


@pytest.mark.parametrize("kind", ["data", "mp", "pipeline"])
def test_an_engine_takes_the_first_ranks_rows_where_ranks_read_different_ones(comm, kind: str) -> None:
    """As in the document's programs, whose datasets draw their items without a seed."""
    paddle.seed(5)
    strategy = Strategy()
    if kind == "pipeline":
        strategy.pipeline.enable, strategy.pipeline.accumulate_steps = True, 2
        model = Staged(ProcessMesh(np.arange(4).reshape(2, 2), ["pp", "mp"]))
    else:
        model = Net(False)
    mesh = ProcessMesh(np.arange(4).reshape(2, 2), ["dp", "mp"]) if kind == "mp" else None
    engine = Engine(model, paddle.nn.CrossEntropyLoss(), optimizer_of(model), strategy=strategy, mesh=mesh)
    for step in ALL:
        x, y = batch(step, 4)
        told = pytest.warns(UserWarning, match="those of the first rank are used") if step == 0 else nullcontext()
        with told:
            engine.run((x + comm.rank, y))
    check(engine.state_dict().values(), "none", 4)


class Annotated(Net):
    """Rows of a mesh's ranks (0), or a divided first layer (1)."""

    def __init__(self, mesh: ProcessMesh, dim: int) -> None:
        super().__init__(False)
        self.mesh, self.dim = mesh, dim

    def forward(self, x):
        if self.dim == 0:
            x = shard_tensor(x, self.mesh, [Shard(0)])
        else:
            shard_tensor(self.first.weight, self.mesh, [Shard(1)])
        return super().forward(x)


@pytest.mark.parametrize("dim", [0, 1])
def test_annotated_tensors_are_the_first_ranks_where_ranks_read_different_rows(comm, dim: int) -> None:
    """As in the document's programs, step by step."""
    paddle.seed(5)
    model = Annotated(ProcessMesh([0, 1, 2, 3], dim_names=["x"]), dim)
    optimizer = optimizer_of(model)
    for step in ALL:
        x, y = batch(step, 4)
        told = pytest.warns(UserWarning, match="those of the mesh's first rank") if step == 0 else nullcontext()
        with told:
            out = model(Tensor(x + comm.rank))
            paddle.nn.functional.cross_entropy(input=out, label=Tensor((y + comm.rank) % 3)).backward()
        optimizer.step()
        optimizer.clear_grad()
    check((value.numpy() for value in model.state_dict().values()), "none", 4)
    with pytest.raises(ValueError, match="different shapes"):
        shard_tensor(np.ones((4 + 4 * (comm.rank > 0), 6)), ProcessMesh([0, 1, 2, 3]), [Shard(0)])


def test_objects_and_reductions(comm) -> None:
    dist = paddle.distributed
    objects = [{"loss": 1.5}, "x"] if comm.rank == 1 else [None, None]
    dist.broadcast_object_list(objects, src=1)
    assert objects == [{"loss": 1.5}, "x"]
    with pytest.raises(ValueError, match="2 objects come for a list of 1") if comm.rank else nullcontext():
        dist.broadcast_object_list([None] * (1 if comm.rank else 2), src=0)
    for op, want in ((dist.ReduceOp.PROD, 24.0), (dist.ReduceOp.MAX, 4.0), (dist.ReduceOp.AVG, 2.5)):
        x = Tensor(np.array([comm.rank + 1.0]))
        dist.all_reduce(x, op)
        assert x.item() == want


def test_ranks_outside_a_group_do_nothing(comm) -> None:
    dist = paddle.distributed
    group, other = dist.new_group([0, 2]), dist.new_group([3])
    inside = comm.rank in (0, 2)
    assert dist.get_world_size(group) == (2 if inside else -1)
    assert dist.get_rank(group) == (comm.rank // 2 if inside else -1)
    for step in range(3):
        x, y = Tensor(np.array([comm.rank + 1.0])), Tensor(np.zeros(()))
        rows, objects = [], [comm.rank]
        calls = [
            lambda x=x: dist.all_reduce(x, group=group),
            lambda rows=rows: dist.all_gather(rows, Tensor(np.array(comm.rank)), group),
            lambda objects=objects: dist.broadcast_object_list(objects, 1, group),
            lambda y=y: dist.reduce_scatter(y, [Tensor(np.array(comm.rank + 1.0))] * 2, group=group),
            lambda y=y: dist.reduce(Tensor(np.ones(2)), 1, group=group),
            lambda: dist.broadcast(Tensor(np.ones(2)), 1, group),
            lambda: dist.barrier(group),
        ]
        for call in calls:
            with nullcontext() if inside else pytest.warns(UserWarning, match=r"not in <the group of ranks \[0, 2\]"):
                call()
        assert x.item() == (4.0 if inside else comm.rank + 1.0)
        assert [row.item() for row in rows] == ([0, 2] if inside else [])
        assert objects == [2 if inside else comm.rank]
        assert y.item() == (4.0 if inside else 0.0)
        # A call of all ranks right behind meets with itself.
        z = Tensor(np.array([10.0 * comm.rank + step]))
        dist.all_reduce(z)
        assert z.item() == 60.0 + 4 * step
    message = Tensor(np.zeros(2))
    for call in (dist.send, dist.recv):
        with nullcontext() if comm.rank == 3 else pytest.warns(UserWarning, match="does nothing"):
            if comm.rank != 3:
                call(message, 0, other)
    if not inside:
        model = paddle.nn.Linear(2, 2)
        plain = paddle.optimizer.SGD(parameters=model.parameters())
        with pytest.raises(ValueError, match=r"not in <the group of ranks \[0, 2\]"):
            sharding.group_sharded_parallel(model, plain, "os", group=group)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 0), (2, 3)])
def test_reduce_scatter_takes_tensors_that_are_alike(comm, shape: tuple[int, ...]) -> None:
    reduce_scatter = paddle.distributed.reduce_scatter
    for dtype in (np.float64, np.int32, np.complex64):
        given = [Tensor(np.full(shape, 10 * comm.rank + r, dtype)) for r in range(comm.size)]
        x = Tensor(np.zeros(shape, dtype))
        reduce_scatter(x, given)
        np.testing.assert_array_equal(x.numpy(), np.full(shape, 60 + 4 * comm.rank))
    for wrong in (np.zeros(shape), np.zeros((*shape, 1), np.complex64)):
        for target, rows in ((x, [*given[1:], Tensor(wrong)]), (Tensor(wrong), given)):
            with pytest.raises(ValueError, match="they must be alike"):
                reduce_scatter(target, rows)
