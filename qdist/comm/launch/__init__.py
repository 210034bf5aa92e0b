"""Starting ranks: `qdist run`, which starts a program on many, and spawn(), which runs a function on them."""

from qdist.comm.launch.command import mpirun_command
from qdist.comm.launch.node import run_node
from qdist.comm.launch.spawner import spawn
from qdist.comm.launch.supervisor import run

__all__ = ["mpirun_command", "run", "run_node", "spawn"]
