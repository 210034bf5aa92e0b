"""Who talks to whom: ranks, groups, collectives, and the launcher that starts them."""

from qdist.comm.bootstrap.initialize import counting_communicator, init, is_initialized, shutdown, world
from qdist.comm.communicator import Communicator
from qdist.comm.errors import CollectiveMismatch, CommError
from qdist.comm.mesh import Mesh
from qdist.comm.messages.reduction import ReduceOp
from qdist.comm.messages.traffic import Message
from qdist.comm.place import cores, cuda_devices
from qdist.comm.ring import ring_all_reduce
from qdist.comm.work import Work

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
