"""The plan of a graph, or of a pipeline stage's, as a Strategy wants it: propagated or searched for."""

from __future__ import annotations

from collections.abc import Mapping

from qdist.parallel.auto.ir.graph import Graph
from qdist.parallel.auto.ir.sharding_plan import ShardingPlan
from qdist.parallel.auto.placement.placements import Placement
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.auto.planner.dynamic_programming import search
from qdist.parallel.auto.planner.propagation import propagate
from qdist.parallel.auto.planner.recursive import recursive
from qdist.parallel.auto.run.strategy import Strategy

__all__ = ["plan_for"]

_Placements = Mapping[str, tuple[Placement, ...]]


def plan_for(
    graph: Graph, mesh: ProcessMesh, strategy: Strategy, fixed: _Placements, rows: _Placements | None = None
) -> ShardingPlan:
    """A plan for a graph on a mesh.

    Args:
        graph: a captured graph, or a stage's; annotations in it are kept to.
        mesh: the ProcessMesh.
        strategy: whether it is searched for, and how.
        fixed: placements by name of an input or parameter.
        rows: those of inputs where nothing is searched for; a search is free to choose others.
    """
    if strategy.auto and strategy.search_mode != "sharding_propagation":
        planner = search if strategy.search_mode == "dynamic_programming" else recursive
        return planner(graph, mesh, strategy.machine, dict(fixed))
    return propagate(graph, mesh, {**(rows or {}), **fixed}, use_all=strategy.auto or strategy.fully_use_devices)
