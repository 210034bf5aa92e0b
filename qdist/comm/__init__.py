"""Who talks to whom: ranks, groups, collectives, and the launcher that starts them."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOMES = {
    "bootstrap.initialize": "counting_communicator init is_initialized shutdown world",
    "communicator": "Communicator",
    "errors": "CollectiveMismatch CommError",
    "mesh": "Mesh",
    "messages.reduction": "ReduceOp",
    "messages.traffic": "Message",
    "place": "cores cuda_devices",
    "ring": "ring_all_reduce",
    "work": "Work",
}
_HOME_OF = {name: f"qdist.comm.{home}" for home, names in _HOMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    # A launcher imports what starts ranks, and neither NumPy nor what ranks do with arrays: half of its time.
    if name not in _HOME_OF:
        raise AttributeError(f"module 'qdist.comm' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(_HOME_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
