"""What the options of a training must be."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["check_whole"]


def check_whole(option: str, value: Any, least: int) -> None:
    """Raises ValueError unless an option is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{option}={value!r}: must be a whole number of at least {least}")
