"""A captured graph cut into the stages of a pipeline: each a graph that takes what the one before passes on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from qdist.parallel.auto.eager.capture import ANNOTATE
from qdist.parallel.auto.eager.dist_tensor import DistTensor
from qdist.parallel.auto.ir.graph import Graph, Operation, Value
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.pipeline.balance import balanced

__all__ = ["has_stages", "in_several", "mesh_of_stages", "stage_graphs", "stage_sizes"]


def has_stages(graph: Graph) -> bool:
    """Whether the user has put anything on a stage."""
    return any(_stage_of(operation) is not None for operation in graph.operations)


def mesh_of_stages(graph: Graph) -> ProcessMesh | None:
    """The mesh whose rows are the stages that the user named."""
    rows = filter(None, map(_row_of, graph.operations))
    return next((row.parent for row in rows), None)


def stage_graphs(graph: Graph, stages: int) -> list[Graph]:
    """The operations of a graph without a loss, in as many graphs as there are stages.

    Raises ValueError as stage_sizes does.
    """
    assert graph.output is not None
    bounds = pairwise([0, *accumulate(stage_sizes(graph, stages))])
    parts = [graph.operations[a:b] for a, b in bounds]
    result = []
    takes = list(graph.inputs)
    for number, operations in enumerate(parts):
        later = {x for rest in parts[number + 1 :] for op in rest for x in op.inputs if isinstance(x, Value)}
        known = [*takes, *(value for op in operations for value in op.outputs)]
        last = number == stages - 1
        passed_on = [] if last else [v for v in known if v in later or v is graph.output]
        used = {x for op in operations for x in op.inputs if isinstance(x, Value)}
        parameters = [value for value in graph.parameters if value in used]
        made, unused = (graph.output, graph.unused_draws) if last else (None, 0)
        result.append(Graph(operations, takes, parameters, made, None, passed_on, unused))
        takes = passed_on
    return result


def in_several(graphs: Sequence[Graph]) -> set[Value]:
    """Parameters that several stages use."""
    seen: set[Value] = set()
    twice: set[Value] = set()
    for graph in graphs:
        twice |= seen.intersection(graph.parameters)
        seen |= set(graph.parameters)
    return twice


def stage_sizes(graph: Graph, stages: int) -> list[int]:
    """Operations of each stage by the user's annotations; operations without one follow the one before.

    Balanced by parameters where nothing is annotated.

    Raises:
        ValueError: when a stage has nothing, does not exist, or comes before an earlier one.
    """
    if stages > len(graph.operations):
        raise ValueError(f"{len(graph.operations)} operations do not make {stages} stages: take fewer ranks on 'pp'")
    if not has_stages(graph):
        return balanced(_weights(graph), stages)
    sizes = [0] * stages
    now = 0
    for operation in graph.operations:
        own = _stage_of(operation)
        now = now if own is None else own
        if now >= stages or any(sizes[now + 1 :]):
            raise ValueError(f"an operator is on stage {now}; {stages} stages have to follow each other in order")
        sizes[now] += 1
    if 0 in sizes:
        raise ValueError(
            f"stage {sizes.index(0)} of {stages} has no operator: put one there with shard_op(fn, mesh[i])"
        )
    return sizes


def _weights(graph: Graph) -> list[int]:
    """Elements of the parameters that each operation is the first to use."""
    seen: set[Value] = set()
    weights = []
    for operation in graph.operations:
        new = {x for x in operation.inputs if isinstance(x, Value) and x.kind == "parameter"} - seen
        seen |= new
        weights.append(sum(value.nbytes // value.dtype.itemsize for value in new))
    return weights


def _stage_of(operation: Operation) -> int | None:
    """The stage that the operator, its placement or the placement of one of its weights names."""
    row = _row_of(operation)
    return None if row is None else row.row


def _row_of(operation: Operation) -> ProcessMesh | None:
    meshes = [] if operation.row is None else [operation.row]
    meshes += [operation.attributes["mesh"]] if operation.rule is ANNOTATE else []
    meshes += [x.tensor.mesh for x in operation.inputs if isinstance(x, Value) and isinstance(x.tensor, DistTensor)]
    return next((mesh for mesh in meshes if mesh.row is not None), None)
