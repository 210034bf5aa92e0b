"""A captured graph as a pipeline: every stage a graph with a plan of its own, on the ranks that have the stage."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qdist.comm import Communicator
from qdist.nn.module import Module, Parameter
from qdist.optim import Optimizer
from qdist.parallel.auto.eager.dist_tensor import DistTensor, check_lengths, shard_tensor
from qdist.parallel.auto.ir.graph import Graph, Value, trace
from qdist.parallel.auto.ir.sharding_plan import ShardingPlan
from qdist.parallel.auto.placement.placements import Partial, Placement, Replicate, Shard
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.auto.placement.reshard import reshard_local
from qdist.parallel.auto.planner.propagation import propagate
from qdist.parallel.auto.run import passes
from qdist.parallel.auto.run.runner import PlanRunner
from qdist.parallel.auto.run.stage_graphs import in_several, stage_graphs
from qdist.parallel.auto.run.strategy import Strategy
from qdist.parallel.pipeline.pipeline import Pipeline as Stages
from qdist.parallel.replica.buckets import arrange
from qdist.tensor import Tensor
from qdist.tensor.arrays import module_of

__all__ = ["GraphPipeline", "PlannedStage"]


class PlannedStage(Module):
    """One stage: takes this rank's parts of what the stage before passes on, and gives those that the next takes.

    Args:
        runner: of the stage's graph.
        gives: how everything that is passed on, or the output, has to lie.
    """

    def __init__(self, runner: PlanRunner, gives: dict[Value, tuple[Placement, ...]]) -> None:
        super().__init__()
        self.runner, self.gives = runner, gives
        for value in runner.plan.graph.parameters:
            assert isinstance(value.tensor, Parameter)
            setattr(self, value.name.replace(".", "/"), value.tensor)

    def forward(self, *tensors: Tensor) -> Any:
        plan = self.runner.plan
        given = {value.name: x for value, x in zip(plan.graph.inputs, tensors, strict=True)}
        made = self.runner.values(given, dropping=self.training)
        results = tuple(
            reshard_local(made[value], plan.mesh, value.shape, plan.placements[value], lying)
            for value, lying in self.gives.items()
        )
        return results[0] if len(results) == 1 else results


class GraphPipeline:
    """Runs a model, captured on a micro-batch, as a pipeline over the axis "pp" of a mesh.

    Args:
        model, loss: as for Engine.
        strategy: micro-batches and schedule; sharding, mixed precision and recomputation inside of every stage.
        mesh: with an axis "pp" for the stages; along "dp" the rows are cut, along others what is annotated.
        inputs, labels: samples of a whole batch; without labels the graph that is shown has no loss.
        names: as of `trace`.

    A parameter that one stage uses is kept by the ranks of that stage alone.

    Raises:
        ValueError: for a mesh without "pp", rows that replicas and micro-batches do not divide, or a weight that is
            annotated on a stage which does not use it.
    """

    def __init__(
        self,
        model: Module,
        loss: Callable[..., Any],
        strategy: Strategy,
        mesh: ProcessMesh,
        inputs: Sequence[Tensor],
        labels: Sequence[Tensor] = (),
        names: Sequence[str | None] = (),
    ) -> None:
        if "pp" not in mesh.dim_names:
            raise ValueError(f"a pipeline of an Engine takes a mesh with an axis 'pp' for its stages, not {mesh}")
        axis = mesh.dim_names.index("pp")
        self.line: Communicator = mesh.group(axis)
        """The ranks with the same place in every stage."""
        self.meshes = _stage_meshes(mesh, axis)
        self.replicas: Communicator | None = mesh.group(mesh.dim_names.index("dp")) if "dp" in mesh.dim_names else None
        self.batch, replicas = len(inputs[0]), 1 if self.replicas is None else self.replicas.size
        rows = self.batch // replicas
        options = strategy.pipeline
        count = options.accumulate_steps or rows // (options.micro_batch_size or 1)
        size = options.micro_batch_size or rows // count
        if replicas * count * size != self.batch:
            raise ValueError(
                f"{self.batch} rows are not {replicas} x {count} micro-batches of {size}: all have to be alike"
            )
        place = 0 if self.replicas is None else self.replicas.rank
        self._rows = slice(place * rows, (place + 1) * rows)
        model.train()
        part = replicas * size
        targets = [y[:part] for y in labels]
        self.graph = trace(model, loss if labels else None, [x[:part] for x in inputs], targets, names)
        """The whole graph, with the loss where labels are given."""
        self._loss = loss
        self._share = replicas if getattr(loss, "reduction", "mean") == "mean" else 1
        self._outputs: list[np.ndarray] = []
        self._losses: list[float] = []
        graphs = stage_graphs(_without_loss(self.graph, len(inputs)), self.line.size)
        self._graphs, self.micro_batches = graphs, count
        self.tied = in_several(graphs)
        self.stages = Stages(
            self._planned(graphs, strategy),
            self._noting_loss,
            self.line,
            micro_batches=count,
            schedule=options.schedule,
            partition=[1] * self.line.size,
            reduction=getattr(loss, "reduction", None),
        )
        self.stage: PlannedStage = self.stages.stages[self.line.rank].layers[0]  # type: ignore[assignment]
        """This rank's."""

    def _planned(self, graphs: Sequence[Graph], strategy: Strategy) -> list[PlannedStage]:
        """The stages, planned one after the other: each takes values as the one before passes them on."""
        planned = []
        given: dict[str, tuple[Placement, ...]] = {}
        for graph, mesh in zip(graphs, self.meshes):
            rows = tuple(Shard(0) if name == "dp" else Replicate() for name in mesh.dim_names)
            whole = (Replicate(),) * len(mesh.shape)
            for value in graph.inputs:
                if value.kind == "input":
                    given[value.name] = rows if value.shape else whole
            for value in self.tied.intersection(graph.parameters):
                if isinstance(value.tensor, DistTensor):
                    raise ValueError(f"{value.name} is annotated on {value.tensor.mesh}, and other stages use it too")
                given[value.name] = whole
            data = mesh.dim_names.index("dp") if "dp" in mesh.dim_names else None
            plan = propagate(graph, mesh, given, use_all=strategy.fully_use_devices)
            if strategy.sharding.enable:
                passes.shard_storage(plan, strategy.sharding, data, self.tied)
            if data is not None:
                own = (value for value in graph.parameters if value not in self.tied and plan.terms(value, data))
                plan.summed_later = frozenset((value, data) for value in own)
            self._place_parameters(plan)
            gives = {value: _finished(plan.placements[value]) for value in graph.passed_on}
            if graph.output is not None:
                gives[graph.output] = rows
            given |= {value.name: lying for value, lying in gives.items()}
            runner = PlanRunner(
                plan,
                segments=passes.segments_of(strategy.recompute, strategy.sharding),
                around=passes.half_products(strategy.amp),
                trains=True,
            )
            planned.append(PlannedStage(runner, gives))
        return planned

    def _place_parameters(self, plan: ShardingPlan) -> None:
        for value in (*plan.graph.inputs, *plan.graph.parameters):
            check_lengths(value.shape, plan.mesh, plan.placements[value])
        for value in plan.graph.parameters:
            if value not in self.tied:
                shard_tensor(value.tensor, plan.mesh, plan.placements[value])

    def _noting_loss(self, output: Tensor, *labels: Tensor) -> Tensor:
        self._outputs.append(output.numpy())
        loss = self._loss(output, *labels)
        self._losses.append(float(loss) / self._share)
        return loss * (self._scale / self._share)

    _scale = 1.0

    # Running ---------------------------------------------------------------------------------------------------------

    def run(
        self,
        inputs: Sequence[Tensor],
        labels: Sequence[Tensor],
        optimizer: Optimizer | None,
        metrics: Sequence[Any],
        scale: float = 1.0,
    ) -> dict[str, Any]:
        """A pass, as Engine.run gives it; with an optimiser its gradients are those of the batch times `scale`."""
        self._check_rows(inputs)
        self._outputs.clear()
        self._losses.clear()
        x, y = (tuple(t._data[self._rows] for t in tensors) for tensors in (inputs, labels))
        if optimizer is None:
            total = self.stages.eval_batch(x, y)
        else:
            optimizer.zero_grad()
            self._scale = scale
            total = self.stages.train_batch(x, y) / scale
            self._scale = 1.0
            self._sum_over_replicas()
        if self.replicas is not None:
            total = float(self.replicas.all_reduce(np.array(total)))
        result = {"loss": total}
        last = self.line.size - 1
        for metric in metrics:
            own = None
            if self.line.rank == last:
                own = metric(np.concatenate(self._outputs), *(t.numpy()[self._rows] for t in labels))
            for name, value in self.line.broadcast_object(own, last).items():
                # Replicas have equally many rows.
                mean = value if self.replicas is None else self.replicas.all_reduce(np.array(value), "avg")
                result[name] = float(mean)
        return result

    def _sum_over_replicas(self) -> None:
        """Add up, once for all micro-batches, the gradients that are this rank's terms of a sum."""
        if self.replicas is None or self.replicas.size == 1:
            return
        plan = self.stage.runner.plan
        later = {value for value, _ in plan.summed_later}
        tensors = [getattr(v.tensor, "local", v.tensor) for v in plan.graph.parameters if v in later]
        for group in arrange([t.grad for t in tensors if t is not None and t.grad is not None]):
            flat = module_of(group[0].data).concatenate([g.data.reshape(-1) for g in group])
            total, start = self.replicas.all_reduce(flat, out=flat), 0
            for g in group:
                g.data = total[start : start + g.size].reshape(g.shape)
                start += g.size

    def losses(self) -> list[float]:
        """Of every micro-batch of the last pass, on every rank. Collective."""
        last = self.line.size - 1
        own = self.line.broadcast_object(self._losses, last)
        return own if self.replicas is None else [float(x) for x in self.replicas.all_reduce(np.array(own))]

    def predict(self, inputs: Sequence[Tensor]) -> np.ndarray:
        """The whole output, on every rank."""
        self._check_rows(inputs)
        own = self.stages.predict(tuple(x._data[self._rows] for x in inputs)).numpy()
        return own if self.replicas is None else np.concatenate(list(self.replicas.all_gather(own)))

    def _check_rows(self, inputs: Sequence[Tensor]) -> None:
        if len(inputs[0]) != self.batch:
            raise ValueError(f"the pipeline was captured for {self.batch} rows, the batch has {len(inputs[0])}")

    def owner(self, parameter: Any) -> int | None:
        """The first of several stages that use a parameter; None where one stage uses it."""
        value = next((value for value in self.tied if value.tensor is parameter), None)
        return next((i for i, graph in enumerate(self._graphs) if value in graph.parameters), None)


def _stage_meshes(mesh: ProcessMesh, axis: int) -> list[ProcessMesh]:
    """The ranks of each stage."""
    if axis == 0:
        return [mesh[i] for i in range(mesh.shape[0])]
    names = [name for name in mesh.dim_names if name != "pp"]
    return [ProcessMesh(np.take(mesh.ranks, i, axis), names, mesh.comm) for i in range(mesh.shape[axis])]


def _without_loss(graph: Graph, inputs: int) -> Graph:
    """What the model does, up to its output."""
    assert graph.output is not None
    needed, kept = {graph.output}, []
    for operation in reversed(graph.operations):
        if needed.intersection(operation.outputs):
            kept.append(operation)
            needed.update(x for x in operation.inputs if isinstance(x, Value))
    parameters = [value for value in graph.parameters if value in needed]
    return Graph(kept[::-1], graph.inputs[:inputs], parameters, graph.output)


def _finished(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    """How a value lies with its sums added up."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in placements)
