"""How tensors lie on a mesh (Shard, Replicate, Partial), and the communication from one placement to another."""

from qdist.parallel.auto.placement.placements import Partial, Placement, Replicate, Shard
from qdist.parallel.auto.placement.process_mesh import ProcessMesh

__all__ = ["Partial", "Placement", "ProcessMesh", "Replicate", "Shard"]
