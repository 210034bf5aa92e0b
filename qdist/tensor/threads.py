"""Elementwise work on several cores.

NumPy runs an elementwise loop on one core but lets go of the interpreter while it does, so plain threads over
blocks of rows use the others. Blocks are small enough to stay in a core's cache from one pass to the next.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from threading import Lock
from typing import Any

import numpy as np

from qdist.native.asked_threads import asked_threads
from qdist.native.core_share import core_share

# Elements a block: three float32 work arrays of this length fit in a 1 MiB L2 cache.
BLOCK = 32768

_MOST = 1024
"""Threads that the native kernels take."""

_pool: ThreadPoolExecutor | None = None
_threads: int | None = None
_pool_lock = Lock()


def num_threads() -> int:
    """Threads of tensors' kernels: set_num_threads, else OMP_NUM_THREADS, else the usable cores, which the ranks of a
    node share."""
    return _threads or _at_start() or core_share() or _cores()


@cache
def _cores() -> int:
    return len(os.sched_getaffinity(0))


@cache
def _at_start() -> int:
    """What OMP_NUM_THREADS asks for; 0 without."""
    return min(asked_threads(), _MOST)


def set_num_threads(count: int) -> None:
    """Use `count` threads for elementwise kernels and, where this package has a kernel for them, products of float32;
    ``qdist.set_num_threads`` sets those of the BLAS library too."""
    global _threads, _pool
    if not 1 <= count <= _MOST:
        raise ValueError(f"set_num_threads({count}): at least 1 thread is needed, and {_MOST} are the most")
    with _pool_lock:
        old, _pool, _threads = _pool, None, count
        if old is not None:
            old.shutdown()


def _forget_pool() -> None:
    global _pool, _pool_lock
    _pool, _pool_lock = None, Lock()


# A forked child has the pool object but none of its threads.
os.register_at_fork(after_in_child=_forget_pool)


def over_rows(xp: Any, work: Callable[[int, int], None], rows: int, width: int) -> None:
    """Call work(start, stop) over all `rows` of `width` elements each, in cache-sized blocks, on all threads.

    `work` must write to disjoint places for disjoint blocks. On a GPU it is called once, for everything.
    """
    step = max(1, BLOCK // max(width, 1))
    count = min(num_threads(), -(-rows // step))
    if xp is not np:
        work(0, rows)
        return

    def share(first: int, last: int) -> None:
        for start in range(first, last, step):
            work(start, min(start + step, last))

    if count <= 1:
        share(0, rows)
        return
    bounds = [rows * i // count for i in range(count + 1)]
    others = _submitted([(share, bounds[i], bounds[i + 1]) for i in range(1, count)])
    share(bounds[0], bounds[1])
    for other in others:
        other.result()


def _submitted(calls: Sequence[tuple[Any, ...]]) -> list[Future[None]]:
    """The calls, under way on the pool, which nobody shuts down in between."""
    global _pool
    with _pool_lock:
        if _pool is None:
            _pool = ThreadPoolExecutor(max(1, num_threads() - 1), thread_name_prefix="qdist-tensor")
        return [_pool.submit(*call) for call in calls]
