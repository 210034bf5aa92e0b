"""`vqnetrun -H`, `--hostfile`, `--output-filename`, `--verbose`, `--start-timeout`: every rank says where it is.

Changed: the import.
"""

from qdist.interop.vqnet.distributed import CommController, get_host_name

Comm_OP = CommController("mpi")

rank = Comm_OP.getRank()
size = Comm_OP.getSize()
print(f"rank: {rank}, size {size}")
print(f"LocalRank {Comm_OP.getLocalRank()} hosts name {get_host_name()}")
