"""A new figure, where there is matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["new_figure", "room_below"]


_LETTER = 0.085
"""Inches along the line, in the monospace font of labels."""


def room_below(names: Sequence[str]) -> float:
    """The inches by which a figure is higher than one of short names, where names stand upright below the axes."""
    return max(0.0, _LETTER * max(map(len, names)) - 0.8)


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib Figure in inches, which notebooks show as a picture.

    Raises ImportError without matplotlib.
    """
    try:
        from qdist.circuit.drawing.notebook_figure import NotebookFigure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'qdist[plot]'") from error
    return NotebookFigure(width, height, layout="constrained")
