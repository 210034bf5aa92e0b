"""What a program prints, as an SVG picture of a terminal.

qdist demo | python circuits/pictures/screen.py circuits/pictures/demo.svg
"""

from __future__ import annotations

import sys
from html import escape
from pathlib import Path

_COLUMNS, _WIDE, _HIGH = 110, 7.8, 17


def screen(text: str) -> str:
    """The picture; long lines go on in the next one."""
    lines = [line[k : k + _COLUMNS] for line in text.splitlines() for k in range(0, max(1, len(line)), _COLUMNS)]
    width, height = _WIDE * _COLUMNS + 24, _HIGH * len(lines) + 24
    rows = [
        f'<text x="12" y="{_HIGH * (k + 1) + 6}" xml:space="preserve">{escape(line)}</text>'
        for k, line in enumerate(lines)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height}" '
            'font-family="monospace" font-size="13" fill="#e6e6e6">',
            f'<rect width="{width:g}" height="{height}" rx="6" fill="#1e1e1e"/>',
            *rows,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(screen(sys.stdin.read()), encoding="utf-8")
