"""Counts and amplitudes as SVG, which notebooks and code hosts show: a row an outcome or basis state."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Counts", "amplitudes_picture"]

MOST_ROWS = 16
_LINE, _LETTER, _BAR = 20, 8, 240
_PLAIN = "#4a7ebb"


class Counts(dict[str, int]):
    """{bit string: how often}, which notebooks show as bars; a dict in all else."""

    __slots__ = ()

    def _repr_svg_(self) -> str:
        shots = sum(self.values())
        ranked = sorted(self.items(), key=lambda item: (-item[1], item[0]))
        most = max((times for _, times in ranked), default=1)
        rows = [
            _Row(bits, f"{times}  {100 * times / shots:.1f}%", times / most, _PLAIN)
            for bits, times in sorted(ranked[:MOST_ROWS])
        ]
        return _picture(f"{shots} shots", rows, _left_out(len(ranked), "outcomes"))


def amplitudes_picture(heading: str, amplitudes: NDArray[Any]) -> str:
    """The likeliest basis states in the order of their indices: a bar as long as |amplitude|, coloured by its phase."""
    sizes = np.abs(amplitudes)
    nonzero = int(np.count_nonzero(sizes))
    shown = min(MOST_ROWS, nonzero)
    chosen = np.sort(np.argsort(-sizes, kind="stable")[:shown])
    bits = amplitudes.size.bit_length() - 1
    most = float(sizes.max()) or 1.0
    rows = []
    for index in chosen:
        value = complex(amplitudes[index])
        degrees = float(np.degrees(np.angle(value))) % 360
        number = f"{value.real:+.4f} {value.imag:+.4f}i"
        rows.append(_Row(f"{index:0{bits}b}", number, abs(value) / most, f"hsl({degrees:.0f},65%,50%)"))
    return _picture(heading, rows, _left_out(nonzero, "basis states"), phases=True)


class _Row(NamedTuple):
    name: str
    number: str
    share: float
    """Of the longest bar."""
    colour: str


def _left_out(number: int, what: str) -> str:
    return f"... and {number - MOST_ROWS} more {what}" if number > MOST_ROWS else ""


def _picture(heading: str, rows: Sequence[_Row], footer: str, phases: bool = False) -> str:
    names = _LETTER * max((len(row.name) for row in rows), default=0)
    numbers = _LETTER * max((len(row.number) for row in rows), default=0)
    start = names + numbers + 28
    width = max(start + _BAR, _LETTER * len(heading)) + 8
    lines = [f'<text x="4" y="15">{escape(heading)}</text>']
    y = _LINE
    for row in rows:
        lines.append(
            f'<text x="{names + 4}" y="{y + 15}" text-anchor="end">{escape(row.name)}</text>'
            f'<text x="{names + numbers + 16}" y="{y + 15}" text-anchor="end" fill="#555">{escape(row.number)}</text>'
            f'<rect x="{start}" y="{y + 3}" width="{max(1.0, _BAR * row.share):.1f}" height="{_LINE - 6}" '
            f'fill="{row.colour}"/>'
        )
        y += _LINE
    if phases:
        lines.append(f'<text x="4" y="{y + 15}" fill="#555">phase</text>')
        for k, name in enumerate(("0", "π/2", "π", "-π/2")):
            x = 60 + 60 * k
            lines.append(
                f'<rect x="{x}" y="{y + 5}" width="10" height="10" fill="hsl({90 * k},65%,50%)"/>'
                f'<text x="{x + 14}" y="{y + 15}" fill="#555">{name}</text>'
            )
        y += _LINE
    if footer:
        lines.append(f'<text x="4" y="{y + 15}" fill="#555">{escape(footer)}</text>')
        y += _LINE
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{y + 6}" '
            f'viewBox="0 0 {width} {y + 6}" font-family="monospace" font-size="13">',
            f'<rect width="{width}" height="{y + 6}" fill="white"/>',
            *lines,
            "</svg>",
        ]
    )
