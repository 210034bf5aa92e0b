"""What the ranks of a mesh tell each other when a batch comes: whether they are at the same step, with the right rows.

Ranks that differ along "dp" bring different rows, all others the same ones. Who brings others, or has left out a step,
would go on for long with numbers that mean nothing: it is told here, before anything is computed.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from qdist.comm import Mesh
from qdist.tensor import Tensor
from qdist.tensor.arrays import Array, is_array
from qdist.tensor.versions import digest

__all__ = ["Agreed", "agree_on_batch", "first_array"]

CALLS = ("backward", "eval_batch", "predict")


class Agreed(NamedTuple):
    """What all ranks know of a batch."""

    rows: tuple[int, int, int]
    """(first, behind the last, all): the rows of this rank's part of the batch."""
    held: list[int]
    """The rows of each place along "dp"."""
    state: dict[str, Any]
    """Of the first rank's random generator."""


def agree_on_batch(
    mesh: Mesh, call: str, batches: int, steps: int, inputs: Any, targets: Any, rows: int, state: dict[str, Any]
) -> Agreed:
    """Compares what the ranks are about to do. 80 bytes a rank travel. Collective over the mesh.

    Args:
        call: one of CALLS.
        batches, steps: how many backward passes and steps this rank has made so far.
        inputs, targets: of this rank.
        rows: how many rows they have.
        state: of this rank's random generator.

    Raises ValueError, on every rank, where they do not go together.
    """
    place = mesh.coordinates.get("dp", 0)
    mine = np.array([1 + CALLS.index(call), batches, steps, place, rows, _digest((inputs, targets))], np.uint64)
    table = mesh.comm.all_gather(np.array([*mine, *state["key"], state["draw"]], np.uint64))
    # A communicator that only counts has nobody else there, and zeros in their places.
    entries = {rank: entry for rank, entry in enumerate(table.tolist()) if entry[0]}
    zero = next(iter(entries))
    for rank, entry in entries.items():
        if entry[0] != entries[zero][0]:
            raise ValueError(
                f"rank {rank} calls {CALLS[entry[0] - 1]}, rank {zero} calls {CALLS[entries[zero][0] - 1]}: all "
                "ranks of a mesh call the same, in the same order"
            )
        for i, what in ((1, "backward passes"), (2, "steps")):
            if entry[i] != entries[zero][i]:
                raise ValueError(
                    f"rank {rank} has made {entry[i]} {what}, rank {zero} {entries[zero][i]}: one of them has left "
                    "some out; all ranks of a mesh call the same methods, also where they have nothing to add"
                )
    first: dict[int, int] = {}
    for rank, entry in entries.items():
        other = first.setdefault(entry[3], rank)
        if entry[4:6] != entries[other][4:6]:
            raise ValueError(_other_rows(mesh, rank, other, entry[4], entries[other][4]))
    held = [entries[first[along]][4] if along in first else 0 for along in range(mesh.shape.get("dp", 1))]
    start = sum(held[:place])
    *_, key_first, key_second, draw = entries[zero]
    return Agreed((start, start + rows, sum(held)), held, {"key": [key_first, key_second], "draw": draw})


def _other_rows(mesh: Mesh, rank: int, other: int, rows: int, others: int) -> str:
    same = " or ".join(repr(axis) for axis, degree in mesh.shape.items() if axis != "dp" and degree > 1)
    shared = (
        'share_rows(batch, mesh["dp"]), DataLoader(..., ranks=mesh["dp"]) and DistributedSampler(data, mesh["dp"]) '
        "give them, with the ranks of 'dp' and not with all ranks"
        if mesh.shape.get("dp", 1) > 1
        else "the mesh has no axis 'dp', so every rank takes the whole batch, without share_rows or a sampler for ranks"
    )
    counts = f" ({rows} rows, and {others} there)" if rows != others else ""
    return (
        f"rank {rank} is given another batch than rank {other}{counts}, and ranks that differ along {same} work on the "
        f"same rows: {shared}; if they are the same, one of the two has left out a step, or draws its data from "
        "another seed"
    )


def _digest(batch: Any) -> int:
    arrays = [(array.shape, str(array.dtype), digest(array)) for array in _arrays(batch)]
    return zlib.crc32(repr(arrays).encode())


def _arrays(batch: Any) -> Iterator[Any]:
    if isinstance(batch, Tensor):
        yield batch._data
    elif is_array(batch):
        yield batch
    elif isinstance(batch, (tuple, list)):
        for part in batch:
            yield from _arrays(part)
    elif batch is not None:
        yield np.asarray(batch)


def first_array(given: Any) -> Array:
    """The first array of a batch. Raises TypeError for what has no rows."""
    first = given[0] if isinstance(given, tuple) else given
    array = first.data if isinstance(first, Tensor) else first
    if not is_array(array) or array.ndim == 0:
        raise TypeError(f"a batch is an array or a Tensor with rows, not {type(first).__name__}")
    return array
