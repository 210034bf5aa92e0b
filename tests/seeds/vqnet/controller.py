"""getRank, getSize, getLocalRank, barrier, get_device_num. Changed: the import, the backend's name (BACKEND)."""

from qdist.interop.vqnet.distributed import CommController

Comm_OP = CommController(BACKEND)  # noqa: F821

rank, size, local_rank = Comm_OP.getRank(), Comm_OP.getSize(), Comm_OP.getLocalRank()
Comm_OP.barrier()
devices = Comm_OP.get_device_num()
