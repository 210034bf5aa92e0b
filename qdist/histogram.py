"""Text for the terminal: histograms of measured outcomes and tables of the largest amplitudes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

__all__ = ["amplitude_table", "histogram", "largest_amplitudes"]

# Bars are drawn in eighths of a character.
_EIGHTHS = " ▏▎▍▌▋▊▉"
_SHORTEST_BAR = 10


def histogram(counts: Mapping[str, int], *, top: int = 20, width: int = 80, ascii_only: bool = False) -> str:
    """One line an outcome: its bits, how often it came, its share, and a bar.

    Args:
        counts: {bit string: how often}.
        top: outcomes to show, the most frequent first (equally frequent ones by their bits); others are summed.
        width: columns; the bar of the most frequent outcome reaches the last of them.
        ascii_only: draw bars with "#", for terminals without block characters.
    """
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    shots = sum(counts.values())
    shown, hidden = ranked[:top], ranked[top:]
    rows = [(bits, times) for bits, times in shown]
    if hidden:
        rows.append((f"{len(hidden)} other{'s' * (len(hidden) != 1)}", sum(times for _, times in hidden)))
    return _bars(rows, shots, max((times for _, times in shown), default=1), width, ascii_only)


def largest_amplitudes(amplitudes: NDArray[np.complexfloating], top: int) -> list[tuple[str, complex]]:
    """The (bit string, amplitude) pairs of the `top` likeliest basis states, likeliest first; zeros are left out."""
    weights = np.abs(amplitudes)
    top = min(top, weights.size)
    chosen = np.argpartition(-weights, top - 1)[:top]
    chosen = chosen[np.lexsort((chosen, -weights[chosen]))]
    num_qubits = weights.size.bit_length() - 1
    # An empty format width would print the one state of no qubits as "0".
    return [(f"{k:0{num_qubits}b}" if num_qubits else "", complex(amplitudes[k])) for k in chosen if weights[k] > 0]


def amplitude_table(pairs: list[tuple[str, complex]]) -> str:
    """One line a basis state: its bits, the amplitude, and the probability."""
    return "\n".join(f"{bits}  {a.real:+.6f} {a.imag:+.6f}i  {100 * abs(a) ** 2:7.3f}%" for bits, a in pairs)


def _bars(rows: list[tuple[str, int]], shots: int, longest: int, width: int, ascii_only: bool) -> str:
    names = max((len(name) for name, _ in rows), default=0)
    digits = max((len(str(times)) for _, times in rows), default=0)
    room = max(_SHORTEST_BAR, width - names - digits - len("    100.0%  "))
    lines = []
    for name, times in rows:
        # The sum of the others may be longer than any outcome that is shown.
        bar = _bar(min(1.0, times / longest) * room, ascii_only)
        lines.append(f"{name:>{names}}  {times:>{digits}}  {100 * times / shots:5.1f}%  {bar}".rstrip())
    return "\n".join(lines)


def _bar(length: float, ascii_only: bool) -> str:
    if ascii_only:
        return "#" * round(length)
    eighths = round(8 * length)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
