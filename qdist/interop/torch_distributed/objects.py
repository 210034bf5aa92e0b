"""Collectives of Python objects in torch.distributed's forms.

Objects are pickled, and unpickling runs what its sender wants: so they go between ranks of the job alone, processes
that an MPI launcher started or that have proven to know its secret (`qdist.comm.messages.objects`), and never through
a store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .collectives import Group, member
from .process_group import rank_in

__all__ = ["all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"]


def all_gather_object(object_list: list[Any], obj: Any, group: Group = None) -> None:
    """Every rank's object, in every rank's list, which has an entry a rank."""
    comm = member(group, "all_gather_object")
    if comm is not None:
        _fill("all_gather_object", object_list, comm.all_gather_object(obj))


def broadcast_object_list(object_list: list[Any], src: int = 0, group: Group = None) -> None:
    """The objects of ``src``'s list, in every rank's list, which has as many."""
    comm = member(group, "broadcast_object_list")
    if comm is not None:
        root = rank_in(comm, src)
        given = comm.broadcast_object(list(object_list) if comm.rank == root else None, root)
        _fill("broadcast_object_list", object_list, given)


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0, group: Group = None) -> None:
    """Every rank's object, in the list of ``dst``; the others give none."""
    comm = member(group, "gather_object")
    if comm is None:
        return
    root = rank_in(comm, dst)
    if comm.rank != root and object_gather_list:
        raise ValueError(f"object_gather_list is for rank {dst}, which gathers: leave it out elsewhere")
    found = comm.gather_object(obj, root)
    if found is not None:
        _fill("gather_object", object_gather_list or [], found)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: Sequence[Any] | None = None,
    src: int = 0,
    group: Group = None,
) -> None:
    """Entry i of ``src``'s list, as the first entry of rank i's output list; the others' inputs are not looked at."""
    comm = member(group, "scatter_object_list")
    if comm is None:
        return
    root = rank_in(comm, src)
    given = comm.broadcast_object(list(scatter_object_input_list or ()) if comm.rank == root else None, root)
    if len(given) != comm.size or not scatter_object_output_list:
        raise ValueError(
            f"scatter_object_list: rank {src} gives {len(given)} objects to {comm.size} ranks, of which each has a "
            f"list with a place for one; this has {len(scatter_object_output_list)}"
        )
    scatter_object_output_list[0] = given[comm.rank]


def _fill(call: str, places: list[Any], found: Sequence[Any]) -> None:
    if len(places) != len(found):
        raise ValueError(f"{call}: {len(found)} objects come for a list of {len(places)}")
    places[:] = found
