"""get_local_rank and get_rank by their module's path. Changed: imports."""

from qdist.interop.vqnet.distributed.ControlComm import get_local_rank, get_rank

print(get_local_rank())
print(get_rank())
