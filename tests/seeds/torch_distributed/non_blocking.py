"""Messages that are waited for later. Changed: imports."""

import qdist.interop.torch_distributed as dist
import qdist.interop.torch_distributed.torch as torch


def run(rank, size):
    """Rank 0 sends to rank 1."""
    tensor = torch.zeros(1)
    req = None
    if rank == 0:
        tensor += 1
        # To process 1.
        req = dist.isend(tensor=tensor, dst=1)
        print("Rank 0 started sending")
    else:
        # From process 0.
        req = dist.irecv(tensor=tensor, src=0)
        print("Rank 1 started receiving")
    req.wait()
    print("Rank ", rank, " has data ", tensor[0])
    return tensor
