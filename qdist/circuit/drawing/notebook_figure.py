"""A matplotlib Figure that notebooks show as a picture. Importing this imports matplotlib."""

from __future__ import annotations

from io import BytesIO

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

__all__ = ["NotebookFigure"]


class NotebookFigure(Figure):
    """Without pyplot: no window opens, no list of open figures grows. Jupyter draws plain Figures only once pyplot is
    imported, and this one always."""

    def __init__(self, width: float, height: float, layout: str | None = None) -> None:
        super().__init__(figsize=(width, height), layout=layout)  # type: ignore[arg-type]
        FigureCanvasAgg(self)

    def _repr_png_(self) -> bytes:
        buffer = BytesIO()
        self.savefig(buffer, format="png", dpi=80)
        return buffer.getvalue()
