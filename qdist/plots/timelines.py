"""A trace as a picture: a row for every rank, a bar for every event, nested events below the ones around them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .figures import new_figure

__all__ = ["plot_trace"]

_COLOURS = {
    "run": "#dddddd",
    "plan": "#b39ddb",
    "bind": "#ffd54f",
    "stage": "#4caf50",
    "measure": "#26a69a",
    "exchange": "#cfd8dc",
    "pack": "#42a5f5",
    "message": "#7986cb",
    "wait": "#e53935",
    "train": "#ff8a65",
    "file": "#8d6e63",
    "gpu": "#2e7d32",
}
"""Of the kinds of events."""


def plot_trace(trace: str | Path | Mapping[str, Any], *, begin: float = 0.0, end: float | None = None) -> Any:
    """The timeline of all ranks in a file that `qdist.trace` or `qdist trace` wrote; a matplotlib Figure.

    trace: the file, or what is in it. begin, end: the part to draw, in seconds from the first event on; all by default.

    Raises ValueError for what is no trace, or has no event in that part; ImportError without matplotlib.
    """
    found = trace if isinstance(trace, Mapping) else json.loads(Path(trace).read_text())
    if not isinstance(found, Mapping) or not isinstance(found.get("traceEvents"), list):
        raise ValueError(f"no trace: {str(trace)[:80]} has no list of traceEvents")
    until = float("inf") if end is None else end
    events = [
        event
        for event in found["traceEvents"]
        if event["ph"] == "X" and event["ts"] / 1e6 < until and (event["ts"] + event["dur"]) / 1e6 > begin
    ]
    if not events:
        part = f"from {begin:g} s " + ("on" if end is None else f"to {end:g} s")
        raise ValueError(f"the trace has no event {part}")
    rows = _rows(events)
    figure = new_figure(10.0, 1.2 + 0.28 * sum(rows.values()))
    axes = figure.add_subplot()
    top, places = 0, {}
    for track, depth in rows.items():
        places[track] = top
        top += depth
    used = []
    for category in _COLOURS:
        own = [event for event in events if event["cat"] == category]
        if own:
            used.append(category)
        for event in own:
            at = places[event["pid"], event["tid"]] + event["depth"]
            span = (event["ts"] / 1e3, event["dur"] / 1e3)
            axes.broken_barh([span], (at + 0.08, 0.84), color=_COLOURS[category], linewidth=0)
    labels = _names(found["traceEvents"])
    axes.set_yticks([places[track] + rows[track] / 2 for track in rows], [labels(*track) for track in rows])
    for place in list(places.values())[1:]:
        axes.axhline(place, color="0.7", lw=0.6)
    axes.set(ylim=(top, 0), xlabel="milliseconds")
    handles = [axes.scatter([], [], color=_COLOURS[category], marker="s", label=category) for category in used]
    figure.legend(handles=handles, loc="outside upper center", ncols=len(used), frameon=False)
    for event in events:
        del event["depth"]
    return figure


def _rows(events: list[dict[str, Any]]) -> dict[tuple[int, int], int]:
    """How deep events are nested on each (rank, thread); notes each one's own depth."""
    rows: dict[tuple[int, int], int] = {}
    ends: dict[tuple[int, int], list[float]] = {}
    for event in sorted(events, key=lambda e: (e["pid"], e["tid"], e["ts"], -e["dur"])):
        track = event["pid"], event["tid"]
        stack = ends.setdefault(track, [])
        while stack and stack[-1] <= event["ts"]:
            stack.pop()
        event["depth"] = len(stack)
        stack.append(event["ts"] + event["dur"])
        rows[track] = max(rows.get(track, 0), len(stack))
    return rows


def _names(events: list[dict[str, Any]]) -> Any:
    """The label of a track: its rank, and its thread where that is not the first."""
    threads = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    return lambda rank, thread: f"rank {rank}" + (f", {threads[rank, thread]}" if thread else "")
