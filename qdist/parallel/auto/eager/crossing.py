"""Tensors on some of the ranks: how they get from one set of ranks to another, and what the other ranks hold of them.

All ranks run the same program. A rank outside of a tensor's mesh follows along: it knows the global shape and holds a
placeholder, an empty array, in the place of its part. Every operation stands in its graph as in that of the members, so
that backward() meets the same crossings in the same order on every rank, and nobody waits for a message that is sent
later.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from qdist.comm import Communicator
from qdist.parallel.auto.placement.placements import Placement
from qdist.parallel.auto.placement.process_mesh import ProcessMesh
from qdist.tensor import Rule, Tensor, apply
from qdist.tensor.arrays import Array, module_of

__all__ = ["Spec", "SpecTable", "cross", "follow", "placeholder"]


def placeholder(like: Tensor) -> Tensor:
    """What a rank outside of a mesh holds in the place of its part of a tensor of this dtype; no gradient flows."""
    return Tensor(like._data.reshape(-1)[:0].copy())  # On the same device.


def cross(x: Tensor, comm: Communicator, senders: Sequence[int], receivers: Sequence[int], shape: Any) -> Tensor:
    """A whole tensor on its way to other ranks; gradients come back. Every rank of `comm` calls.

    Args:
        x: the tensor on the ranks that have it, the same on each; a placeholder elsewhere.
        senders, receivers: ranks of `comm`. Those in both send nothing to themselves.
        shape: of the tensor.

    Returns:
        The tensor on the receivers, a placeholder elsewhere.
    """
    return apply(_CROSS, x, comm=comm, senders=tuple(senders), receivers=tuple(receivers), shape=tuple(shape))


def _carry(
    xp: Any, x: Array, comm: Communicator, senders: tuple[int, ...], receivers: tuple[int, ...], shape: Any
) -> Array:
    waiting = [rank for rank in receivers if rank not in senders]
    # Who sends to whom: the senders in turn.
    source = {rank: senders[i % len(senders)] for i, rank in enumerate(waiting)}
    if comm.rank in senders:
        whole = xp.ascontiguousarray(x)  # The gradient of one number may be no array.
        for work in [comm.isend(whole, rank) for rank in waiting if source[rank] == comm.rank]:
            work.wait()
        return x if comm.rank in receivers else xp.empty(0, x.dtype)
    if comm.rank in receivers:
        return comm.recv(xp.empty(shape, x.dtype), source[comm.rank])
    return x


def _cross(xp: Any, x: Array, comm: Any, senders: Any, receivers: Any, shape: Any) -> Any:
    return _carry(xp, x, comm, senders, receivers, shape), ()


def _cross_vjp(xp: Any, g: Array, saved: Any, needs: Any, comm: Any, senders: Any, receivers: Any, shape: Any) -> Any:
    return (_carry(xp, g, comm, receivers, senders, shape),)


_CROSS = Rule("cross", _cross, _cross_vjp, view=True)


class Spec(NamedTuple):
    """What ranks outside of a mesh know of a result."""

    shape: tuple[int, ...]
    dtype: str
    placements: tuple[Placement, ...]


class SpecTable:
    """What operations give on the ranks of a mesh, for the other ranks of its communicator.

    The first rank of the mesh tells the others, once for every kind of operation and inputs; what depends on anything
    but shapes is told each time.
    """

    def __init__(self) -> None:
        self._known: dict[Any, list[Spec]] = {}

    def share(self, mesh: ProcessMesh, key: Any, own: list[Spec] | Exception | None) -> list[Spec]:
        """The specs of an operation's results on every rank. own: this rank's; None outside of the mesh.

        Raises RuntimeError outside of the mesh where the operation failed.
        """
        hashable = _is_plain(key)
        if hashable and (mesh, key) in self._known:
            if isinstance(own, Exception):
                raise own
            return self._known[mesh, key]
        told: Any = f"{type(own).__name__}: {own}" if isinstance(own, Exception) else own
        root = int(mesh.ranks.flat[0])
        told = mesh.comm.broadcast_object(told, root)
        if isinstance(own, Exception):
            raise own
        if isinstance(told, str):
            raise RuntimeError(f"rank {root} failed in an operation on {mesh}: {told}")
        if hashable:
            self._known[mesh, key] = told
        return told


def _is_plain(value: Any) -> bool:
    """Whether a value is made of numbers and words alone, so that it is equal on all ranks or on none."""
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (int, float, complex, str, bool, np.dtype, Placement))


def follow(inputs: Sequence[Tensor], specs: Sequence[Spec], like: Tensor) -> list[Tensor]:
    """Placeholders for what an operation gives on other ranks.

    inputs: the placeholders of those inputs that get gradients; they have this operation in their graph.
    """
    dtypes = tuple(spec.dtype for spec in specs)
    if not inputs:
        return [Tensor(module_of(like._data).empty(0, dtype)) for dtype in dtypes]
    made = apply(_FOLLOW, *inputs, dtypes=dtypes)
    return list(made) if isinstance(made, tuple) else [made]


def _follow(xp: Any, *inputs: Array, dtypes: tuple[str, ...]) -> Any:
    made = [xp.empty(0, dtype) for dtype in dtypes]
    return made[0] if len(made) == 1 else made, tuple(x.dtype.str for x in inputs)


def _follow_vjp(xp: Any, g: Any, saved: Any, needs: Any, dtypes: tuple[str, ...]) -> Any:
    return tuple(xp.empty(0, dtype) for dtype in saved)


_FOLLOW = Rule("follow", _follow, _follow_vjp)
