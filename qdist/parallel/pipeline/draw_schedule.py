"""A pipeline schedule as a picture: a row a rank, time from left to right, gaps where a rank has nothing to do."""

from __future__ import annotations

import os
from string import ascii_lowercase

from qdist.parallel.pipeline.schedules import FORWARD, Action, Schedule

__all__ = ["save_schedule_picture", "schedule_picture"]

_COLOURS = {FORWARD: ("#7aa6d8", "#2f5f9e"), "B": ("#9ccf8f", "#3f8f3a")}
"""Of a rank's first and last stage; those between are between."""


def schedule_picture(schedule: Schedule, forward: int = 1, backward: int = 1) -> str:
    """The schedule in slots, a pass taking so many of them, below a line with its numbers.

    F3 is the forward pass of micro-batch 3, B3 its backward pass; with several stages on a rank a letter tells which.
    """
    timeline = schedule.timeline(forward, backward)
    width = max(len(_label(schedule, slot.action)) for slots in timeline for slot in slots)
    length = max(slot.stop for slots in timeline for slot in slots)
    rows = []
    for rank, slots in enumerate(timeline):
        cells: list[str] = []
        for slot in slots:
            cells += ["." * width] * (slot.start - len(cells))
            cells += [_label(schedule, slot.action).ljust(width)]
            cells += ["-" * width] * (slot.stop - slot.start - 1)
        cells += ["." * width] * (length - len(cells))
        rows.append(f"rank {rank:{len(str(schedule.ranks - 1))}}  {' '.join(cells)}")
    return "\n".join([_headline(schedule, forward, backward), *rows])


def save_schedule_picture(
    schedule: Schedule, path: str | os.PathLike[str], forward: int = 1, backward: int = 1
) -> None:
    """The same as an image, in the format that the path's ending names.

    Raises ImportError without matplotlib.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("pictures of schedules need matplotlib: pip install qdist[plot]") from error
    timeline = schedule.timeline(forward, backward)
    length = max(slot.stop for slots in timeline for slot in slots)
    figure = Figure(figsize=(min(40.0, 1.5 + 0.35 * length), 1.2 + 0.45 * schedule.ranks), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    shades = {kind: LinearSegmentedColormap.from_list(kind, ends) for kind, ends in _COLOURS.items()}
    for rank, slots in enumerate(timeline):
        for slot in slots:
            kind, stage, micro_batch = slot.action
            place = stage // schedule.ranks / max(1, schedule.virtual_stages - 1)
            left, right = slot.start, slot.stop
            axes.broken_barh(
                [(left, right - left)], (rank - 0.45, 0.9), facecolors=[shades[kind](place)], edgecolor="w"
            )
            axes.text(
                (left + right) / 2,
                rank,
                str(micro_batch),
                ha="center",
                va="center",
                fontsize=7,
                color="kw"[place > 0.5],
            )
    axes.set(xlim=(0, length), ylim=(schedule.ranks - 0.5, -0.5), xlabel="slots", yticks=range(schedule.ranks))
    axes.set_yticklabels([f"rank {rank}" for rank in range(schedule.ranks)])
    axes.set_title(f"{_headline(schedule, forward, backward)}\nblue: forward, green: backward", fontsize=8, loc="left")
    figure.savefig(path, dpi=120)


def _label(schedule: Schedule, action: Action) -> str:
    stage = ""
    if schedule.virtual_stages > 1:
        which = action.stage // schedule.ranks
        stage = ascii_lowercase[which] if which < 26 else f"/{which}"
    return f"{action.kind}{action.micro_batch}{stage}"


def _headline(schedule: Schedule, forward: int, backward: int) -> str:
    bubble = schedule.bubble(forward, backward)
    each = "" if schedule.virtual_stages == 1 else f", {schedule.virtual_stages} stages each"
    kept = " ".join(map(str, schedule.peak_live()))
    return (
        f"{schedule.name}: {schedule.ranks} ranks{each}, {schedule.micro_batches} micro-batches, "
        f"bubble {bubble} = {float(bubble):.1%}, kept at most: {kept}"
    )
