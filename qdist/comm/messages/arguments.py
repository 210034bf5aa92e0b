"""What callers of a Communicator may get wrong, refused before anything is sent."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from qdist.comm.messages.arrays import Array, as_input, as_output, check_movable, copy_if_overlapping, is_cupy
from qdist.comm.messages.group import Group

__all__ = ["array", "counts", "group", "peer", "rank", "receiver", "rows", "trade", "whole"]


def whole(what: str, number: Any) -> int:
    """The number as an int. Raises TypeError for what is no whole number."""
    if type(number) is int:
        return number
    try:
        return operator.index(number)
    except TypeError:
        raise TypeError(f"{what}={number!r}: a whole number") from None


def rank(comm: Group, what: str, number: int) -> None:
    """Raises ValueError unless ``number`` is a rank of ``comm``."""
    if not 0 <= whole(what, number) < comm.size:
        raise ValueError(f"{what}={number} is not a rank of {comm.name!r}: ranks are 0 to {comm.size - 1}")


def peer(comm: Group, what: str, number: int, tag: int) -> None:
    """Raises ValueError unless a message can go to or come from this rank with this tag."""
    rank(comm, what, number)
    if not 0 <= whole("tag", tag) < 1 << 31:
        raise ValueError(f"tag={tag}: tags are 0 to 2**31 - 1, or to what the MPI library has room for")


def array(name: str, out: Any) -> None:
    """Raises TypeError unless ``out`` is a NumPy or CuPy array."""
    if type(out) is not np.ndarray and not is_cupy(out):
        raise TypeError(f"{name} must be a NumPy or CuPy array, not {type(out).__name__}")


def receiver(comm: Group, out: Any, source: int, tag: int) -> tuple[Array, Array]:
    """Where a message may be written, and what the user gets; as ``as_output``."""
    peer(comm, "source", source, tag)
    array("out", out)
    check_movable(out.dtype)
    target, result = as_output(out, out.shape, out.dtype, out)
    if not out.dtype.isnative:
        target = np.empty(out.shape, out.dtype.newbyteorder("="))  # Messages travel in this machine's byte order.
    if target is not result:
        target[...] = result  # A shorter message leaves the rest as it was.
    return target, result


def trade(comm: Group, x: Any, dest: int, out: Any, source: int, tag: int) -> tuple[Array, Array, Array]:
    """What is sent (a copy where it overlaps what comes), where a message may be written, and what the user gets."""
    x = as_input(x)
    peer(comm, "dest", dest, tag)
    target, result = receiver(comm, out, source, tag)
    if is_cupy(x) != is_cupy(target):
        raise TypeError("sendrecv takes two NumPy arrays or two CuPy arrays, not one of each")
    return copy_if_overlapping(x, target), target, result


def rows(comm: Group, op: str, x: Array) -> None:
    """Raises ValueError unless ``x`` has one row a rank."""
    if x.ndim == 0 or x.shape[0] != comm.size:
        raise ValueError(
            f"{op} takes one row a rank: the first axis must have length {comm.size}, the input has shape {x.shape}"
        )


def counts(
    comm: Group, x: Array, send_counts: Sequence[int] | None, recv_counts: Sequence[int] | None
) -> tuple[list[int], list[int]]:
    """The counts of a ragged all_to_all as lists. Raises TypeError or ValueError when they do not fit ``x``."""
    if send_counts is None or recv_counts is None:
        raise TypeError("ragged all_to_all takes both send_counts and recv_counts")
    if x.ndim != 1:
        raise ValueError(f"ragged all_to_all takes a flat array, not one of shape {x.shape}")
    sends, receives = [int(c) for c in send_counts], [int(c) for c in recv_counts]
    for what, numbers in (("send_counts", sends), ("recv_counts", receives)):
        if len(numbers) != comm.size or min(numbers) < 0:
            raise ValueError(f"{what}={numbers} must hold {comm.size} numbers that are not negative")
    if sum(sends) != x.size:
        raise ValueError(f"send_counts add up to {sum(sends)}, the input has {x.size} elements")
    if sends[comm.rank] != receives[comm.rank]:
        raise ValueError(f"rank {comm.rank} sends itself {sends[comm.rank]} elements but expects {receives[comm.rank]}")
    return sends, receives


def group(comm: Group, ranks: Sequence[int]) -> None:
    """Raises ValueError unless ``ranks`` can make a group."""
    if len(ranks) == 0 or len(set(ranks)) != len(ranks):
        raise ValueError(f"a group needs ranks, each once: {list(ranks)}")
    for number in ranks:
        rank(comm, "group rank", number)
