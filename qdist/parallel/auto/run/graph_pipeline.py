"""A captured graph as a pipeline: every stage a graph with a plan of its own, on the ranks that have the stage."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qdist.comm import Communicator
from qdist.nn.module import Module, Parameter
from qdist.optim import Optimizer
from qdist.parallel.auto.eager.dist_tensor import DistTensor, check_lengths, place_tensor
from qdist.parallel.auto.ir.graph import Graph, Operation, Value, trace
from qdist.parallel.auto.ir.sharding_plan import ShardingPlan
from qdist.parallel.auto.placement.placements import Partial, Placement, Replicate, Shard
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.auto.placement.reshard import reshard_local
from qdist.parallel.auto.run import passes
from qdist.parallel.auto.run.metrics import add_metrics
from qdist.parallel.auto.run.planning import plan_for
from qdist.parallel.auto.run.runner import PlanRunner
from qdist.parallel.auto.run.stage_graphs import in_several, stage_graphs
from qdist.parallel.auto.run.strategy import Strategy
from qdist.parallel.loss_terms import LossTerms
from qdist.parallel.pipeline.pipeline import Pipeline as Stages
from qdist.parallel.pipeline.stages import Draws, as_tuple
from qdist.parallel.replica.buckets import arrange
from qdist.tensor import Tensor, random
from qdist.tensor.arrays import Array, module_of

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


class _SpreadLoss:
    """An Engine's loss, which takes labels one by one, as a pipeline calls it."""

    def __init__(self, loss: Callable[..., Any]) -> None:
        self._loss = loss
        self.reduction = getattr(loss, "reduction", "mean")
        if hasattr(loss, "terms"):
            self.terms = self._terms

    def __call__(self, output: Tensor, labels: Any) -> Any:
        return self._loss(output, *as_tuple(labels))

    def _terms(self, output: Tensor, labels: Any) -> Any:
        return self._loss.terms(output, *as_tuple(labels))  # type: ignore[attr-defined]


