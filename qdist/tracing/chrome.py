"""Events of all ranks in Chrome's trace format, which Perfetto and chrome://tracing open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from qdist.tracing.recorder import Event

__all__ = ["document"]

_INTERNAL = ("enters", "waits", "number")


def document(
    events: Mapping[int, Sequence[Event]], hosts: Mapping[int, str], other: Mapping[str, Any]
) -> dict[str, Any]:
    """The JSON object: a process a rank, a thread a thread, and one for each GPU. Times are microseconds from the first
    event on.

    other: what else the file tells.
    """
    begin = min((event.start for own in events.values() for event in own), default=0)
    found: list[dict[str, Any]] = []
    for rank, own in sorted(events.items()):
        found.append(_named("process_name", rank, 0, f"rank {rank} on {hosts[rank]}"))
        found.append({"name": "process_sort_index", "ph": "M", "pid": rank, "tid": 0, "args": {"sort_index": rank}})
        threads = _threads(own)
        for thread, number in threads.items():
            name = f"GPU {-1 - thread}" if thread < 0 else "main thread" if number == 0 else f"thread {number}"
            found.append(_named("thread_name", rank, number, name))
        for event in own:
            found.append(
                {
                    "name": event.name,
                    "cat": event.category,
                    "ph": "X",
                    "ts": (event.start - begin) / 1e3,
                    "dur": (event.end - event.start) / 1e3,
                    "pid": rank,
                    "tid": threads[event.thread],
                    "args": {key: value for key, value in event.args.items() if key not in _INTERNAL},
                }
            )
    return {"traceEvents": found, "displayTimeUnit": "ms", "otherData": dict(other)}


def _threads(events: Sequence[Event]) -> dict[int, int]:
    """Small numbers for threads, in the order in which they came; GPUs behind them."""
    seen = dict.fromkeys(event.thread for event in sorted(events, key=lambda event: event.start))
    ordered = [t for t in seen if t >= 0] + sorted((t for t in seen if t < 0), reverse=True)
    return {thread: number for number, thread in enumerate(ordered)}


def _named(what: str, rank: int, thread: int, name: str) -> dict[str, Any]:
    return {"name": what, "ph": "M", "pid": rank, "tid": thread, "args": {"name": name}}
