"""Types of command-line options, for argparse: what cannot be is refused in a line that says what can."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from pathlib import Path

__all__ = ["new_file", "new_picture", "number", "whole"]


def whole(least: int, most: int | None = None, *, even: bool = False) -> Callable[[str], int]:
    """Of an option that takes a whole number, or an even one, from `least` on, or to `most`."""
    kind = f"{'an even' if even else 'a whole'} number " + (
        f"of {least} or more" if most is None else f"from {least} to {most}"
    )

    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least or (most is not None and value > most) or (even and value % 2):
            raise argparse.ArgumentTypeError(f"{text!r} is not {kind}")
        return value

    return read


def number(*, least: float = -math.inf, above: float = -math.inf, below: float = math.inf) -> Callable[[str], float]:
    """Of an option that takes a finite number: `least` itself is one, `above` and `below` are not."""
    limits = [f"of {least:g} or more"] if least > -math.inf else []
    limits += [f"above {above:g}"] if above > -math.inf else []
    limits += [f"below {below:g}"] if below < math.inf else []
    kind = "a positive number" if limits == ["above 0"] else " ".join(["a number", *limits])

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not (math.isfinite(value) and least <= value and above < value < below):
            raise argparse.ArgumentTypeError(f"{text!r} is not {kind}")
        return value

    return read


def new_file(text: str) -> Path:
    """The type of an option that names a file to write, which is told before the work that would end without it."""
    path = Path(text)
    if path.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r} is a folder; name a file in it")
    if not path.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text!r}: there is no folder {path.absolute().parent}")
    return path


def new_picture(text: str) -> Path:
    """As `new_file`, of a picture that matplotlib writes. A name without an ending gets .png."""
    path = new_file(text)
    try:
        from matplotlib.backend_bases import FigureCanvasBase
    except ImportError:
        return path  # Whoever writes it says what to install.
    known = FigureCanvasBase.get_supported_filetypes()
    if path.suffix and path.suffix[1:].lower() not in known:
        raise argparse.ArgumentTypeError(f"{text!r}: matplotlib writes no {path.suffix}; name a .png, .pdf or .svg")
    return path
