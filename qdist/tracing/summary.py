"""The table at the end of a trace: where each rank's time went, and for whom it waited."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from qdist.tracing.recorder import Event

__all__ = ["self_seconds", "summary"]

_COLUMNS = {
    "planning": ("plan",),
    "bind": ("bind",),
    "stages": ("stage",),
    "measuring": ("measure",),
    "packing": ("pack",),
    "messages": ("message", "wait", "exchange"),
}
_NOTABLE = 0.05
"""Share of a rank's time from which a wait for another is put into words."""


def self_seconds(events: Sequence[Event]) -> dict[str, float]:
    """Seconds of each category on the host, without those of the events inside."""
    found: dict[str, float] = defaultdict(float)
    for thread in {event.thread for event in events if event.thread >= 0}:
        stack: list[Event] = []
        for event in sorted((e for e in events if e.thread == thread), key=lambda e: (e.start, -e.end)):
            while stack and stack[-1].end <= event.start:
                stack.pop()
            found[event.category] += (event.end - event.start) / 1e9
            if stack:
                found[stack[-1].category] -= (event.end - event.start) / 1e9
            stack.append(event)
    return found


def summary(events: Mapping[int, Sequence[Event]], waits: Mapping[int, Mapping[int, float]]) -> str:
    """The table and, below it, a sentence for every rank that waits for another for a notable part of its time."""
    every = [event for own in events.values() for event in own]
    if not every:
        return "nothing of qdist ran while the trace was on"
    whole = max((max(e.end for e in every) - min(e.start for e in every)) / 1e9, 1e-9)
    rows = [("rank", *_COLUMNS, "waits", "other", "GPU", "GB/s", "GFLOP/s", "of roofline", "waits most for")]
    sentences = []
    for rank, own in sorted(events.items()):
        spent, waited = self_seconds(own), sum(waits[rank].values())
        shares = {name: sum(spent[c] for c in kinds) for name, kinds in _COLUMNS.items()}
        shares["messages"] = max(0.0, shares["messages"] - waited)
        other = max(0.0, whole - sum(shares.values()) - waited)
        gpu = sum(e.end - e.start for e in own if e.category == "gpu") / 1e9
        work = [e for e in own if e.category in ("stage", "gpu") and (e.args.get("bytes") or e.args.get("flops"))]
        seconds = max(sum(e.end - e.start for e in work) / 1e9, 1e-9)
        moved = sum(e.args.get("touched", 1.0) * e.args.get("bytes", 0) for e in work)
        flops = sum(e.args.get("touched", 1.0) * e.args.get("flops", 0) for e in work)
        ideal = sum((e.args.get("roofline") or 0.0) * (e.end - e.start) / 1e9 for e in work)
        most = max(waits[rank], key=lambda r: waits[rank][r], default=None)
        part = 0.0 if most is None else waits[rank][most] / whole
        percents = [f"{100 * x / whole:.0f} %" for x in (*shares.values(), waited, other, gpu)]
        rates = [f"{moved / seconds / 1e9:.1f}", f"{flops / seconds / 1e9:.1f}", f"{100 * ideal / seconds:.0f} %"]
        whom = "" if most is None or part < 0.005 else f"rank {most} ({100 * part:.0f} %)"
        rows.append((str(rank), *percents, *(rates if work else ["-"] * 3), whom))
        if most is not None and part >= _NOTABLE:
            sentences.append(f"rank {rank} waits {100 * part:.0f} % of its time for rank {most}")
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join(
        [f"{len(events)} rank{'s' * (len(events) != 1)}, {whole:.3g} s, {len(every)} events", *lines, *sentences]
    )
