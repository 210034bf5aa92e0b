"""Launches that are made again and again with the same arguments, recorded as a CUDA graph: one launch replays them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Any

__all__ = ["Graphs"]

_MOST = 8
"""Graphs that are kept, of the keys that were used last."""


class Graphs:
    """Graphs by keys. A key says all that launches depend on but what the memory holds that they read, which stays
    where it is; no memory is allocated between them, and nothing waited for. One thread runs them at a time."""

    def __init__(self) -> None:
        self._kept: OrderedDict[Hashable, Any] = OrderedDict()
        self._last: tuple[Hashable, Any] | None = None  # The key and the graph that were replayed last.
        self._lock = Lock()

    def run(self, key: Hashable, launches: Callable[..., None], *arguments: Any) -> None:
        """What ``launches(*arguments)`` queues to the current stream. The first time it does so itself, and loads
        kernels."""
        with self._lock:
            last = self._last
            if last is not None and last[0] == key:
                last[1].launch()
                return
            if key not in self._kept:
                launches(*arguments)
                self._kept[key] = None
                if len(self._kept) > _MOST:
                    self._kept.popitem(last=False)
                return
            self._kept.move_to_end(key)
            graph = self._kept[key]
            if graph is None:
                graph = self._kept[key] = _recorded(launches, arguments)
            self._last = key, graph
            graph.launch()


def _recorded(launches: Callable[..., None], arguments: tuple[Any, ...]) -> Any:
    import cupy

    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.begin_capture()
        try:
            launches(*arguments)
        finally:
            graph = stream.end_capture()
    return graph
