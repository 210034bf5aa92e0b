"""Tables of positions: parameters and buffers with one row a position, of which a rank sees its positions' rows.

The whole parameter stays the one that is listed, trained and saved. Whoever reads the attribute during a pass over a
divided sequence, the module itself or another that holds it, gets the rows of this rank's positions, in its order:
`x + self.table`, `x + self.table[:length]` and `self.embedding(np.arange(length))` are right without a change.
"""

from __future__ import annotations

from typing import Any

from qdist.comm import Communicator
from qdist.nn import Module
from qdist.parallel.collectives import copy, slice_of
from qdist.parallel.sequence.watch import mark
from qdist.tensor import Tensor
from qdist.tensor.random import place

__all__ = ["show_own_rows"]


def show_own_rows(module: Module, name: str, tensor: Communicator | None) -> None:
    """Has a module's parameter or buffer be seen as the rows of this rank's positions, in passes that are `placed`.

    tensor: the ranks that divide the sequence in slices as well, or None.
    """
    own = vars(type(module)).get("_own_rows")
    if own is None:
        # A class of its own: an attribute of the class is asked before those of the instance.
        module.__class__ = type(type(module).__name__, (type(module),), {"_own_rows": {}})
        own = vars(type(module))["_own_rows"]
    own[name] = tensor
    setattr(type(module), name, property(lambda self: _read(self, name), lambda self, value: _write(self, name, value)))


def _write(module: Module, name: str, value: Any) -> None:
    module.__dict__[name] = value


def _read(module: Any, name: str) -> Any:
    whole, where = module.__dict__[name], place()
    if where is None or where.positions is None or whole is None:
        return whole
    tensor, positions = module._own_rows[name], where.positions
    axis = next((i for i, length in enumerate(whole.shape) if length > 1), 0)
    if positions.max() >= whole.shape[axis]:
        raise ValueError(
            f"{name} has {whole.shape[axis]} positions, and the sequence has {int(positions.max()) + 1} or more: take "
            "a longer table, or shorter sequences"
        )
    if tensor is not None:
        # Ranks of "tp" have gradients of different rows, which are added up; those of "cp" are averaged with the
        # batch's.
        whole, positions = copy(whole, tensor), slice_of(positions, tensor.rank, tensor.size, 0)
    part: Tensor = whole[(slice(None),) * axis + (Tensor(positions, device=whole.device),)]
    mark(part, axis)
    return part
