"""broadcast from rank 1. Changed: imports."""

import numpy as np

from qdist.interop.vqnet.distributed import CommController
from qdist.interop.vqnet.tensor import tensor

Comm_OP = CommController("mpi")

num = tensor.to_tensor(np.random.rand(1, 5))
before = num.numpy().copy()
print(f"rank {Comm_OP.getRank()}  {num}")

Comm_OP.broadcast(num, 1)
print(f"rank {Comm_OP.getRank()}  {num}")
