"""Blocking messages. Changed: imports."""

import qdist.interop.torch_distributed as dist
import qdist.interop.torch_distributed.torch as torch


def run(rank, size):
    """Rank 0 sends to rank 1."""
    tensor = torch.zeros(1)
    if rank == 0:
        tensor += 1
        # To process 1.
        dist.send(tensor=tensor, dst=1)
    else:
        # From process 0.
        dist.recv(tensor=tensor, src=0)
    print("Rank ", rank, " has data ", tensor[0])
    return tensor
