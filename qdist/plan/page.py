"""A plan as a page for a browser: its schedule over time, level by level, and where each qubit is in each stage.

The page is one file that fetches nothing. Without its few lines of script it shows the same, with a browser's own tips.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from qdist.plan.picture import LEGEND, kinds, stage_text
from qdist.plan.plan import Plan, readable_size
from qdist.plan.timeline import LEVELS, Event

__all__ = ["html_page"]

_QUBIT_COLOURS = ("#e8eef4", "#f2b134", "#c8402f")
_LEVEL_COLOURS = (("#5b7f9f", "#86a5bf"), ("#f2b134", "#f2b134"), ("#c8402f", "#c8402f"))
"""In turns, so that neighbours are told apart."""
_TICKS = 8
_UNITS = 10_000
"""Of the picture's width, which the page stretches."""
_LANE, _BAR = 40, 28

_STYLE = """
body{font:14px sans-serif;margin:2em;color:#222}
table{border-collapse:collapse}td{padding:2px 12px 2px 0;text-align:right}td:first-child{text-align:left}
#lanes{display:flex}#names div{height:40px;line-height:30px;padding-right:10px;white-space:nowrap;text-align:right}
#scroll{overflow-x:auto;flex:1}#time{position:relative;height:145px}#time svg{width:100%;height:120px;display:block}
#time span{position:absolute;top:122px;font-size:11px;border-left:1px solid #999;padding-left:3px}
rect[data-level]{stroke-width:1;vector-effect:non-scaling-stroke}
rect:hover{filter:brightness(80%)}
#tip{position:fixed;display:none;background:#222;color:#fff;padding:6px 9px;border-radius:4px;max-width:34em;
pointer-events:none;white-space:pre-line}
text{font:10px sans-serif}
"""

_SCRIPT = """
const tip = document.getElementById("tip"), time = document.getElementById("time");
for (const title of document.querySelectorAll("rect > title")) {
  title.parentNode.dataset.tip = title.textContent;
  title.remove();
}
document.addEventListener("mousemove", (event) => {
  const text = event.target.dataset ? event.target.dataset.tip : undefined;
  tip.style.display = text ? "block" : "none";
  if (!text) return;
  tip.textContent = text;
  const room = document.documentElement.clientWidth - tip.offsetWidth - 12;
  tip.style.left = Math.max(0, Math.min(event.clientX + 12, room)) + "px";
  tip.style.top = event.clientY + 16 + "px";
});
document.getElementById("zoom").addEventListener("input", (event) => {
  time.style.width = 100 * 2 ** event.target.value + "%";
});
"""


def html_page(plan: Plan, title: str, lines: Sequence[str], events: Sequence[Event]) -> str:
    """The page's text.

    title: of the page, as plain text. lines: shown above the pictures. events: of ``timeline``.
    """
    legend = " ".join(
        f'<span style="background:{colour}">&nbsp;&nbsp;&nbsp;</span> {name}&emsp;'
        for colour, name in zip(_QUBIT_COLOURS, LEGEND)
    )
    names = "".join(f"<div>{name}</div>" for name in LEVELS)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style></head>\n"
        f"<body><h1>{escape(title)}</h1>\n<p>{'<br>'.join(map(escape, lines))}</p>\n"
        f"{_table(events)}\n"
        "<h2>Over time</h2>\n<p>What the rank that holds most does, as predicted: sweeps over its memory, and "
        "exchanges. Point at a bar. <label>Zoom "
        '<input id="zoom" type="range" min="0" max="10" step="0.5" value="0"></label></p>\n'
        f'<div id="lanes"><div id="names">{names}</div><div id="scroll">{_lanes(events)}</div></div>\n'
        f"<h2>Qubits</h2>\n<p>Rows are qubits, columns are stages. {legend}</p>\n{_qubits(plan)}\n"
        f'<div id="tip"></div>\n<script>{_SCRIPT}</script></body></html>\n'
    )


def _table(events: Sequence[Event]) -> str:
    whole = sum(event.seconds for event in events) or 1.0
    rows = []
    for level, name in enumerate(LEVELS):
        own = [event for event in events if event.level == level]
        seconds = sum(event.seconds for event in own)
        what = "read and written" if level == 0 else "sent"
        cells = (
            f"{len(own)} {'sweep' if level == 0 else 'exchange'}{'s' * (len(own) != 1)}",
            f"{readable_size(sum(event.nbytes for event in own))} {what}",
            _readable_time(seconds),
            f"{100 * seconds / whole:.1f}%",
        )
        rows.append(f"<tr><td>{name}</td>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f'<table id="levels">{"".join(rows)}</table>'


def _lanes(events: Sequence[Event]) -> str:
    whole = sum(event.seconds for event in events) or 1.0
    marks = []
    for number, event in enumerate(events):
        colour = _LEVEL_COLOURS[event.level][number % 2]
        marks.append(
            f'<rect data-level="{event.level}" x="{_UNITS * event.start / whole:.2f}" y="{_LANE * event.level}" '
            f'width="{_UNITS * event.seconds / whole:.2f}" height="{_BAR}" fill="{colour}" stroke="{colour}">'
            f"<title>{escape(_tip(event))}</title></rect>"
        )
    ticks = "".join(
        f'<span style="left:{100 * k / _TICKS:g}%">{_readable_time(whole * k / _TICKS)}</span>' for k in range(_TICKS)
    )
    return (
        f'<div id="time"><svg viewBox="0 0 {_UNITS} {_LANE * len(LEVELS)}" preserveAspectRatio="none" role="img" '
        f'aria-label="sweeps and exchanges over time">\n' + "\n".join(marks) + f"\n</svg>{ticks}</div>"
    )


def _tip(event: Event) -> str:
    size = readable_size(event.nbytes)
    did = (
        f"{size} read and written, {event.flops:.3g} flops"
        if event.level == 0
        else f"{size} sent, {LEVELS[event.level]}"
    )
    return (
        f"stage {event.segment}, {event.text}\n{did}\n"
        f"{_readable_time(event.seconds)}, from {_readable_time(event.start)} on"
    )


def _qubits(plan: Plan) -> str:
    size = 14
    left, top = 40, 20
    marks = []
    for k, segment in enumerate(plan.segments):
        does = stage_text(plan, segment)
        for qubit, kind in enumerate(kinds(plan, segment)):
            x, y = left + k * size, top + (plan.num_qubits - 1 - qubit) * size
            tip = f"stage {k}, qubit {qubit}: {LEGEND[kind]}; {does}"
            marks.append(
                f'<rect data-qubit="{qubit}" x="{x}" y="{y}" width="{size - 1}" height="{size - 1}" '
                f'fill="{_QUBIT_COLOURS[kind]}"><title>{escape(tip)}</title></rect>'
            )
    for qubit in range(plan.num_qubits):
        y = top + (plan.num_qubits - 1 - qubit) * size + size - 4
        marks.append(f'<text x="{left - 6}" y="{y}" text-anchor="end">{qubit}</text>')
    for k in range(0, len(plan.segments), 5):
        marks.append(f'<text x="{left + k * size}" y="{top - 6}">{k}</text>')
    width, height = left + size * len(plan.segments) + 10, top + size * plan.num_qubits + 10
    return f'<svg width="{width}" height="{height}" role="img" aria-label="qubits">\n' + "\n".join(marks) + "\n</svg>"


def _readable_time(seconds: float) -> str:
    """1.5 ms"""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns" if seconds else "0"
