"""Engine: captures a training step as a graph, plans it on a mesh, and runs it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from qdist import checkpoint
from qdist.comm import Communicator, world
from qdist.nn.agreement import is_due
from qdist.nn.deferred import materialize
from qdist.nn.module import Module
from qdist.optim import Optimizer
from qdist.parallel.auto.eager.dist_tensor import DistTensor, check_lengths, place_tensor
from qdist.parallel.auto.eager.same_value import digest_of
from qdist.parallel.auto.ir.graph import trace
from qdist.parallel.auto.ir.sharding_plan import ShardingPlan
from qdist.parallel.auto.placement.placements import Placement, Shard
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.auto.planner.explain import explain
from qdist.parallel.auto.run import engine_state, fitting, lying, passes, program_text
from qdist.parallel.auto.run.callbacks import Callback
from qdist.parallel.auto.run.graph_pipeline import GraphPipeline
from qdist.parallel.auto.run.input_spec import has_open_rows, samples, several, split_batch
from qdist.parallel.auto.run.metrics import add_metrics
from qdist.parallel.auto.run.planning import plan_for
from qdist.parallel.auto.run.program_text import ProgramText
from qdist.parallel.auto.run.runner import PlanRunner
from qdist.parallel.auto.run.stage_graphs import has_stages, mesh_of_stages
from qdist.parallel.auto.run.strategy import Pipeline, Strategy
from qdist.parallel.loss_scale import LossScale
from qdist.tensor import Tensor, no_grad

__all__ = ["DifferentRows", "Engine"]

_MODES = ("train", "eval", "predict")


class _Staged(Exception):
    """The model that was captured has stages."""


class DifferentRows(ValueError):
    """Ranks that take parts of one batch were given different ones; raised on all of them."""


class Engine:
    """Trains a model that was written for one process, on a mesh.

    Args:
        model: a Module that gives one Tensor; the first rank's weights are taken over by all. Annotations in it
            (shard_tensor, shard_op, `Operator.shard`) are kept to. Stages (``shard_op(fn, mesh[i])``, or weights placed
            on mesh[i]) make it a pipeline, of whole batches unless ``strategy.pipeline`` says how they are cut.
            Of a model built inside nn.deferred(), weights that are placed before are drawn by their ranks alone, the
            others by all.
        loss: called with the output and the labels; gives a number, or a pair (numerator, denominator) for a mean over
            what is not masked.
        optimizer: of the model's parameters.
        metrics: functions (output, labels) -> {name: number} of whole arrays, or one of them.
        strategy: see Strategy; data parallel when nothing is annotated.
        mesh: the ProcessMesh; by default that of the annotations, or all ranks on one axis "dp". Rows of the inputs
            are cut along its axis "dp", unless they are fewer than its ranks.
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
        self._pipelines: dict[int, GraphPipeline] = {}
        self._staged = self.strategy.pipeline.enable
        self._names: list[str | None] = []
        self._loaded: Any = None
        # Specs without a number of rows.
        self._waiting: tuple[Any, Any, str] | None = None
        self._steps = 0
        self._begun = False

    # Preparing -------------------------------------------------------------------------------------------------------

    def prepare(self, inputs_spec: Any, labels_spec: Any = (), mode: str = "train") -> Engine:
        """Capture and plan for these inputs and labels of a whole batch: InputSpecs, or samples, one or several.

        Specs without a number of rows wait for `dataloader` or the first `run`. Returns itself.
        """
        self._check_mode(mode)
        self._names = [getattr(s, "name", None) for s in (*several(inputs_spec), *several(labels_spec))]
        self._waiting = None
        if has_open_rows(inputs_spec) or has_open_rows(labels_spec):
            self._waiting = inputs_spec, labels_spec, mode
        else:
            self._prepare(inputs_spec, labels_spec, mode)
        return self

    def _prepare(self, inputs_spec: Any, labels_spec: Any, mode: str, rows: int | None = None) -> None:
        device = next((p.device for p in self.model.parameters()), "cpu")
        inputs, labels = samples(inputs_spec, rows, device), samples(labels_spec, rows, device)
        try:
            if not self._staged:
                self._program(mode, inputs, labels)
        except _Staged:
            self._staged = True
        if self._staged:
            self._stages(inputs, labels)

    def _stages(self, inputs: Sequence[Tensor], labels: Sequence[Tensor] = ()) -> GraphPipeline:
        if self.loss is None:
            raise ValueError("a pipeline needs a loss; the Engine was made without one")
        rows = len(inputs[0])
        if rows not in self._pipelines:
            materialize(self.model)
            if self.mesh is None:
                comm = world() if self.comm is None else self.comm
                found = mesh_of_stages(trace(self.model, None, inputs, ()))
                self.mesh = found or ProcessMesh(list(range(comm.size)), ["pp"], comm)
            self._begin(self.mesh)
            strategy = self.strategy
            if not strategy.pipeline.enable:
                strategy = replace(strategy, pipeline=Pipeline(enable=True, accumulate_steps=1))
            self._pipelines[rows] = GraphPipeline(
                self.model, self.loss, strategy, self.mesh, inputs, labels, self._names if labels else ()
            )
        self._pipeline = self._pipelines[rows]
        self._load_optimizer()
        return self._pipeline

    def _check_mode(self, mode: str) -> None:
        if mode not in _MODES:
            raise ValueError(f"mode={mode!r}: use one of {', '.join(_MODES)}")

    def _program(self, mode: str, inputs: Sequence[Tensor], labels: Sequence[Tensor]) -> PlanRunner:
        self._check_mode(mode)
        if mode != "predict" and self.loss is None:
            raise ValueError(f"mode={mode!r} needs a loss; the Engine was made without one")
        if mode == "train":
            self._optimizer()
        # The way back ends at what is trained, and so do the messages of gradients.
        trained = tuple(p.requires_grad for p in self.model.parameters()) if mode == "train" else ()
        key = (mode, trained, *((x.shape, x.dtype) for x in (*inputs, *labels)))
        if key not in self._programs:
            self._programs[key] = self._build(mode, inputs, labels)
        self._latest = self._programs[key]
        self._load_optimizer()
        return self._latest

    def _build(self, mode: str, inputs: Sequence[Tensor], labels: Sequence[Tensor]) -> PlanRunner:
        materialize(self.model)
        self.model.train(mode == "train")
        loss, labels = (None, ()) if mode == "predict" else (self.loss, labels)
        graph = trace(self.model, loss, inputs, labels, self._names[: len(inputs) + len(labels)])
        if has_stages(graph):
            raise _Staged
        mesh = self.mesh = self.mesh or lying.mesh_of(graph) or self._default_mesh()
        self._begin(mesh)
        rows = {value.name: lying.rows_along_data(value, mesh) for value in graph.inputs}
        plan = plan_for(graph, mesh, self.strategy, self._used, rows)
        self._used.update({value.name: plan.placements[value] for value in graph.parameters})
        if self.strategy.sharding.enable:
            passes.shard_storage(plan, self.strategy.sharding, lying.data_axis(mesh))
        for value in (*graph.inputs, *graph.parameters):
            check_lengths(value.shape, mesh, plan.placements[value])
        for value in graph.parameters:
            if any(isinstance(p, Shard) for p in plan.placements[value]) or isinstance(value.tensor, DistTensor):
                place_tensor(value.tensor, mesh, plan.placements[value])
        training = mode == "train"
        return PlanRunner(
            plan,
            segments=passes.segments_of(self.strategy.recompute, self.strategy.sharding) if training else None,
            around=passes.half_products(self.strategy.amp),
            trains=training,
        )

    def _begin(self, mesh: ProcessMesh) -> None:
        if not self._begun:
            engine_state.take_over_first(self.model, mesh)
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
        self._check_mode(mode)
        inputs, labels = split_batch(data, mode)
        try:
            if not self._staged:
                return self._run_plan(mode, inputs, labels)
        except _Staged:
            self._staged = True
        return self._run_stages(mode, inputs, labels)

    def _run_plan(self, mode: str, inputs: list[Tensor], labels: list[Tensor]) -> dict[str, Any]:
        if self.strategy.dataset_strategy == "data_parallel":
            program = self._program(mode, self._whole_samples(inputs), self._whole_samples(labels))
            before = lying.placed_rows(program.plan.mesh)
        else:
            program = self._program(mode, inputs, labels)
            before = program.plan.whole
        inputs, labels = self._same_rows(inputs, labels)
        self.model.train(mode == "train")
        given = zip(program.plan.graph.inputs, (*inputs, *labels), strict=True)
        parts = {value.name: lying.own_part(x, program.plan, value, before) for value, x in given}
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
                return {"outputs": lying.full_value(output, program.plan, graph.output).numpy()}
            result = {"loss": lying.full_value(loss, program.plan, graph.loss).item()}
            if self.metrics:
                whole = lying.full_value(output, program.plan, graph.output).numpy()
                own_rows = self.strategy.dataset_strategy == "data_parallel"
                targets = self._together(labels) if own_rows else labels
                for metric in self.metrics:
                    add_metrics(result, metric(whole, *(y.numpy() for y in targets)))
        return result

    def _run_stages(self, mode: str, inputs: list[Tensor], labels: list[Tensor]) -> dict[str, Any]:
        if self.strategy.dataset_strategy == "data_parallel":
            inputs, labels = self._together(inputs), self._together(labels)
        stages = self._stages(inputs, labels)
        inputs, labels = self._same_rows(inputs, labels)
        if mode == "predict":
            return {"outputs": stages.predict(inputs)}
        optimizer = self._optimizer() if mode == "train" else None
        scale = self.strategy.amp.loss_scale if self.strategy.amp.enable else None
        result = stages.run(inputs, labels, optimizer, self.metrics, 1.0 if scale is None else scale.value)
        if optimizer is not None and (scale is None or self._unscale(optimizer, scale)):
            optimizer.step()
        return result

    # Ranks that pass rows of their own -------------------------------------------------------------------------------

    def _rows_mesh(self) -> ProcessMesh:
        """The mesh, before there is a graph to find it in."""
        if self.mesh is None:
            graph = None if self._latest is None else self._latest.plan.graph
            self.mesh = (graph and lying.mesh_of(graph)) or self._default_mesh()
        if not lying.row_axes(self.mesh):
            raise ValueError(f'dataset_strategy="data_parallel" cuts rows along a mesh axis "dp"; {self.mesh} has none')
        return self.mesh

    def _whole_samples(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Zeros with the shapes of the whole batch."""
        if self.mesh is None and not self._staged:  # It may be that of annotations, which are not known yet.
            ranks = (world() if self.comm is None else self.comm).size
        else:
            mesh = self._rows_mesh()
            ranks = math.prod(mesh.shape[axis] for axis in lying.row_axes(mesh))
        return [Tensor(np.zeros((len(x) * ranks, *x.shape[1:]), x.dtype)) for x in tensors]

    def _together(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The rows of all ranks along "dp", in order."""
        mesh = self._rows_mesh()
        arrays = [x.numpy() for x in tensors]
        for axis in reversed(lying.row_axes(mesh)):
            arrays = [np.concatenate(list(mesh.group(axis).all_gather(x))) for x in arrays]
        return [Tensor(x) for x in arrays]

    def _same_rows(self, inputs: list[Tensor], labels: list[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """The batch, which ranks that take parts of the same rows have the same."""
        self._compare((*inputs, *labels))
        return inputs, labels

    def _compare(self, tensors: Sequence[Tensor]) -> None:
        """Raises DifferentRows, on every rank, where ranks that should have the same rows have not."""
        self._steps += 1
        if not is_due(self._steps):
            return
        assert self.mesh is not None
        mine = digest_of([x._data for x in tensors])
        extremes = np.array([mine, -mine], np.int32)
        own_rows = self.strategy.dataset_strategy == "data_parallel" and not self._staged
        for axis in range(len(self.mesh.shape)):
            if not (own_rows and axis in lying.row_axes(self.mesh)):
                extremes = self.mesh.group(axis).all_reduce(extremes, "max")
        if extremes[0] != -extremes[1]:
            raise DifferentRows(
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
        finite = np.array(all(bool(np.isfinite(float(abs(g.data).max()))) for g in grads if g.data.size), np.uint8)
        for axis in range(len(self.mesh.shape)):
            finite = self.mesh.group(axis).all_reduce(finite, "min")
        for g in grads:
            g.data /= scale.value
        scale.update(bool(finite))
        return bool(finite)

    def fit(
        self,
        data: Any,
        epochs: int = 1,
        batch_size: int | None = None,
        *,
        steps_per_epoch: int | None = None,
        valid_data: Any = None,
        callbacks: Sequence[Callback] | Callback = (),
        folder: Any = None,
        **saving: Any,
    ) -> list[dict[str, Any]]:
        """Train for some epochs; the mean of what `run` gives, for each epoch.

        Args:
            data: batches (anything that can be gone through several times), or a dataset with `batch_size`.
            steps_per_epoch: the first so many batches of each epoch; all when not given.
            valid_data: as `data`, evaluated after every epoch; its means have names that begin with "val_".
            callbacks: what is called in between; see Callback.
            folder, saving: where checkpoints are, and when they are written, as for `training.steps` (every, seconds,
                keep, behind, resume, log, progress). The same call goes on from the newest one, in the midst of an
                epoch.
        """
        called: list[Any] = list(callbacks) if isinstance(callbacks, (list, tuple)) else [callbacks]
        return fitting.fit(self, data, epochs, batch_size, steps_per_epoch, valid_data, called, folder, saving)

    def evaluate(self, data: Any, batch_size: int | None = None) -> dict[str, Any]:
        """The mean of loss and metrics over all rows of the data, as for `fit`."""
        return fitting.means(self, data, batch_size, "eval")

    def predict(self, data: Any, batch_size: int | None = None) -> np.ndarray:
        """The outputs for all inputs, on every rank.

        data: batches of inputs, or a dataset of them with `batch_size`.
        """
        return fitting.predictions(self, data, batch_size)

    def dataloader(
        self,
        dataset: Any,
        batch_size: int,
        shuffle: bool = False,
        seed: int = 0,
        *,
        epochs: int | None = None,
        mode: str = "train",
        drop_last: bool = False,
    ) -> fitting.EpochLoader:
        """Whole batches of a dataset, the same on every rank.

        Args:
            epochs: how many passes it is for, each begun by iterating; one more is a RuntimeError. Any number when not
                given.
            mode: what they are for. Specs that `prepare` was given without a number of rows are captured now.
            drop_last: leave out a last batch that is not full. A pipeline always does, when it trains.
        """
        self._check_mode(mode)
        drop_last = drop_last or (mode == "train" and self.strategy.pipeline.enable)
        if self._waiting is not None and self._waiting[2] == mode:
            inputs, labels, _ = self._waiting
            self._waiting = None
            self._prepare(inputs, labels, mode, batch_size)
        return fitting.EpochLoader(dataset, batch_size, shuffle, seed=seed, drop_last=drop_last, epochs=epochs)

    @property
    def pipeline(self) -> GraphPipeline | None:
        """The pipeline that ran or was prepared last, where the model has stages."""
        return self._pipeline

    @property
    def rank(self) -> int:
        """This process's, of all that train."""
        comm = self.mesh.comm if self.mesh is not None else world() if self.comm is None else self.comm
        return comm.rank

    # State -----------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, np.ndarray]:
        """All parameters and buffers by name, whole and equal on every rank. Collective."""
        return engine_state.model_state(self.model, self._pipeline)

    def whole_state(self) -> dict[str, Any]:
        """{"model", "optimizer"} of what `save` writes, on every rank. Collective."""
        state: dict[str, Any] = {"model": self.state_dict()}
        if self.optimizer is not None:
            state["optimizer"] = engine_state.optimizer_state(self.model, self.optimizer, self._pipeline)
        return state

    def stored_state(self) -> dict[str, Any]:
        """All that `save` writes, also as a part of `training.steps`. Collective."""
        scale = self.strategy.amp.loss_scale if self.strategy.amp.enable else None
        return self.whole_state() | ({} if scale is None else {"loss_scale": scale.state_dict()})

    def restoring(self, state: Any) -> Callable[[], None]:
        """Reads what `stored_state` gave; what is returned takes it over."""
        found = checkpoint.read_all(state)
        return lambda: self._take_over(found)

    def save(self, path: Any) -> None:
        """Write model and optimiser to a file that any number of ranks, and the plain model, can go on from."""
        state = self.stored_state()
        comm = self.mesh.comm if self.mesh is not None else world() if self.comm is None else self.comm
        checkpoint.save(path, state, comm)

    def load(self, path: Any) -> None:
        """Go on from what `save` wrote, on these or other ranks. Raises ValueError for another model or optimiser."""
        self._take_over(checkpoint.load(path))

    def _take_over(self, state: dict[str, Any]) -> None:
        self.model.load_state_dict(state["model"])
        scale = self.strategy.amp.loss_scale if self.strategy.amp.enable else None
        if scale is not None and "loss_scale" in state:
            scale.load_state_dict(state["loss_scale"])
        self._loaded = state.get("optimizer")
        if self._latest is not None or self._pipeline is not None:
            self._load_optimizer()

    def _load_optimizer(self) -> None:
        """What was loaded before anything was placed: the optimiser's part follows the parameters' placements."""
        if self._loaded is not None and self.optimizer is not None:
            engine_state.load_optimizer(self.model, self.optimizer, self._loaded)
        self._loaded = None

    # Looking at it ---------------------------------------------------------------------------------------------------

    @property
    def plan(self) -> ShardingPlan:
        """The plan that was made or used last; RuntimeError before prepare() or run()."""
        if self._latest is None:
            raise RuntimeError("nothing is planned yet: call prepare() or run() first")
        return self._latest.plan

    @property
    def main_program(self) -> ProgramText:
        """What this rank runs, as text: every operation and communication with placements and local shapes, the way
        back and the optimiser's updates; for a pipeline this rank's stage. ``main_program.draw(path)`` is a picture."""
        if self._pipeline is not None:
            return program_text.stage_program(self._pipeline, self.optimizer)
        self.plan  # noqa: B018 - raises when there is none
        assert self._latest is not None
        return program_text.main_program(self._latest, self.optimizer)

    @property
    def startup_program(self) -> ProgramText:
        """What this rank keeps before the first step: its parts of the parameters, and the optimiser's zeros."""
        plan = self._pipeline.stage.runner.plan if self._pipeline is not None else self.plan
        return program_text.startup_program(plan, self.optimizer)

    @property
    def serial_main_program(self) -> ProgramText:
        """The same step on one rank, before anything is divided."""
        graph = self._pipeline.graph if self._pipeline is not None else self.plan.graph
        return program_text.main_program(program_text.alone(graph), self.optimizer)

    @property
    def serial_startup_program(self) -> ProgramText:
        """What one rank would keep."""
        graph = self._pipeline.graph if self._pipeline is not None else self.plan.graph
        return program_text.startup_program(program_text.alone(graph).plan, self.optimizer)

    def draw(self, path: Any) -> None:
        """Write `main_program` as an SVG picture."""
        self.main_program.draw(path)

    def explain(self) -> str:
        """The choice and its predicted cost beside pure data parallelism."""
        return explain(self.plan, self.strategy.machine)
