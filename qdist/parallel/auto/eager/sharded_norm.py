"""Gradient clipping by the norm of all gradients, sharded ones included."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from qdist.optim.clip import check_max_norm, scale_gradients, squares
from qdist.parallel.auto.eager.dist_tensor import DistTensor
from qdist.parallel.auto.placement.placements import Shard
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.tensor import Tensor

__all__ = ["clip_grad_norm_"]


def clip_grad_norm_(parameters: Iterable[Tensor], max_norm: float) -> float:
    """Scale all gradients so that their joint norm is at most max_norm; returns the norm before.

    Args:
        parameters: DistParameters, of which every rank holds its part, and plain ones, equal on all ranks.
        max_norm: positive.

    Collective over the meshes. Raises ValueError when max_norm is not positive, before anything is sent, and
    RuntimeError on all ranks when the norm is not finite.
    """
    check_max_norm(max_norm)
    given = list(parameters)
    total = 0.0
    parts: dict[ProcessMesh, float] = {}
    for p in given:
        own = 0.0 if p.grad is None else squares(p.grad)
        if isinstance(p, DistTensor):
            # Ranks of an axis that does not cut it have the same part: each counts its share.
            copies = math.prod(n for n, place in zip(p.mesh.shape, p.placements) if not isinstance(place, Shard))
            parts[p.mesh] = parts.get(p.mesh, 0.0) + own / copies
        else:
            total += own
    for mesh, part in parts.items():
        for axis in range(len(mesh.shape)) if mesh.coordinates is not None else ():
            part = float(mesh.group(axis).all_reduce(np.array(part)))
        if mesh.partial:
            part = float(mesh.comm.broadcast(np.array(part), mesh.members[0]))
        total += part
    norm = math.sqrt(total)
    scale_gradients([p.grad for p in given if p.grad is not None], norm, max_norm)
    return norm
