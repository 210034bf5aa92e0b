"""send from rank 0, recv on rank 1. Changed: imports."""

import numpy as np

from qdist.interop.vqnet.distributed import CommController, get_rank
from qdist.interop.vqnet.tensor import tensor

Comm_OP = CommController("mpi")

num = tensor.to_tensor(np.random.rand(1, 5))
recv = tensor.zeros_like(num)

if get_rank() == 0:
    Comm_OP.send(num, 1)
elif get_rank() == 1:
    Comm_OP.recv(recv, 0)
print(f"rank {Comm_OP.getRank()}  {num}")
print(f"rank {Comm_OP.getRank()}  {recv}")
