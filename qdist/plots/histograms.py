"""Counts of measured outcomes as bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .figures import new_figure, room_below

__all__ = ["plot_histogram"]


def plot_histogram(
    counts: Mapping[str, float] | Sequence[Mapping[str, float]],
    *,
    labels: Sequence[str] | None = None,
    top: int = 32,
) -> Any:
    """Shares of outcomes, side by side for several runs; a matplotlib Figure.

    counts: {bit string: how often}, or several of them, with a label each.
    top: outcomes to show, the most frequent over all runs, ordered by their bits; others are summed in a last bar.

    Raises ValueError for no counts or as many labels as do not fit, ImportError without matplotlib.
    """
    runs = [counts] if isinstance(counts, Mapping) else list(counts) if isinstance(counts, Sequence) else []
    if not all(isinstance(run, Mapping) for run in runs) or not isinstance(counts, Mapping | Sequence):
        raise TypeError(
            f"plot_histogram takes counts such as state.counts(1000), or a list of them, not {type(counts).__name__}"
        )
    totals = [sum(run.values()) for run in runs]
    if not runs or min(totals) <= 0:
        raise ValueError(f"plot_histogram needs outcomes that came at least once; got {counts!r}")
    if labels is not None and len(labels) != len(runs):
        raise ValueError(f"{len(labels)} labels for {len(runs)} runs: one for each")
    if top < 1:
        raise ValueError(f"top={top}: at least one outcome")
    shares = [{bits: times / total for bits, times in run.items()} for run, total in zip(runs, totals)]
    every = {bits: sum(share.get(bits, 0.0) for share in shares) for share in shares for bits in share}
    ranked = sorted(every, key=lambda bits: (-every[bits], bits))
    shown, others = sorted(ranked[:top]), ranked[top:]
    names = [*map(str, shown), *([f"{len(others)} others"] if others else [])]
    upright = len(names) * len(names[0]) >= 30
    width = max(4.0, 0.35 * len(names) * max(1, len(runs) / 2))
    figure = new_figure(width, 3.2 + (room_below(names) if upright else 0.0))
    axes = figure.add_subplot()
    size = 0.8 / len(runs)
    for k, share in enumerate(shares):
        heights = [share.get(bits, 0.0) for bits in shown]
        if others:
            heights.append(sum(share.get(bits, 0.0) for bits in others))
        places = [i - 0.4 + size * (k + 0.5) for i in range(len(names))]
        axes.bar(places, heights, size, label=labels[k] if labels else None)
    axes.set_xticks(range(len(names)), names, rotation=90 if upright else 0, family="monospace")
    axes.set_ylabel("share of shots")
    if labels:
        figure.legend(loc="outside upper center", ncols=len(runs), frameon=False)
    return figure
