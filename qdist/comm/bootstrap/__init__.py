"""How processes become ranks of one job: init(), what launchers tell, and the rendezvous of those that none started."""

from qdist.comm.bootstrap.initialize import (
    DEFAULT_TIMEOUT,
    counting_communicator,
    init,
    is_initialized,
    shutdown,
    world,
)
from qdist.comm.bootstrap.named_backend import world_over

__all__ = ["DEFAULT_TIMEOUT", "counting_communicator", "init", "is_initialized", "shutdown", "world", "world_over"]
