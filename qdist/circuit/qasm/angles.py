"""Angles as text that reads back as exactly the same number."""

from __future__ import annotations

import math
from functools import lru_cache

from ..parameters import Angle, Expression

_DENOMINATORS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, *(2**k for k in range(5, 21)))
_MULTIPLE = 15 * 2**20  # of all of them
_MAX_NUMERATOR = 1000


@lru_cache(maxsize=65536)
def number_text(value: float) -> str:
    """A number: a fraction of pi where it is exactly one, else the fewest digits that identify it."""
    if value == 0:
        return "0"
    if abs(value) > _MAX_NUMERATOR * math.pi:
        return repr(value)
    turns = value / math.pi * _MULTIPLE
    # Most angles are not even close to such a fraction.
    for denominator in _DENOMINATORS if abs(turns - round(turns)) < 1e-3 else ():
        numerator = round(value / math.pi * denominator)
        if 0 < abs(numerator) <= _MAX_NUMERATOR and numerator * math.pi / denominator == value:
            product = {1: "pi", -1: "-pi"}.get(numerator, f"{numerator}*pi")
            return product if denominator == 1 else f"{product}/{denominator}"
    return repr(value)


def angle_text(angle: Angle) -> str:
    """An angle, which may be an affine expression of parameters."""
    return angle.format(number_text) if isinstance(angle, Expression) else number_text(angle)
