"""A training step as a graph: captured once, given placements by a plan, lowered to instructions."""

from qdist.parallel.auto.ir.graph import Graph, trace
from qdist.parallel.auto.ir.sharding_plan import ShardingPlan

__all__ = ["Graph", "ShardingPlan", "trace"]
