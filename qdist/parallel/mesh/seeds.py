"""Seeds on a mesh: the same random numbers along some axes, different ones along others."""

from __future__ import annotations

from collections.abc import Sequence

from qdist.comm import Mesh
from qdist.tensor import Generator, manual_seed

__all__ = ["mesh_generator", "seed_mesh"]


def seed_mesh(mesh: Mesh, seed: int, different: Sequence[str] | None = None) -> Generator:
    """Restart the default generator as `mesh_generator` makes it: for what programs draw by themselves, such as noise
    or augmentations of each rank's rows.

    Dropout needs no seed of its own on any rank: models on a mesh, DataParallel, Zero, pipelines and Engines draw the
    masks of one process from the first rank's generator.
    """
    number = _place(mesh, different)
    return manual_seed(seed, number)


def mesh_generator(mesh: Mesh, seed: int, different: Sequence[str] | None = None) -> Generator:
    """A generator for this rank of a mesh.

    Args:
        seed: the same on all ranks.
        different: the axes along which ranks draw different numbers; along the others they draw the same. When not
            given "dp" alone, if the mesh has it: numbers then differ from one share of the batch to the next, and are
            the same on ranks that work on the same rows. With () all ranks draw the same, as for the initial weights
            of a model.

    The rank that is first on every axis of `different` draws what one process draws with this seed.

    Raises ValueError for an axis that the mesh does not have.
    """
    return Generator(seed, _place(mesh, different))


def _place(mesh: Mesh, different: Sequence[str] | None) -> int:
    """The ranks that share their numbers share this one too."""
    chosen = [axis for axis in mesh.shape if axis == "dp"] if different is None else list(different)
    unknown = [axis for axis in chosen if axis not in mesh]
    if unknown:
        raise ValueError(f"the mesh has no axis {unknown[0]!r}: it has {', '.join(mesh.shape)}")
    place = 0
    for axis, degree in mesh.shape.items():
        if axis in chosen:
            place = place * degree + mesh.coordinates[axis]
    return place
