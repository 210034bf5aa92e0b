"""Semi-automatic and automatic parallelism: annotate a few tensors or operators, or nothing, and the rest follows."""

from qdist.parallel.auto.eager import (
    DistParameter,
    DistTensor,
    Operator,
    clip_grad_norm_,
    matmul,
    relu,
    reshard,
    shard_op,
    shard_tensor,
)
from qdist.parallel.auto.ir import Graph, trace
from qdist.parallel.auto.ir import ShardingPlan as Plan
from qdist.parallel.auto.placement import Partial, Placement, ProcessMesh, Replicate, Shard
from qdist.parallel.auto.planner import Cost, Machine, cost_of, data_parallel, propagate, recursive, search
from qdist.parallel.auto.rules import register_form
from qdist.parallel.auto.run import (
    Accuracy,
    Callback,
    DistModel,
    Engine,
    InputSpec,
    LossMonitor,
    ModelCheckpoint,
    Strategy,
    to_static,
)

__all__ = [
    "Accuracy",
    "Callback",
    "Cost",
    "DistModel",
    "DistParameter",
    "DistTensor",
    "Engine",
    "Graph",
    "InputSpec",
    "LossMonitor",
    "Machine",
    "ModelCheckpoint",
    "Operator",
    "Partial",
    "Placement",
    "Plan",
    "ProcessMesh",
    "Replicate",
    "Shard",
    "Strategy",
    "clip_grad_norm_",
    "cost_of",
    "data_parallel",
    "matmul",
    "propagate",
    "recursive",
    "register_form",
    "relu",
    "reshard",
    "search",
    "shard_op",
    "shard_tensor",
    "to_static",
    "trace",
]
