"""Circuits as figures of matplotlib, which is needed for nothing else here."""

from __future__ import annotations

from typing import Any

from ..builder import CircuitBuilder
from .scene import BOX, Mark, scene

__all__ = ["figure"]

_PIXELS = 72
"""Per inch."""


def figure(circuit: CircuitBuilder, width: int) -> Any:
    """A matplotlib Figure that no window shows by itself: `figure.savefig("circuit.pdf")`. Raises ImportError."""
    try:
        from .notebook_figure import NotebookFigure
    except ImportError as error:
        raise ImportError(
            "draw('mpl') needs matplotlib: pip install 'qdist[plot]'. draw('svg') needs nothing"
        ) from error
    made = scene(circuit, width)
    picture = NotebookFigure(made.width / _PIXELS, made.height / _PIXELS)
    axes = picture.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, made.width), ylim=(made.height, 0))
    axes.axis("off")
    if made.heading:
        axes.text(4, 20, made.heading, family="monospace", size=10)
    for lines, colour, depth in ((made.wires, "0.55", 1), (made.links, "0.1", 2)):
        for x0, y0, x1, y1 in lines:
            axes.plot([x0, x1], [y0, y1], color=colour, lw=1, zorder=depth)
    for x, y, text in made.labels:
        axes.text(x, y, text, ha="right", va="center", family="monospace", size=10)
    for mark in made.marks:
        _draw(axes, mark)
    return picture


def _draw(axes: Any, mark: Mark) -> None:
    from matplotlib.patches import Circle, Rectangle

    x, y = mark.x, mark.y
    if mark.kind in ("control", "open control", "not"):
        fill = "0.1" if mark.kind == "control" else "white"
        axes.add_patch(Circle((x, y), 9 if mark.kind == "not" else 4.5, facecolor=fill, edgecolor="0.1", zorder=3))
    if mark.kind == "not":
        axes.plot([x - 9, x + 9], [y, y], color="0.1", lw=1, zorder=4)
        axes.plot([x, x], [y - 9, y + 9], color="0.1", lw=1, zorder=4)
    elif mark.kind == "swap":
        for sign in (1, -1):
            axes.plot([x - 6, x + 6], [y - 6 * sign, y + 6 * sign], color="0.1", lw=2, zorder=3)
    elif mark.kind == "barrier":
        axes.plot([x, x], [y - 22, y + 22], color="0.55", lw=4, ls=":", zorder=3)
    elif mark.kind in ("box", "measure"):
        corner = (x - mark.width / 2, y - BOX / 2)
        colour = "0.93" if mark.kind == "measure" else "#dbe7f6"
        axes.add_patch(Rectangle(corner, mark.width, BOX, facecolor=colour, edgecolor="0.1", zorder=3))
    if mark.text:
        inside = mark.kind in ("box", "measure")
        axes.text(x, y if inside else y - BOX / 2, mark.text, ha="center", va="center", size=10, zorder=5)
