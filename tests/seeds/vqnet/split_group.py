"""split_group gives a communicator and its ranks for every group. Changed: imports."""

from qdist.interop.vqnet.distributed import CommController

Comm_OP = CommController("mpi")

groups = Comm_OP.split_group([[0, 1], [2, 3]])
print(groups)
