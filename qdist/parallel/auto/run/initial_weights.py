"""The same model on every rank of a mesh before it is trained there: the first rank's."""

from __future__ import annotations

import numpy as np

from qdist.nn.module import Module
from qdist.parallel.auto.eager.dist_tensor import DistTensor
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.parallel.replica.buckets import broadcast
from qdist.parallel.replica.replica import check_same_model
from qdist.tensor import random

__all__ = ["take_over_first"]


def take_over_first(model: Module, mesh: ProcessMesh) -> None:
    """Give all ranks the first one's parameters, buffers and random state; parameters that are sharded already stay.

    Raises ValueError, on every rank, where their models have other parameters. Collective over the mesh.
    """
    groups = [mesh.group(axis) for axis in range(len(mesh.shape)) if mesh.shape[axis] > 1]
    for group in groups:
        check_same_model(model, group)
    whole = [p for p in model.parameters() if not isinstance(p, DistTensor)]
    state = random.get_state()
    drawn = np.array([*state["key"], state["draw"]], np.uint64)
    for group in groups:  # Along one axis after the other, the values of the very first rank get everywhere.
        broadcast([*whole, *model.buffers()], group)
        drawn = group.broadcast(drawn)
    if groups:
        first, second, draw = drawn.tolist()
        random.set_state({"key": [first, second], "draw": draw})
