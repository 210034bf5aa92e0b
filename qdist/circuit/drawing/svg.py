"""Circuits as SVG: a picture that browsers and notebooks show, without a script or anything to fetch."""

from __future__ import annotations

from html import escape

from ..builder import CircuitBuilder
from .scene import BOX, Mark, scene

__all__ = ["Svg", "svg"]


class Svg(str):
    """The text of an SVG picture, which notebooks show as one."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        return str(self)


def svg(circuit: CircuitBuilder, width: int) -> Svg:
    """The circuit's picture, in blocks as wide as `width` letters."""
    made = scene(circuit, width)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{made.width:g}" height="{made.height:g}" '
        f'viewBox="0 0 {made.width:g} {made.height:g}" font-family="monospace" font-size="13" stroke-width="1.2">',
        f'<rect width="{made.width:g}" height="{made.height:g}" fill="white"/>',
    ]
    if made.heading:
        parts.append(f'<text x="4" y="20">{escape(made.heading)}</text>')
    for lines, colour in ((made.wires, "#888"), (made.links, "#223")):
        parts += [f'<path d="M{a:g} {b:g}L{c:g} {d:g}" stroke="{colour}"/>' for a, b, c, d in lines]
    parts += [f'<text x="{x:g}" y="{y + 4:g}" text-anchor="end">{text}</text>' for x, y, text in made.labels]
    parts += [_mark(mark) for mark in made.marks]
    return Svg("\n".join([*parts, "</svg>"]))


def _mark(mark: Mark) -> str:
    x, y, half = mark.x, mark.y, BOX / 2
    above = f'<text x="{x:g}" y="{y - half + 4:g}" text-anchor="middle">{escape(mark.text)}</text>' if mark.text else ""
    if mark.kind in ("control", "open control"):
        fill = "#223" if mark.kind == "control" else "white"
        shape = f'<circle cx="{x:g}" cy="{y:g}" r="4.5" fill="{fill}" stroke="#223"/>{above}'
    elif mark.kind == "not":
        cross = f"M{x - 9:g} {y:g}H{x + 9:g}M{x:g} {y - 9:g}V{y + 9:g}"
        shape = (
            f'<circle cx="{x:g}" cy="{y:g}" r="9" fill="white" stroke="#223"/><path d="{cross}" stroke="#223"/>{above}'
        )
    elif mark.kind == "swap":
        cross = f"M{x - 6:g} {y - 6:g}l12 12M{x - 6:g} {y + 6:g}l12 -12"
        shape = f'<path d="{cross}" stroke="#223" stroke-width="2"/>{above}'
    elif mark.kind == "barrier":
        shape = f'<path d="M{x:g} {y - 22:g}v44" stroke="#888" stroke-width="6" stroke-dasharray="3 3"/>'
    else:
        fill = "#eee" if mark.kind == "measure" else "#dbe7f6"
        shape = (
            f'<rect x="{x - mark.width / 2:g}" y="{y - half:g}" width="{mark.width:g}" height="{BOX}" rx="3" '
            f'fill="{fill}" stroke="#223"/>'
            f'<text x="{x:g}" y="{y + 4:g}" text-anchor="middle">{escape(mark.text)}</text>'
        )
    return f"<g><title>{escape(mark.title)}</title>{shape}</g>"
