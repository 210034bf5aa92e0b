"""`vqnetrun -n`, `-np`: every rank says which it is. Changed: the import."""

from qdist.interop.vqnet.distributed import CommController

Comm_OP = CommController("mpi")

rank = Comm_OP.getRank()
size = Comm_OP.getSize()
print(f"rank: {rank}, size {size}")
