"""A new figure, where there is matplotlib."""

from __future__ import annotations

from typing import Any

__all__ = ["new_figure"]


def new_figure(width: float, height: float) -> Any:
    """An empty matplotlib Figure in inches, without pyplot's list of open figures and without a window.

    Raises ImportError without matplotlib.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install 'qdist[plot]'") from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure
