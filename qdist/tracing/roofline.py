"""How near an event came to what the machine can do: the roofline of memory bandwidth and arithmetic, measured here.

Bandwidth is that of copying arrays as large as the shards, so that those in cache are held against the cache.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import Any

import numpy as np

from qdist.native import kernels
from qdist.plan.cost import Machine
from qdist.tracing.recorder import Event

__all__ = ["Roofline", "annotate", "measured", "sizes_of"]

_SMALLEST, _LARGEST = 1 << 16, 1 << 26
"""Bytes of the arrays that are copied: smaller ones measure the call, larger ones no longer differ."""
_ALONE = 1 << 20
"""Below, one thread copies, as one computes."""
_REPEATS = 10


class Roofline:
    """machines: for sizes of arrays, what the device does with them; the nearest larger one counts."""

    def __init__(self, machines: dict[int, Machine]) -> None:
        self._machines = dict(sorted(machines.items()))

    def machine(self, nbytes: float) -> Machine:
        """For arrays of so many bytes."""
        found = next((machine for size, machine in self._machines.items() if size >= nbytes), None)
        return found if found is not None else list(self._machines.values())[-1]

    def share(self, args: dict[str, Any], seconds: float) -> float | None:
        """The time that the work needs at least, over the time it took; None where there is no work to count."""
        nbytes, flops = args.get("bytes", 0), args.get("flops", 0)
        if seconds <= 0 or not (nbytes or flops):
            return None
        touched = args.get("touched", 1.0)
        dtype = np.dtype(np.complex128 if args.get("double") else np.complex64)
        return self.machine(nbytes / 2).seconds(touched * nbytes, touched * flops, dtype) / seconds


def sizes_of(events: Iterable[Event]) -> list[int]:
    """The sizes of arrays to measure, powers of two."""
    wanted = {min(max(int(e.args["bytes"]) // 2, _SMALLEST), _LARGEST) for e in events if e.args.get("bytes")}
    return sorted({1 << (size - 1).bit_length() for size in wanted} | {_LARGEST})


def measured(sizes: Sequence[int], device: int | None = None) -> Roofline:
    """Of this process's threads, or of a GPU: takes some tenths of a second."""
    single, double = (_flops(dtype, device) for dtype in ("float32", "float64"))
    return Roofline({size: Machine(_bandwidth(size, device), single, double) for size in sizes})


def annotate(events: Iterable[Event], host: Roofline, gpu: Roofline | None, one_node: bool) -> None:
    """Notes bytes, flops and the share of the roofline in every event.

    one_node: exchanges are then copies of memory at best; between nodes there is no figure to hold them against.
    """
    for event in events:
        args, seconds = event.args, (event.end - event.start) / 1e9
        roofline = gpu if event.category == "gpu" and gpu is not None else host
        work = args
        if event.category == "exchange" and one_node:
            work = {"bytes": 2 * args["sent"]}
        share = roofline.share(work, seconds)
        args.setdefault("bytes", args.get("sent", 0))
        args.setdefault("flops", 0)
        args["roofline"] = None if share is None else float(f"{share:.3g}")


def _best(run: Callable[[], object], device: int | None) -> float:
    seconds = []
    for _ in range(_REPEATS):
        if device is None:
            start = perf_counter()
            run()
            seconds.append(perf_counter() - start)
        else:
            cupy = sys.modules["cupy"]
            begin, end = cupy.cuda.Event(), cupy.cuda.Event()
            begin.record()
            run()
            end.record()
            end.synchronize()
            seconds.append(cupy.cuda.get_elapsed_time(begin, end) / 1e3)
    return max(min(seconds), 1e-9)


def _bandwidth(size: int, device: int | None) -> float:
    """Bytes read and written a second when an array of this size is copied."""
    if device is not None:
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(device):
            source, target = cupy.ones((2, size // 4), np.float32)
            return 2 * source.nbytes / _best(lambda: cupy.copyto(target, source), device)
    threads = kernels.max_threads() if size >= _ALONE else 1
    here, there = np.ones((2, size // 4), np.float32)
    parts = list(zip(np.array_split(there, threads), np.array_split(here, threads)))
    if threads == 1:
        return 2 * here.nbytes / _best(lambda: np.copyto(there, here), None)
    with ThreadPoolExecutor(threads) as pool:
        return 2 * here.nbytes / _best(lambda: list(pool.map(lambda part: np.copyto(*part), parts)), None)


def _flops(dtype: str, device: int | None) -> float:
    """Of a matrix product, a lower bound of the peak."""
    size = 512 if device is None else 4096
    if device is None:
        matrix = np.ones((size, size), dtype)
        return 2.0 * size**3 / _best(lambda: matrix @ matrix, None)
    cupy = sys.modules["cupy"]
    with cupy.cuda.Device(device):
        other = cupy.ones((size, size), dtype)
        return 2.0 * size**3 / _best(lambda: other @ other, device)
