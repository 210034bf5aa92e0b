"""Mesh: ranks on a grid with named axes, one communicator an axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from qdist.comm.communicator import Communicator
from qdist.comm.messages import arguments

__all__ = ["Mesh"]


class Mesh:
    """The ranks of ``comm`` as a grid. ``Mesh(comm, dp=2, state=4)[\"state\"]`` connects ranks that differ in "state".

    The last axis runs fastest, so its groups are neighbours: put the axis that talks most last. One degree may be -1:
    it takes what the others leave.

    Raises ValueError when the degrees do not multiply to the communicator's size. Collective over ``comm``.
    """

    def __init__(self, comm: Communicator, **degrees: int) -> None:
        if not isinstance(comm, Communicator):
            raise TypeError(f"a mesh is of a communicator such as that of qdist.comm.init(), not {type(comm).__name__}")
        self.comm = comm
        self.shape = _resolve(degrees, comm.size)
        """Degree of each axis, in order."""
        self._grid = np.arange(comm.size).reshape(tuple(self.shape.values()))
        places = np.unravel_index(comm.rank, self._grid.shape)
        self.coordinates = {axis: int(place) for axis, place in zip(self.shape, places)}
        """This rank's place on each axis."""
        self._groups: dict[tuple[str, ...], Communicator] = {}
        for axis in self.shape:
            self._groups[(axis,)] = self._connect((axis,))

    def __getitem__(self, axes: str | Sequence[str]) -> Communicator:
        """The communicator along one axis, or over several: ``mesh["dp", "cp"]``. Several are collective when first
        asked for. Raises KeyError for an axis that the mesh does not have."""
        names = (axes,) if isinstance(axes, str) else tuple(axes)
        for name in names:
            if name not in self.shape:
                raise KeyError(f"the mesh has no axis {name!r}: it has {', '.join(self.shape)}")
        key = tuple(axis for axis in self.shape if axis in names)
        if key not in self._groups:
            self._groups[key] = self._connect(key)
        return self._groups[key]

    def __contains__(self, axis: str) -> bool:
        return axis in self.shape

    def __repr__(self) -> str:
        inner = ", ".join(f"{axis}={degree}" for axis, degree in self.shape.items())
        return f"<Mesh {inner}: rank {self.comm.rank} at {self.coordinates}>"

    def _connect(self, axes: tuple[str, ...]) -> Communicator:
        positions = [i for i, axis in enumerate(self.shape) if axis in axes]
        last = np.moveaxis(self._grid, positions, range(-len(positions), 0))
        length = math.prod(self.shape[axis] for axis in axes)
        groups = [[int(r) for r in row] for row in last.reshape(-1, length)]
        part = self.comm.split(groups, name="*".join(axes))
        assert part is not None, "every rank stands in one row"
        return part


def _resolve(degrees: dict[str, int], size: int) -> dict[str, int]:
    if not degrees:
        raise ValueError("a mesh needs axes: Mesh(comm, dp=2, state=4)")
    degrees = {axis: arguments.whole(axis, degree) for axis, degree in degrees.items()}
    for axis, degree in degrees.items():
        if degree != -1 and degree < 1:
            raise ValueError(f"{axis}={degree}: a degree is a positive number, or -1 for what is left")
    free = [axis for axis, degree in degrees.items() if degree == -1]
    if len(free) > 1:
        raise ValueError(f"only one degree may be -1, not {' and '.join(free)}")
    product = math.prod(d for d in degrees.values() if d != -1)
    shape = dict(degrees)
    if free and size % product == 0:
        shape[free[0]] = size // product
    if math.prod(shape.values()) != size:
        asked = " x ".join(f"{axis}={degree}" for axis, degree in degrees.items())
        raise ValueError(
            f"{asked} does not make {size} rank{'s' if size > 1 else ''}: start as many as the degrees multiply to, "
            f"`mpirun -n {product} python ...` or `qdist run -n {product} ...`, or change the degrees"
        )
    return shape
