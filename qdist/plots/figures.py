"""A new figure, where there is matplotlib."""

from __future__ import annotations

from typing import Any

__all__ = ["new_figure"]


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib Figure in inches, which notebooks show as a picture.

    Raises ImportError without matplotlib.
    """
    try:
        from qdist.circuit.drawing.notebook_figure import NotebookFigure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'qdist[plot]'") from error
    return NotebookFigure(width, height, layout="constrained")
