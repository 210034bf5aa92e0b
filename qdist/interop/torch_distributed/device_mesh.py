"""init_device_mesh: the ranks on a grid."""

from __future__ import annotations

from collections.abc import Sequence

from ... import comm as qc
from ...comm import Mesh

__all__ = ["init_device_mesh"]


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None
) -> Mesh:
    """The ranks of the job as a grid, which are brought together if they are not; `mesh["dp"]` is the group of an axis.

    Args:
        device_type: "cpu" or "cuda".
        mesh_shape: the length of each axis; their product is the number of ranks.
        mesh_dim_names: of the axes; "dim0", "dim1" ... when not given.
    """
    from . import process_group

    if device_type not in ("cpu", "cuda"):
        raise ValueError(f"device_type={device_type!r}: use 'cpu' or 'cuda'")
    names = [f"dim{i}" for i in range(len(mesh_shape))] if mesh_dim_names is None else list(mesh_dim_names)
    if len(names) != len(mesh_shape) or len(set(names)) < len(names):
        raise ValueError(f"mesh_dim_names={names}: a name of its own for each of {len(mesh_shape)} axes")
    if not process_group.is_initialized():
        several = qc.cuda_devices() > 1 and device_type == "cuda"
        process_group.init_process_group("nccl" if several else "mpi")
    world = process_group.communicator(None)
    assert world is not None
    return Mesh(world, **dict(zip(names, mesh_shape)))
