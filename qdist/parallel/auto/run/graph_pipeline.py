"""A captured graph as a pipeline: every operation a layer that passes on what later ones need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from qdist.comm import Mesh
from qdist.nn.module import Module, Parameter
from qdist.optim import Optimizer
from qdist.parallel.auto.eager.capture import ANNOTATE
from qdist.parallel.auto.ir.graph import Graph, Operation, Value, trace
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.auto.run.strategy import Pipeline
from qdist.parallel.pipeline.pipeline import Pipeline as Stages
from qdist.parallel.pipeline.stages import as_tuple
from qdist.tensor import Tensor, apply, random

__all__ = ["GraphLayer", "GraphPipeline", "layers_of", "stage_sizes"]


class GraphLayer(Module):
    """One operation: takes the values that are alive before it, gives those that are alive after it."""

    def __init__(self, operation: Operation, takes: list[Value], gives: list[Value]) -> None:
        super().__init__()
        self._operation, self._takes, self._gives = operation, takes, gives
        for x in operation.inputs:
            if isinstance(x, Value) and isinstance(x.tensor, Parameter):
                setattr(self, x.name.replace(".", "/"), x.tensor)

    def forward(self, *tensors: Tensor) -> Any:
        values: dict[Any, Any] = dict(zip(self._takes, tensors, strict=True))
        operation = self._operation
        attributes = operation.attributes
        inputs = [values.get(x, x.tensor) if isinstance(x, Value) else x for x in operation.inputs]
        if attributes.get("ticket") is not None:
            # Captured in training mode; in evaluation nothing is dropped.
            drawn: dict[str, Any] = {"ticket": random.ticket(_masked(inputs))} if self.training else {"p": 0.0}
            attributes = {**attributes, **drawn}
        made = apply(operation.rule, *inputs, **attributes)
        values.update(zip(operation.outputs, made if isinstance(made, tuple) else (made,)))
        given = tuple(values[v] for v in self._gives)
        return given[0] if len(given) == 1 else given


def _masked(inputs: Sequence[Any]) -> tuple[int, ...]:
    """The shape of what is dropped: of the only input, or of the weights of an attention's queries and keys."""
    q = inputs[0].shape
    return q if len(inputs) == 1 else (*q[:-1], inputs[1].shape[-2])


def layers_of(graph: Graph) -> list[GraphLayer]:
    """The operations of a graph without a loss as layers.

    Raises:
        ValueError: for a graph with shardings, which a pipeline of plain layers does not follow.
    """
    assert graph.output is not None
    if any(op.rule is ANNOTATE or op.pinned is not None for op in graph.operations):
        raise ValueError("a pipeline takes a model whose operators are annotated with stages alone, not with shardings")
    needed = {graph.output}
    alive: list[set[Value]] = []
    for operation in reversed(graph.operations):
        alive.append(set(needed))
        needed -= set(operation.outputs)
        needed |= {x for x in operation.inputs if isinstance(x, Value) and x.tensor is None}
    alive.reverse()
    order = {v: i for i, v in enumerate([*graph.inputs, *(v for op in graph.operations for v in op.outputs)])}
    takes = list(graph.inputs)
    layers = []
    for operation, after in zip(graph.operations, alive):
        gives = sorted(after, key=order.__getitem__)
        layers.append(GraphLayer(operation, takes, gives))
        takes = gives
    return layers


def stage_sizes(graph: Graph, stages: int) -> list[int] | str:
    """Layers of each stage by the user's annotations; operations without one follow the one before.

    Returns "parameters", which balances the stages by parameters, when nothing is annotated.

    Raises:
        ValueError: when a stage has nothing, does not exist, or comes before an earlier one.
    """
    if all(op.stage is None for op in graph.operations):
        return "parameters"
    sizes = [0] * stages
    now = 0
    for operation in graph.operations:
        now = now if operation.stage is None else operation.stage
        if now >= stages or any(sizes[now + 1 :]):
            raise ValueError(f"an operator is on stage {now}; {stages} stages have to follow each other in order")
        sizes[now] += 1
    if 0 in sizes:
        raise ValueError(
            f"stage {sizes.index(0)} of {stages} has no operator: put one there with shard_op(fn, mesh[i])"
        )
    return sizes


class _NotingLoss:
    """A loss that notes the outputs it is given."""

    def __init__(self, loss: Callable[..., Any], outputs: list[np.ndarray]) -> None:
        self._loss, self._outputs = loss, outputs
        self.reduction = getattr(loss, "reduction", "mean")
        if hasattr(loss, "terms"):
            self.terms = self._terms

    def __call__(self, output: Tensor, labels: Any) -> Any:
        return self._loss(self._noted(output), *as_tuple(labels))

    def _terms(self, output: Tensor, labels: Any) -> Any:
        return self._loss.terms(self._noted(output), *as_tuple(labels))  # type: ignore[attr-defined]

    def _noted(self, output: Tensor) -> Tensor:
        self._outputs.append(output.numpy())
        return output


