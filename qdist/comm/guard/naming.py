"""How messages name ranks."""

from __future__ import annotations

__all__ = ["ranks_text"]


def ranks_text(ranks: list[int] | tuple[int, ...]) -> str:
    """``ranks 0-3, 7``"""
    runs: list[list[int]] = []
    for r in sorted(ranks):
        if runs and r == runs[-1][1] + 1:
            runs[-1][1] = r
        else:
            runs.append([r, r])
    text = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
    return f"{'rank' if len(ranks) == 1 else 'ranks'} {text}"
