"""init_group, with nothing imported but what `import *` brings. Changed: the import."""

# ruff: noqa: F403, F405
from qdist.interop.vqnet.distributed import *

Comm_OP = CommController("mpi")
num = tensor.to_tensor(np.random.rand(1, 5))
before = num.numpy().copy()
print(f"rank {Comm_OP.getRank()}  {num}")

group_l = init_group([[0, 2], [1]])

for comm_ in group_l:
    if Comm_OP.getRank() in comm_[1]:
        Comm_OP.allreduce_group(num, "sum", group=comm_[0])
        print(f"rank {Comm_OP.getRank()}  {num} after")
