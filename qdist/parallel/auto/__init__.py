"""Semi-automatic and automatic parallelism: annotate a few tensors or operators, or nothing, and the rest follows."""

from .clip import clip_grad_norm_
from .cost import Cost, Machine, cost_of
from .dist_tensor import DistParameter, DistTensor, reshard, shard_tensor
from .engine import DistModel, Engine, InputSpec, to_static
from .graph import Graph, trace
from .metrics import Accuracy
from .operator_rules import register_form
from .operators import Operator, matmul, relu, shard_op
from .placements import Partial, Placement, Replicate, Shard
from .plan import Plan
from .process_mesh import ProcessMesh
from .propagate import data_parallel, propagate
from .search import search
from .strategy import Strategy

__all__ = [
    "Accuracy",
    "Cost",
    "DistModel",
    "DistParameter",
    "DistTensor",
    "Engine",
    "Graph",
    "InputSpec",
    "Machine",
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
    "register_form",
    "relu",
    "reshard",
    "search",
    "shard_op",
    "shard_tensor",
    "to_static",
    "trace",
]
