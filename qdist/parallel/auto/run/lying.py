"""Where an Engine's inputs and results lie on its mesh."""

from __future__ import annotations

from collections.abc import Iterator

from qdist.parallel.auto.eager.capture import ANNOTATE
from qdist.parallel.auto.eager.dist_tensor import DistTensor
from qdist.parallel.auto.ir.graph import Graph, Value
from qdist.parallel.auto.ir.sharding_plan import ShardingPlan
from qdist.parallel.auto.placement.placements import Placement, Replicate, Shard
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.auto.placement.reshard import reshard_local
from qdist.tensor import Tensor

__all__ = ["data_axis", "full_value", "mesh_of", "own_part", "placed_rows", "row_axes", "rows_along_data"]


def mesh_of(graph: Graph) -> ProcessMesh | None:
    """The mesh of the annotations."""
    return next(meshes(graph), None)


def meshes(graph: Graph) -> Iterator[ProcessMesh]:
    """The meshes of all annotations, in order."""
    for operation in graph.operations:
        if operation.rule is ANNOTATE:
            yield operation.attributes["mesh"]
        for x in operation.inputs:
            if isinstance(x, Value) and isinstance(x.tensor, DistTensor):
                yield x.tensor.mesh


def data_axis(mesh: ProcessMesh) -> int | None:
    """Which axis of a mesh is "dp", if any."""
    return mesh.dim_names.index("dp") if "dp" in mesh.dim_names else None


def rows_along_data(value: Value, mesh: ProcessMesh) -> tuple[Placement, ...]:
    """Cut along the axis "dp", if there is one and each of its ranks gets a row: a last batch may have too few."""
    axis = data_axis(mesh)
    cuts = axis is not None and bool(value.shape) and value.shape[0] >= mesh.shape[axis]
    return tuple(Shard(0) if cuts and i == axis else Replicate() for i in range(len(mesh.shape)))


def row_axes(mesh: ProcessMesh) -> list[int]:
    """The axes along which ranks have rows of their own: "dp", or all of a mesh whose axes were given no names."""
    if "dp" in mesh.dim_names:
        return [mesh.dim_names.index("dp")]
    unnamed = mesh.dim_names == tuple(f"d{i}" for i in range(len(mesh.shape)))
    return list(range(len(mesh.shape))) if unnamed else []


def placed_rows(mesh: ProcessMesh) -> tuple[Placement, ...]:
    """Cut along the axes that row_axes gives."""
    axes = row_axes(mesh)
    return tuple(Shard(0) if axis in axes else Replicate() for axis in range(len(mesh.shape)))


def own_part(x: Tensor, plan: ShardingPlan, value: Value, before: tuple[Placement, ...]) -> Tensor:
    """This rank's part of a batch that lies by `before`."""
    return reshard_local(x, plan.mesh, value.shape, before, plan.placements[value])


def full_value(local: Tensor | None, plan: ShardingPlan, value: Value | None) -> Tensor:
    """A result, whole on every rank."""
    assert local is not None
    assert value is not None
    return reshard_local(local.detach(), plan.mesh, value.shape, plan.placements[value], plan.whole)
