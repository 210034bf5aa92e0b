"""Weight decay as an object."""

from __future__ import annotations

__all__ = ["L2Decay"]


class L2Decay:
    """Adds coeff times the parameter to its gradient."""

    def __init__(self, coeff: float = 0.0) -> None:
        if coeff < 0:
            raise ValueError(f"L2Decay({coeff}): not negative")
        self.coeff = coeff
