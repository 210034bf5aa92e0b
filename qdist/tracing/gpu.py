"""Times of kernels on a GPU: pairs of CUDA events, which are read when the trace ends."""

from __future__ import annotations

import sys
import time
from typing import Any

from qdist.tracing.recorder import Recorder

__all__ = ["GpuClock"]


class GpuClock:
    """Marks on the current stream of each GPU. To place them on the host's clock, each GPU has a first mark whose time
    on the host is known, because it was waited for."""

    def __init__(self) -> None:
        self._first: dict[int, tuple[Any, int]] = {}
        self._pairs: list[tuple[int, str, Any, Any, dict[str, Any]]] = []

    def mark(self) -> Any:
        """A CUDA event on the current stream of the current device, reached when the kernels before it are done."""
        cupy = sys.modules["cupy"]
        device = cupy.cuda.runtime.getDevice()
        if device not in self._first:
            first = cupy.cuda.Event()
            first.record()
            first.synchronize()
            self._first[device] = first, time.perf_counter_ns()
        event = cupy.cuda.Event()
        event.record()
        return device, event

    def note(self, name: str, begin: Any, end: Any, args: dict[str, Any]) -> None:
        """What lies between two marks."""
        self._pairs.append((begin[0], name, begin[1], end[1], args))

    def collect(self, recorder: Recorder) -> None:
        """Waits for the marks, and adds what is between them as events of category gpu; thread -1 - device."""
        for device, name, begin, end, args in self._pairs:
            cupy = sys.modules["cupy"]
            end.synchronize()
            first, at = self._first[device]
            start, stop = (at + round(1e6 * cupy.cuda.get_elapsed_time(first, mark)) for mark in (begin, end))
            recorder.add(name, "gpu", start, max(start, stop), args, thread=-1 - device)
        self._pairs.clear()
