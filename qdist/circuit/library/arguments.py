"""Checks of what the library is given; each gives the value back, or raises CircuitError that says what is needed."""

import math
import operator
from collections.abc import Mapping
from typing import Any

from ..errors import CircuitError
from ..parameters import Angle, Expression, as_number


def integer(value: Any, name: str) -> int:
    """An int."""
    try:
        return operator.index(value)
    except TypeError:
        raise CircuitError(f"{name} must be an int; got {value!r}") from None


def real(value: Any, name: str) -> float:
    """A finite real number."""
    number = as_number(value)
    if number is None or not math.isfinite(number):
        raise CircuitError(f"{name} must be a finite real number; got {value!r}")
    return number


def angle(value: Any, name: str) -> Angle:
    """A finite real number, or an expression of parameters."""
    if isinstance(value, Expression):
        return value
    number = as_number(value)
    if number is None or not math.isfinite(number):
        raise CircuitError(f"{name} must be a finite real number or an expression of Parameters; got {value!r}")
    return number


def listed(values: Any, name: str, what: str) -> list[Any]:
    """What comes one after the other. Text would come letter by letter, and of a dict only the keys."""
    try:
        if isinstance(values, str | Mapping):
            raise TypeError
        return list(values)
    except TypeError:
        raise CircuitError(f"{name} must be a list of {what}; got {values!r}") from None


def bit_string(string: Any) -> str:
    """One or more characters 0 and 1."""
    if not isinstance(string, str) or not string or set(string) - {"0", "1"}:
        raise CircuitError(f"expected a bit string such as '1011', highest qubit first; got {string!r}")
    return string
