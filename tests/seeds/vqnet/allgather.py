"""allgather gives a new tensor. Changed: imports."""

import numpy as np

from qdist.interop.vqnet.distributed import CommController
from qdist.interop.vqnet.tensor import tensor

Comm_OP = CommController("mpi")

num = tensor.to_tensor(np.random.rand(1, 5))
before = num.numpy().copy()
print(f"rank {Comm_OP.getRank()}  {num}")

num = Comm_OP.allgather(num)
print(f"rank {Comm_OP.getRank()}  {num}")