class GraphPipeline:
    """Runs a model, captured on a micro-batch, as a pipeline over the axis "pp" of a mesh.

    Args:
        model, loss: as for Engine.
        strategy: micro-batches and schedule; sharding, mixed precision, recomputation and the search for placements
            inside of every stage.
        mesh: with an axis "pp" for the stages; along "dp" the rows are cut, along others what is annotated.
        inputs, labels: samples of a whole batch; without labels the graph that is shown has no loss.
        names: as of `trace`.

    A micro-batch is a run of rows of the batch, and each replica has a part of every one. A parameter that one stage
    uses is kept by the ranks of that stage alone.

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
        self._size = size
        model.train()
        part = replicas * size
        targets = [y[:part] for y in labels]
        self.graph = trace(model, loss if labels else None, [x[:part] for x in inputs], targets, names)
        """The whole graph, with the loss where labels are given."""
        self._drops = any(op.drops or op.unused_draws for op in self.graph.operations)
        self._groups = [mesh.group(i) for i in range(len(mesh.shape)) if mesh.shape[i] > 1]
        self._outputs: list[np.ndarray] = []
        self._losses: list[tuple[float, float]] = []
        graphs = stage_graphs(_without_loss(self.graph, len(inputs)), self.line.size)
        self._graphs, self.micro_batches = graphs, count
        self.tied = in_several(graphs)
        self.stages = Stages(
            self._planned(graphs, strategy),
            _SpreadLoss(loss),
            self.line,
            micro_batches=count,
            schedule=options.schedule,
            partition=[1] * self.line.size,
        )
        self.stages.has_replicas = replicas > 1
        self.stages.after_loss = self._note
        self._reduction = getattr(loss, "reduction", "mean")
        self.stage: PlannedStage = self.stages.stages[self.line.rank].layers[0]  # type: ignore[assignment, union-attr]
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
            plan = plan_for(graph, mesh, strategy, given)
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
                place_tensor(value.tensor, plan.mesh, plan.placements[value])

    def _note(self, output: Tensor, terms: LossTerms) -> None:
        self._outputs.append(output.numpy())
        self._losses.append((terms.numerator, terms.denominator))

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
        x, y = (tuple(self._own(t._data) for t in tensors) for tensors in (inputs, labels))
        draws = self._draws()
        if optimizer is None:
            sums = self.stages.evaluate(x, y, draws)
        else:
            optimizer.zero_grad()
            sums = self.stages.accumulate(x, y, draws, scale)
        total, count = sums.numerator, sums.denominator
        if self.replicas is not None:
            total, count = self.replicas.all_reduce(np.array([total, count])).tolist()
        # Replicas' gradients are added up, not averaged.
        loss, factor = sums.loss_and_scale(total, count, 1, self._reduction)
        if optimizer is not None:
            self._sum_over_replicas(factor)
        result = {"loss": loss}
        last = self.line.size - 1
        for metric in metrics:
            own = None
            if self.line.rank == last:
                own = metric(np.concatenate(self._outputs), *(self._own(t.numpy()) for t in labels))
            found = self.line.broadcast_object(own, last)
            if self.replicas is not None:
                # Replicas have equally many rows.
                found = {name: self.replicas.all_reduce(np.array(value), "avg") for name, value in found.items()}
            add_metrics(result, {name: float(value) for name, value in found.items()})
        return result

    def _own(self, rows: Array) -> Array:
        """This replica's part of every micro-batch."""
        place = 0 if self.replicas is None else self.replicas.rank
        parts = rows.reshape(self.micro_batches, -1, self._size, *rows.shape[1:])
        return parts[:, place].reshape(-1, *rows.shape[1:])

    def _draws(self) -> Draws:
        """What is drawn at random for a batch: from the generator of the mesh's first rank.

        A stage draws for all replicas' rows of a micro-batch and takes its own, so that rows here are counted in tuples
        of one of each.
        """
        state, rows = random.get_state(), self.micro_batches * self._size
        drawn = np.array([*state["key"], state["draw"]], np.uint64)
        for group in self._groups if self._drops else ():
            drawn = group.broadcast(drawn)
        first, second, draw = drawn.tolist()
        return Draws((first, second), draw, (0, rows, rows))

    def _sum_over_replicas(self, factor: float) -> None:
        """Scale all gradients, and add up, once for all micro-batches, those that are this rank's terms of a sum."""
        plan = self.stage.runner.plan
        later = {value for value, _ in plan.summed_later}
        several = self.replicas is not None and self.replicas.size > 1
        added = []
        for value in plan.graph.parameters:
            kept: Any = getattr(value.tensor, "local", value.tensor)
            gradient = kept.grad
            if gradient is not None:
                gradient.data *= factor
                added += [gradient] if several and value in later else []
        for group in arrange(added):
            assert self.replicas is not None
            flat = module_of(group[0].data).concatenate([g.data.reshape(-1) for g in group])
            total, start = self.replicas.all_reduce(flat, out=flat), 0
            for g in group:
                g.data = total[start : start + g.size].reshape(g.shape)
                start += g.size

    def losses(self) -> list[float]:
        """Of every micro-batch of the last pass, on every rank. Collective."""
        terms = np.array(self.line.broadcast_object(self._losses, self.line.size - 1))
        if self.replicas is not None:
            terms = self.replicas.all_reduce(terms)
        if self._reduction == "sum":
            return [float(total) for total, _ in terms]
        return [float(total / count) if count else math.nan for total, count in terms]

    def predict(self, inputs: Sequence[Tensor]) -> np.ndarray:
        """The whole output, on every rank."""
        self._check_rows(inputs)
        own = self.stages.predict(tuple(self._own(x._data) for x in inputs)).numpy()
        if self.replicas is None:
            return own
        everyone = [part.reshape(self.micro_batches, -1, *own.shape[1:]) for part in self.replicas.all_gather(own)]
        return np.concatenate(everyone, axis=1).reshape(-1, *own.shape[1:])

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
    needed, kept = {graph.output}, list[Operation]()
    unused = graph.unused_draws
    for operation in reversed(graph.operations):
        if needed.intersection(operation.outputs):
            kept.append(operation)
            needed.update(x for x in operation.inputs if isinstance(x, Value))
        elif not kept:
            unused += operation.unused_draws
    parameters = [value for value in graph.parameters if value in needed]
    return Graph(kept[::-1], graph.inputs[:inputs], parameters, graph.output, unused_draws=unused)


def _finished(placements: Sequence[Placement]) -> tuple[Placement, ...]:
    """How a value lies with its sums added up."""
    return tuple(Replicate() if isinstance(p, Partial) else p for p in placements)
