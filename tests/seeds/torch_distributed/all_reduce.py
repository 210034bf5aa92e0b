"""The sum over a group. Changed: imports."""

import qdist.interop.torch_distributed as dist
import qdist.interop.torch_distributed.torch as torch


def run(rank, size):
    """A collective of ranks 0 and 1."""
    group = dist.new_group([0, 1])
    tensor = torch.ones(1)
    dist.all_reduce(tensor, op=dist.ReduceOp.SUM, group=group)
    print("Rank ", rank, " has data ", tensor[0])
    return tensor
