"""Engine: captures a training step as a graph, plans it on a mesh, and runs it."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qdist.comm import Communicator, world
from qdist.data import DataLoader
from qdist.nn.agreement import is_due
from qdist.nn.module import Module
from qdist.optim import Optimizer
from qdist.parallel.auto.eager.capture import ANNOTATE
from qdist.parallel.auto.eager.dist_tensor import DistTensor, check_lengths, shard_tensor
from qdist.parallel.auto.ir.graph import Graph, Value, trace
from qdist.parallel.auto.ir.sharding_plan import ShardingPlan
from qdist.parallel.auto.placement.placements import Placement, Replicate, Shard
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.auto.placement.reshard import reshard_local
from qdist.parallel.auto.planner.dynamic_programming import search
from qdist.parallel.auto.planner.explain import explain
from qdist.parallel.auto.planner.propagation import propagate
from qdist.parallel.auto.run import passes
from qdist.parallel.auto.run.graph_picture import draw, text
from qdist.parallel.auto.run.graph_pipeline import GraphPipeline
from qdist.parallel.auto.run.initial_weights import take_over_first
from qdist.parallel.auto.run.runner import PlanRunner
from qdist.parallel.auto.run.strategy import Strategy
from qdist.parallel.loss_scale import LossScale
from qdist.tensor import Tensor, no_grad
from qdist.tensor.versions import digest

__all__ = ["DistModel", "Engine", "InputSpec", "to_static"]

_MODES = ("train", "eval", "predict")


@dataclass(frozen=True)
class InputSpec:
    """The shape and dtype of an input, and its name in graphs, for `Engine.prepare`."""

    shape: tuple[int, ...]
    dtype: Any = np.float32
    name: str | None = None


class Engine:
    """Trains a model that was written for one process, on a mesh.

    Args:
        model: a Module that gives one Tensor; the first rank's weights are taken over by all. Annotations in it
            (shard_tensor, shard_op, `Operator.shard`) are kept to; stages (``shard_op(fn, mesh[i])``) need
            ``strategy.pipeline.enable``.
        loss: called with the output and the labels; gives a number.
        optimizer: of the model's parameters.
        metrics: functions (output, labels) -> {name: number} of whole arrays, or one of them.
        strategy: see Strategy; data parallel when nothing is annotated.
        mesh: the ProcessMesh; by default that of the annotations, or all ranks on one axis "dp". Rows of the inputs
            are cut along its axis "dp".
        comm: the ranks, when neither a mesh nor an annotation names them; the world when not given.

    Every rank passes the whole batch and takes its part; ranks that pass different rows are told by a ValueError (the
    1st, 2nd, 4th ... 64th step and every 64th compare). With ``strategy.dataset_strategy = "data_parallel"`` each rank
    passes rows of its own. Batches of another shape are captured anew.
    """

    def __init__(
        self,
        model: Module,
        loss: Callable[..., Any] | None = None,
        optimizer: Optimizer | None = None,
        metrics: Any = None,
        strategy: Strategy | None = None,
        mesh: ProcessMesh | None = None,
        comm: Communicator | None = None,
    ) -> None:
        self.model, self.loss, self.optimizer = model, loss, optimizer
        self.metrics = list(metrics) if isinstance(metrics, (list, tuple)) else [metrics] if metrics else []
        self.strategy = strategy or Strategy()
        self.strategy.check()
        self.mesh = mesh
        self.comm = comm
        self._programs: dict[Any, PlanRunner] = {}
        # How parameters are used: other graphs (evaluation, a last batch) share them and have to use them so too.
        self._used: dict[str, tuple[Placement, ...]] = {}
        self._latest: PlanRunner | None = None
        self._pipeline: GraphPipeline | None = None
        self._steps = 0
        self._begun = False

    # Preparing -------------------------------------------------------------------------------------------------------

    def prepare(self, inputs_spec: Any, labels_spec: Any = (), mode: str = "train") -> Engine:
        """Capture and plan for these inputs and labels of a whole batch: InputSpecs, or samples, one or several.

        Returns itself.
        """
        if self.strategy.pipeline.enable:
            self._stages(_samples(inputs_spec))
        else:
            names = [getattr(s, "name", None) for s in (*_several(inputs_spec), *_several(labels_spec))]
            self._program(mode, _samples(inputs_spec), _samples(labels_spec), names)
        return self

    def _stages(self, inputs: Sequence[Tensor]) -> GraphPipeline:
        if self.loss is None:
            raise ValueError("a pipeline needs a loss; the Engine was made without one")
        if self._pipeline is None:
            comm = world() if self.comm is None else self.comm
            self.mesh = self.mesh or ProcessMesh(list(range(comm.size)), ["pp"], comm)
            self._begin(self.mesh)
            self._pipeline = GraphPipeline(self.model, self.loss, self.strategy.pipeline, self.mesh, inputs)
        return self._pipeline

    def _program(
        self, mode: str, inputs: Sequence[Tensor], labels: Sequence[Tensor], names: Sequence[str | None] = ()
    ) -> PlanRunner:
        if mode not in _MODES:
            raise ValueError(f"mode={mode!r}: use one of {', '.join(_MODES)}")
        if mode != "predict" and self.loss is None:
            raise ValueError(f"mode={mode!r} needs a loss; the Engine was made without one")
        if mode == "train":
            self._optimizer()
        key = (mode, *((x.shape, x.dtype) for x in (*inputs, *labels)))
        if key not in self._programs:
            self._programs[key] = self._build(mode, inputs, labels, names)
        self._latest = self._programs[key]
        return self._latest

    def _build(
        self, mode: str, inputs: Sequence[Tensor], labels: Sequence[Tensor], names: Sequence[str | None]
    ) -> PlanRunner:
        self.model.train(mode == "train")
        loss, labels = (None, ()) if mode == "predict" else (self.loss, labels)
        graph = trace(self.model, loss, inputs, labels, names)
        if any(operation.stage is not None for operation in graph.operations):
            raise ValueError(
                "operators are put on pipeline stages by shard_op(fn, mesh[i]), and the pipeline is off: set "
                "strategy.pipeline.enable = True and strategy.pipeline.accumulate_steps, the number of micro-batches "
                "(1 for whole batches); or leave the stages out to train data parallel"
            )
        mesh = self.mesh = self.mesh or _mesh_of(graph) or self._default_mesh()
        self._begin(mesh)
        if self.strategy.auto:
            plan = search(graph, mesh, self.strategy.machine, self._used)
        else:
            rows = {value.name: _rows(value, mesh) for value in graph.inputs}
            plan = propagate(graph, mesh, {**rows, **self._used}, use_all=self.strategy.fully_use_devices)
        self._used.update({value.name: plan.placements[value] for value in graph.parameters})
        if self.strategy.sharding.enable:
            passes.shard_storage(plan, self.strategy.sharding, _data_axis(mesh))
        for value in (*graph.inputs, *graph.parameters):
            check_lengths(value.shape, mesh, plan.placements[value])
        for value in graph.parameters:
            if any(isinstance(p, Shard) for p in plan.placements[value]) or isinstance(value.tensor, DistTensor):
                shard_tensor(value.tensor, mesh, plan.placements[value])
        training = mode == "train"
        return PlanRunner(
            plan,
            segments=passes.segments_of(self.strategy.recompute, self.strategy.sharding) if training else None,
            around=passes.half_products(self.strategy.amp),
        )

    def _begin(self, mesh: ProcessMesh) -> None:
        if not self._begun:
            take_over_first(self.model, mesh)
            self._begun = True

    def _default_mesh(self) -> ProcessMesh:
        comm = world() if self.comm is None else self.comm
        return ProcessMesh(list(range(comm.size)), ["dp"], comm)

    # Running ---------------------------------------------------------------------------------------------------------

    def run(self, data: Any, mode: str = "train") -> dict[str, Any]:
        """One step on a batch.

        Args:
            data: (inputs, labels), each a Tensor or array or a list of them; the whole batch, on every rank. For
                "predict" the inputs alone.
            mode: "train" updates the parameters, "eval" does not, "predict" wants no labels.

        Returns:
            {"loss": number, metrics by name}; for "predict" {"outputs": the whole output}. Equal on every rank.
        """
        inputs, labels = _split(data, mode)
        if self.strategy.pipeline.enable:
            if self.strategy.dataset_strategy == "data_parallel":
                inputs, labels = self._together(inputs), self._together(labels)
            stages = self._stages(inputs)
            self._compare((*inputs, *labels))
            if mode == "predict":
                return {"outputs": stages.predict(inputs)}
            return stages.run(inputs, labels, self._optimizer() if mode == "train" else None, self.metrics)
        if self.strategy.dataset_strategy == "data_parallel":
            program = self._program(mode, self._whole_samples(inputs), self._whole_samples(labels))
            before = _placed_rows(program.plan.mesh)
        else:
            program = self._program(mode, inputs, labels)
            before = program.plan.whole
        self._compare((*inputs, *labels))
        self.model.train(mode == "train")
        given = zip(program.plan.graph.inputs, (*inputs, *labels), strict=True)
        parts = {value.name: _own(x, program.plan, value, before) for value, x in given}
        if mode == "train":
            output, loss = program.run(parts)
            assert loss is not None
            optimizer = self._optimizer()
            optimizer.zero_grad()
            scale = self.strategy.amp.loss_scale if self.strategy.amp.enable else None
            (loss if scale is None else loss * scale.value).backward()
            if scale is None or self._unscale(optimizer, scale):
                optimizer.step()
        else:
            with no_grad():
                output, loss = program.run(parts)
        graph = program.plan.graph
        with no_grad():
            if mode == "predict":
                return {"outputs": _full(output, program.plan, graph.output).numpy()}
            result = {"loss": _full(loss, program.plan, graph.loss).item()}
            if self.metrics:
                whole = _full(output, program.plan, graph.output).numpy()
                targets = [self._together([y])[0] if before is not program.plan.whole else y for y in labels]
                for metric in self.metrics:
                    result.update(metric(whole, *(y.numpy() for y in targets)))
        return result

    # Ranks that pass rows of their own -------------------------------------------------------------------------------

    def _rows_mesh(self) -> ProcessMesh:
        """The mesh, before there is a graph to find it in."""
        if self.mesh is None:
            graph = None if self._latest is None else self._latest.plan.graph
            self.mesh = (graph and _mesh_of(graph)) or self._default_mesh()
        if "dp" not in self.mesh.dim_names:
            raise ValueError(f'dataset_strategy="data_parallel" cuts rows along a mesh axis "dp"; {self.mesh} has none')
        return self.mesh

    def _whole_samples(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Zeros with the shapes of the whole batch."""
        mesh = self._rows_mesh()
        ranks = mesh.shape[mesh.dim_names.index("dp")]
        return [Tensor(np.zeros((len(x) * ranks, *x.shape[1:]), x.dtype)) for x in tensors]

    def _together(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The rows of all ranks along "dp", in order."""
        mesh = self._rows_mesh()
        group = mesh.group(mesh.dim_names.index("dp"))
        return [Tensor(np.concatenate(list(group.all_gather(x.numpy())))) for x in tensors]

    def _compare(self, tensors: Sequence[Tensor]) -> None:
        """Raises ValueError, on every rank, where ranks that should have the same rows have not."""
        self._steps += 1
        if not is_due(self._steps):
            return
        assert self.mesh is not None
        mine = zlib.crc32(repr([(x.shape, str(x.dtype), digest(x._data)) for x in tensors]).encode()) >> 1
        extremes = np.array([mine, -mine], np.int32)
        own_rows = self.strategy.dataset_strategy == "data_parallel" and not self.strategy.pipeline.enable
        for axis, name in enumerate(self.mesh.dim_names):
            if not (own_rows and name == "dp"):
                extremes = self.mesh.group(axis).all_reduce(extremes, "max")
        if extremes[0] != -extremes[1]:
            raise ValueError(
                "ranks pass different rows to the Engine, which takes a part of each rank's: pass the same whole batch "
                "on every rank (no sampler, the same seed), or rows of each rank's own with "
                'strategy.dataset_strategy = "data_parallel"'
            )

    def _optimizer(self) -> Optimizer:
        if self.optimizer is None:
            raise ValueError("training needs an optimiser; the Engine was made without one")
        return self.optimizer

    def _unscale(self, optimizer: Optimizer, scale: LossScale) -> bool:
        """Take the loss scale out of the gradients; whether they are all finite, on every rank."""
        assert self.mesh is not None
        grads = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        finite = np.array(all(bool(np.isfinite(float(abs(g.data).max()))) for g in grads), np.uint8)
        for axis in range(len(self.mesh.shape)):
            finite = self.mesh.group(axis).all_reduce(finite, "min")
        for g in grads:
            g.data /= scale.value
        scale.update(bool(finite))
        return bool(finite)

    def fit(self, data: Any, epochs: int = 1, batch_size: int | None = None) -> list[dict[str, Any]]:
        """Train for some epochs; the mean of what `run` gives, for each epoch.

        Args:
            data: batches (anything that can be gone through several times), or a dataset with `batch_size`.
        """
        history = []
        for _ in range(epochs):
            history.append(self._mean(data, batch_size, "train"))
        return history

    def evaluate(self, data: Any, batch_size: int | None = None) -> dict[str, Any]:
        """The mean of loss and metrics over all rows of the data, as for `fit`."""
        return self._mean(data, batch_size, "eval")

    def dataloader(self, dataset: Any, batch_size: int, shuffle: bool = False, seed: int = 0) -> DataLoader:
        """Whole batches of a dataset, the same on every rank."""
        return DataLoader(dataset, batch_size, shuffle=shuffle, seed=seed)

    def _mean(self, data: Any, batch_size: int | None, mode: str) -> dict[str, Any]:
        sums: dict[str, float] = {}
        rows = 0
        for batch in data if batch_size is None else self.dataloader(data, batch_size):
            count = len(_split(batch, mode)[0][0])
            rows += count
            for name, value in self.run(batch, mode).items():
                sums[name] = sums.get(name, 0.0) + value * count
        if rows == 0:
            raise ValueError(f"{mode}: there is not one batch in the data")
        return {name: value / rows for name, value in sums.items()}

    def state_dict(self) -> dict[str, np.ndarray]:
        """All parameters and buffers by name, whole and equal on every rank. Collective."""
        state = {name: tensor.numpy() for name, tensor in self.model.state_dict().items()}
        if self._pipeline is not None:
            state.update(self._pipeline.state_dict())
        return state

    # Looking at it ---------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> ShardingPlan:
        """The plan that was made or used last; RuntimeError before prepare() or run()."""
        if self._latest is None:
            raise RuntimeError("nothing is planned yet: call prepare() or run() first")
        return self._latest.plan

    @property
    def main_program(self) -> str:
        """The distributed graph as text: every operation and communication with placements and local shapes."""
        self.plan  # noqa: B018 - raises when there is none
        assert self._latest is not None
        return text(self._latest)

    def draw(self, path: Any) -> None:
        """Write the distributed graph as an SVG picture."""
        self.plan  # noqa: B018
        assert self._latest is not None
        draw(self._latest, path)

    def explain(self) -> str:
        """The choice and its predicted cost beside pure data parallelism."""
        return explain(self.plan, self.strategy.machine)


class DistModel:
    """What to_static gives: called with (inputs, labels) it runs a step and gives the loss."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._mode = "train"

    def train(self) -> DistModel:
        """Calls train from now on; returns itself."""
        self._mode = "train"
        return self

    def eval(self) -> DistModel:
        """Calls only compute the loss from now on; returns itself."""
        self._mode = "eval"
        return self

    def __call__(self, inputs: Any, labels: Any) -> float:
        return self.engine.run((inputs, labels), self._mode)["loss"]


def to_static(
    model: Module, loss: Callable[..., Any], optimizer: Optimizer, strategy: Strategy | None = None, **options: Any
) -> DistModel:
    """A model that was written step by step, run as a captured graph; `options` are those of Engine."""
    return DistModel(Engine(model, loss, optimizer, strategy=strategy, **options))


def _several(spec: Any) -> Sequence[Any]:
    return spec if isinstance(spec, (list, tuple)) else [spec]


def _samples(spec: Any) -> list[Tensor]:
    return [Tensor(np.zeros(s.shape, s.dtype)) if isinstance(s, InputSpec) else _tensor(s) for s in _several(spec)]


def _tensor(x: Any) -> Tensor:
    return x if isinstance(x, Tensor) else Tensor(x)


def _split(data: Any, mode: str) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs and labels of a batch."""
    if mode == "predict":
        return _samples(data), []
    if not isinstance(data, (list, tuple)) or len(data) != 2:
        raise TypeError(f"a batch for {mode!r} is a pair (inputs, labels)")
    return _samples(data[0]), _samples(data[1])


def _mesh_of(graph: Graph) -> ProcessMesh | None:
    """The mesh of the annotations."""
    return next(_meshes(graph), None)


def _meshes(graph: Graph) -> Iterator[ProcessMesh]:
    for operation in graph.operations:
        if operation.rule is ANNOTATE:
            yield operation.attributes["mesh"]
        for x in operation.inputs:
            if isinstance(x, Value) and isinstance(x.tensor, DistTensor):
                yield x.tensor.mesh


def _data_axis(mesh: ProcessMesh) -> int | None:
    return mesh.dim_names.index("dp") if "dp" in mesh.dim_names else None


def _rows(value: Value, mesh: ProcessMesh) -> tuple[Placement, ...]:
    """Cut along the axis "dp", if there is one."""
    axis = _data_axis(mesh)
    return tuple(Shard(0) if i == axis and value.shape else Replicate() for i in range(len(mesh.shape)))


def _placed_rows(mesh: ProcessMesh) -> tuple[Placement, ...]:
    """Cut along the axis "dp"."""
    return tuple(Shard(0) if name == "dp" else Replicate() for name in mesh.dim_names)


def _own(x: Tensor, plan: ShardingPlan, value: Value, before: tuple[Placement, ...]) -> Tensor:
    return reshard_local(x, plan.mesh, value.shape, before, plan.placements[value])


def _full(local: Tensor | None, plan: ShardingPlan, value: Value | None) -> Tensor:
    assert local is not None
    assert value is not None
    return reshard_local(local.detach(), plan.mesh, value.shape, plan.placements[value], plan.whole)
