"""Which placements a graph gets: propagated from annotations, or searched for with a model of the cost."""

from qdist.parallel.auto.planner.dynamic_programming import search
from qdist.parallel.auto.planner.propagation import data_parallel, propagate
from qdist.parallel.auto.planner.recursive import recursive
from qdist.parallel.auto.planner.step_cost import Cost, Machine, cost_of

__all__ = ["Cost", "Machine", "cost_of", "data_parallel", "propagate", "recursive", "search"]