class GraphPipeline:
    """Runs a model, captured on a micro-batch, as a pipeline over the axis "pp" of a mesh.

    Args:
        model, loss: as for Engine.
        options: micro-batches and schedule.
        mesh: with an axis "pp" for the stages, and maybe an axis "dp" for pipelines side by side; all ranks in order.
        inputs: a sample of the inputs of a whole batch.

    Raises:
        ValueError: for another mesh, or replicas and micro-batches that do not divide the batch.
    """

    def __init__(
        self, model: Module, loss: Callable[..., Any], options: Pipeline, mesh: ProcessMesh, inputs: Sequence[Tensor]
    ) -> None:
        degrees = dict(zip(mesh.dim_names, mesh.shape))
        in_order = np.array_equal(mesh.ranks.ravel(), np.arange(mesh.comm.size))
        if "pp" not in degrees or set(degrees) - {"pp", "dp"} or not in_order:
            raise ValueError(f"a pipeline of an Engine takes all ranks in order on axes 'pp' and 'dp', not {mesh}")
        self.batch, replicas = len(inputs[0]), degrees.get("dp", 1)
        rows = self.batch // replicas
        count = options.accumulate_steps or rows // (options.micro_batch_size or 1)
        size = options.micro_batch_size or rows // count
        if replicas * count * size != self.batch:
            raise ValueError(
                f"{self.batch} rows are not {replicas} x {count} micro-batches of {size}: all have to be alike"
            )
        place = mesh.place()[mesh.dim_names.index("dp")] if "dp" in degrees else 0
        self._rows = slice(place * rows, (place + 1) * rows)
        model.train()
        self.graph = trace(model, None, [x[:size] for x in inputs], ())
        self._outputs: list[np.ndarray] = []
        grid = Mesh(mesh.comm, **degrees)
        self.comm, self.replicas = grid["pp"], grid["dp"] if "dp" in degrees else None
        self.stages = Stages(
            layers_of(self.graph),
            _NotingLoss(loss, self._outputs),
            grid,
            micro_batches=count,
            schedule=options.schedule,
            partition=stage_sizes(self.graph, self.comm.size),
        )

    def run(
        self, inputs: Sequence[Tensor], labels: Sequence[Tensor], optimizer: Optimizer | None, metrics: Sequence[Any]
    ) -> dict[str, Any]:
        """A step, as Engine.run gives it; without an optimiser nothing is updated."""
        if len(inputs[0]) != self.batch:
            raise ValueError(f"the pipeline was captured for {self.batch} rows, the batch has {len(inputs[0])}")
        self._outputs.clear()
        x, y = (tuple(t.numpy()[self._rows] for t in tensors) for tensors in (inputs, labels))
        if optimizer is None:
            loss = self.stages.eval_batch(x, y)
        else:
            loss = self.stages.train_batch(x, y, optimizer)
        result = {"loss": loss}
        last = self.comm.size - 1
        for metric in metrics:
            own = metric(np.concatenate(self._outputs), *y) if self.comm.rank == last else None
            for name, value in self.comm.broadcast_object(own, last).items():
                # Replicas have equally many rows.
                mean = value if self.replicas is None else self.replicas.all_reduce(np.array(value), "avg")
                result[name] = float(mean)
        return result

    def predict(self, inputs: Sequence[Tensor]) -> np.ndarray:
        """The whole output, on every rank."""
        if len(inputs[0]) != self.batch:
            raise ValueError(f"the pipeline was captured for {self.batch} rows, the batch has {len(inputs[0])}")
        own = self.stages.predict(tuple(x.numpy()[self._rows] for x in inputs)).numpy()
        return own if self.replicas is None else np.concatenate(list(self.replicas.all_gather(own)))

    def state_dict(self) -> dict[str, np.ndarray]:
        """The parameters of all stages by the model's names, on every rank."""
        owners = {
            name: rank for rank, names in enumerate(self.comm.all_gather_object(self._own_names())) for name in names
        }
        state = {}
        for value in self.graph.parameters:
            assert value.tensor is not None
            state[value.name] = self.comm.broadcast(value.tensor.data, owners[value.name])
        return state

    def _own_names(self) -> list[str]:
        mine = {id(p) for p in self.stages.parameters()}
        return [value.name for value in self.graph.parameters if id(value.tensor) in mine]
