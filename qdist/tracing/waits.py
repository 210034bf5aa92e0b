"""Who waits for whom: a wait lasts until the last of the others has come, and then until what was sent has arrived.

The first part is that rank's doing. It is found by matching calls of different ranks: collectives by their number in
their group, messages by their number among those with the same ends and tag.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from qdist.tracing.recorder import Event

__all__ = ["attribute"]

Key = tuple[Any, ...]


def attribute(events: Mapping[int, Sequence[Event]]) -> dict[int, dict[int, float]]:
    """Notes in every wait for which rank it was, and how long; returns {rank: {other rank: seconds}}.

    events: of every rank, on one clock.
    """
    came: dict[Key, dict[int, int]] = {}
    of_message: dict[tuple[int, int], list[Key]] = {}
    for rank, own in events.items():
        counts: Counter[Key] = Counter()
        for event in sorted((e for e in own if e.args.get("enters")), key=lambda e: e.start):
            keys = list(_keys(rank, event.args, counts))
            for key in keys:
                came.setdefault(key, {})[rank] = event.start
            if "number" in event.args:
                of_message[rank, event.args["number"]] = keys
    seconds: dict[int, dict[int, float]] = {rank: {} for rank in events}
    for rank, own in events.items():
        for event in own:
            if not event.args.get("waits"):
                continue
            number = event.args.get("number")
            keys = [_collective(event.args)] if number is None else of_message.get((rank, number), [])
            others = [(start, other) for key in keys for other, start in came.get(key, {}).items() if other != rank]
            if not others:
                continue
            start, last = max(others)
            late = min(event.end, start) - event.start
            if late > 0:
                event.args["waits for rank"], event.args["late"] = last, late / 1e9
                seconds[rank][last] = seconds[rank].get(last, 0.0) + late / 1e9
    return seconds


def _keys(rank: int, args: Mapping[str, Any], counts: Counter[Key]) -> Iterable[Key]:
    """What a call is known by on all ranks that take part."""
    if "sequence" in args:
        yield _collective(args)
        return
    for end, (source, dest) in (("to", (rank, args.get("to"))), ("from", (args.get("from"), rank))):
        if end in args:
            key = (args["comm"], *args["group"], source, dest, args["tag"])
            yield (*key, counts[key, end])
            counts[key, end] += 1


def _collective(args: Mapping[str, Any]) -> Key:
    return (args["comm"], *args["group"], args["sequence"])
