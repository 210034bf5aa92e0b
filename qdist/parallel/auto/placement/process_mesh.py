"""ProcessMesh: any ranks on a grid with named axes, one communicator an axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from qdist.comm import Communicator, world

__all__ = ["ProcessMesh"]


class ProcessMesh:
    """Ranks on a grid: ``ProcessMesh([[0, 1], [2, 3]], dim_names=["dp", "mp"])``.

    Unlike `comm.Mesh` it may hold some of the ranks only, in any order. Making it, and what is done with tensors on it,
    is for all ranks of `comm`: those outside follow along, know shapes, and get numbers that are asked for. A mesh that
    the other ranks are to know nothing of is made with a communicator of its members.

    Args:
        ranks: (nested) list or array of ranks of `comm`, each once.
        dim_names: one name an axis; "d0", "d1" ... when not given.
        comm: the world when not given.

    Raises:
        ValueError: for ranks that do not exist or stand there twice, or names that do not fit.
    """

    takes_first = False
    """Whether tensors of which its ranks have different values are the first rank's, with a warning: an error here."""

    def __init__(self, ranks: Any, dim_names: Sequence[str] | None = None, comm: Communicator | None = None) -> None:
        self.comm = world() if comm is None else comm
        self.ranks = np.asarray(ranks, np.int64)
        _check(self.ranks, dim_names, self.comm.size)
        self.dim_names = tuple(dim_names or (f"d{i}" for i in range(self.ranks.ndim)))
        self.shape: tuple[int, ...] = self.ranks.shape
        found = np.argwhere(self.ranks == self.comm.rank)
        self.coordinates: tuple[int, ...] | None = tuple(int(i) for i in found[0]) if len(found) else None
        """This rank's place on each axis; None for a rank outside of the mesh."""
        self._groups = [self._connect(axis) for axis in range(self.ranks.ndim)]
        self._rows: dict[int, ProcessMesh] = {}
        self.compared: WeakValueDictionary[int, Any] = WeakValueDictionary()
        """Parameters, by id, that its ranks have found to be the same on all of them."""
        self.met = 0
        """How many plain tensors came to it; now and then its ranks compare one (see eager.same_value)."""
        self.differed = False
        """Whether they had different values of one; see `takes_first`."""
        self.row: int | None = None
        """Which row of another mesh it is, when it was made as one: the number of a pipeline stage."""
        self.parent: ProcessMesh | None = None
        """That other mesh."""

    @property
    def size(self) -> int:
        """How many ranks it holds."""
        return self.ranks.size

    @property
    def partial(self) -> bool:
        """Whether some ranks of its communicator are outside of it."""
        return self.size < self.comm.size

    @property
    def members(self) -> tuple[int, ...]:
        """Its ranks, in order of the grid."""
        return tuple(int(rank) for rank in self.ranks.flat)

    def group(self, axis: int) -> Communicator:
        """The communicator of the ranks that differ from this one on `axis` alone."""
        comm = self._groups[axis]
        if comm is None:
            raise RuntimeError(f"rank {self.comm.rank} is not in {self}; only its members communicate over it")
        return comm

    def place(self) -> tuple[int, ...]:
        """This rank's coordinates; RuntimeError for a rank outside of the mesh."""
        if self.coordinates is None:
            raise RuntimeError(f"rank {self.comm.rank} is not in {self}")
        return self.coordinates

    def __getitem__(self, index: int) -> ProcessMesh:
        """Row `index` along the first axis: one pipeline stage of a ("pp", ...) mesh. Collective when first asked for;
        a mesh of one axis gives a mesh of one rank."""
        if not 0 <= index < self.shape[0]:
            raise IndexError(f"row {index} of a mesh whose first axis, {self.dim_names[0]!r}, has {self.shape[0]}")
        if index not in self._rows:
            ranks = np.atleast_1d(self.ranks[index])
            names = self.dim_names[1:] or self.dim_names
            self._rows[index] = type(self)(ranks, names, self.comm)
            self._rows[index].row, self._rows[index].parent = index, self
        return self._rows[index]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ProcessMesh)
            and self.comm is other.comm
            and self.dim_names == other.dim_names
            and np.array_equal(self.ranks, other.ranks)
        )

    def __hash__(self) -> int:
        return hash((self.dim_names, self.ranks.tobytes(), self.shape))

    def __repr__(self) -> str:
        axes = ", ".join(f"{name}={degree}" for name, degree in zip(self.dim_names, self.shape))
        return f"ProcessMesh({axes}, ranks={self.ranks.tolist()})"

    def _connect(self, axis: int) -> Communicator | None:
        rows = np.moveaxis(self.ranks, axis, -1).reshape(-1, self.shape[axis])
        return self.comm.split(rows.tolist(), name=self.dim_names[axis])


def _check(ranks: np.ndarray, dim_names: Sequence[str] | None, size: int) -> None:
    if ranks.ndim == 0 or ranks.size == 0:
        raise ValueError(f"a mesh needs a list of ranks, got {ranks.tolist()}")
    if dim_names is not None and (len(dim_names) != ranks.ndim or len(set(dim_names)) < ranks.ndim):
        raise ValueError(f"dim_names={list(dim_names)}: {ranks.ndim} different names are needed, one an axis")
    if len(np.unique(ranks)) < ranks.size or ranks.min() < 0:
        raise ValueError(f"ranks {ranks.tolist()}: each rank once, from 0 on")
    if ranks.max() >= size:
        start = ranks.max() + 1
        raise ValueError(
            f"a mesh of ranks {ranks.tolist()} needs {start} ranks, {size} run: start as many, "
            f"`mpirun -n {start} python ...` or `qdist run -n {start} ...`, or take ranks within 0..{size - 1}"
        )
