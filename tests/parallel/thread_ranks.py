"""Ranks that are threads of one process: the collectives that resharding uses, so that property tests need no MPI."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


class _Room:
    """Where the ranks of one group put what they bring."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size)
        self.brought: list[Any] = [None] * size


class ThreadComm:
    """Rank `rank` of a group of threads, with the methods of a Communicator that auto parallelism calls."""

    def __init__(self, rank: int, size: int, room: _Room, group: tuple[int, ...], rooms: dict, sent: list) -> None:
        self.rank, self.size, self.group = rank, size, group
        self._room, self._rooms, self.sent = room, rooms, sent
        self._splits = 0

    def _exchange(self, x: Any) -> list[Any]:
        """Everybody's x, on everybody."""
        self._room.brought[self.rank] = x
        self._room.barrier.wait(60)
        everything = list(self._room.brought)
        self._room.barrier.wait(60)
        return everything

    def all_reduce(self, x: Any, op: str = "sum") -> np.ndarray:
        self.sent.append(("all_reduce", self.group, x.shape))
        return getattr(np, op)(self._exchange(x), axis=0)

    def all_gather(self, x: Any) -> np.ndarray:
        self.sent.append(("all_gather", self.group, x.shape))
        return np.stack(self._exchange(x))

    def reduce_scatter(self, x: Any) -> np.ndarray:
        self.sent.append(("reduce_scatter", self.group, x.shape))
        return sum(row[self.rank] for row in self._exchange(x))

    def all_to_all(self, x: Any, send_counts: Sequence[int], recv_counts: Sequence[int]) -> np.ndarray:
        self.sent.append(("all_to_all", self.group, x.shape))
        parts = []
        for flat, counts in self._exchange((x, send_counts)):
            start = sum(counts[: self.rank])
            parts.append(flat[start : start + counts[self.rank]])
        assert [len(p) for p in parts] == list(recv_counts)
        return np.concatenate(parts)

    def split(self, groups: Sequence[Sequence[int]], name: str | None = None) -> ThreadComm | None:
        self._splits += 1
        for ranks in groups:
            if self.rank in ranks:
                key = self.group, self._splits, tuple(ranks)
                room = self._rooms.setdefault(key, _Room(len(ranks)))
                group = tuple(self.group[r] for r in ranks)
                return ThreadComm(list(ranks).index(self.rank), len(ranks), room, group, self._rooms, self.sent)
        return None


def on_threads(size: int, work: Callable[[ThreadComm], Any]) -> list[Any]:
    """work(comm) on `size` ranks at once; their results. The first exception of a rank is raised here."""
    world, rooms = _Room(size), {}
    results: list[Any] = [None] * size
    errors: list[BaseException] = []

    def run(rank: int) -> None:
        try:
            results[rank] = work(ThreadComm(rank, size, world, tuple(range(size)), rooms, []))
        except BaseException as error:
            errors.append(error)
            for room in [world, *rooms.values()]:
                room.barrier.abort()

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    real = [e for e in errors if not isinstance(e, threading.BrokenBarrierError)]
    if real or errors:
        raise (real or errors)[0]
    return results
