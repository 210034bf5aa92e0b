"""Pictures of circuits: text, SVG, LaTeX and matplotlib, of the same columns and marks."""

from __future__ import annotations

from typing import Any

from ..builder import CircuitBuilder
from ..errors import CircuitError

__all__ = ["OUTPUTS", "drawn"]

OUTPUTS = ("text", "svg", "latex", "mpl")


def drawn(circuit: CircuitBuilder, output: str, width: int) -> Any:
    """What Circuit.draw returns."""
    if not isinstance(width, int) or width < 20:
        raise CircuitError(f"a drawing needs a width of at least 20 columns; got {width!r}")
    if output == "text":
        from .text import draw

        return draw(circuit, width)
    if output == "svg":
        from .svg import svg

        return svg(circuit, width)
    if output == "latex":
        from .latex import latex

        return latex(circuit, width)
    if output == "mpl":
        from .mpl import figure

        return figure(circuit, width)
    raise CircuitError(f"draw({output!r}): use one of {', '.join(OUTPUTS)}, or a number of columns for the text")
