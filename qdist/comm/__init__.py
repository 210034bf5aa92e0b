"""Who talks to whom: ranks, groups, collectives, and the launcher that starts them."""

from qdist.comm.communicator import Communicator
from qdist.comm.errors import CollectiveMismatch, CommError
from qdist.comm.mesh import Mesh
from qdist.comm.place import cores, cuda_devices
from qdist.comm.reduction import ReduceOp
from qdist.comm.ring import ring_all_reduce
from qdist.comm.traffic import Message
from qdist.comm.work import Work
from qdist.comm.world import counting_communicator, init, is_initialized, shutdown, world

__all__ = [
    "CollectiveMismatch",
    "CommError",
    "Communicator",
    "Mesh",
    "Message",
    "ReduceOp",
    "Work",
    "cores",
    "counting_communicator",
    "cuda_devices",
    "init",
    "is_initialized",
    "ring_all_reduce",
    "shutdown",
    "world",
]
