"""reduce to rank 1, by the mean, which is the default. Changed: imports."""

import numpy as np

from qdist.interop.vqnet.distributed import CommController
from qdist.interop.vqnet.tensor import tensor

Comm_OP = CommController("mpi")

num = tensor.to_tensor(np.random.rand(1, 5))
before = num.numpy().copy()
print(f"rank {Comm_OP.getRank()}  {num}")

Comm_OP.reduce(num, 1)
print(f"rank {Comm_OP.getRank()}  {num}")
