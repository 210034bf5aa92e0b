"""A falling curve, drawn with characters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

__all__ = ["chart"]

_ROWS = 10


def chart(values: Sequence[float], limit: float, width: int, *, ascii_only: bool = False) -> str:
    """Values over their number, and a dashed line at the limit below them.

    Args:
        values: from left to right.
        limit: the value of the lowest row.
        width: columns, with the numbers at the left.
        ascii_only: draw with "*" and "-".
    """
    point, dash = ("*", "-") if ascii_only else ("●", "┄")
    room = max(10, width - 14)
    places = np.linspace(0, len(values) - 1, min(room, len(values))).round().astype(int)
    top = max(max(values), limit)
    span = (top - limit) or 1.0
    rows = [[" "] * len(places) for _ in range(_ROWS)]
    rows[-1] = [dash] * len(places)
    for column, place in enumerate(places):
        height = min(max((values[place] - limit) / span, 0.0), 1.0)
        rows[round((1 - height) * (_ROWS - 1))][column] = point
    labels = [f"{top - span * row / (_ROWS - 1):12.4f}" if row in (0, _ROWS - 1) else " " * 12 for row in range(_ROWS)]
    return "\n".join(f"{label} {''.join(row)}".rstrip() for label, row in zip(labels, rows))
