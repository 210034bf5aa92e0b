"""DistTensor, and operations on it that run one by one as they are called."""

from qdist.parallel.auto.eager.dist_tensor import DistParameter, DistTensor, reshard, shard_tensor
from qdist.parallel.auto.eager.operators import Operator, matmul, relu, shard_op
from qdist.parallel.auto.eager.sharded_norm import clip_grad_norm_

__all__ = [
    "DistParameter",
    "DistTensor",
    "Operator",
    "clip_grad_norm_",
    "matmul",
    "relu",
    "reshard",
    "shard_op",
    "shard_tensor",
]
