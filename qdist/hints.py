"""Mistyped keyword arguments: the error names the right one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from difflib import get_close_matches
from functools import wraps
from typing import ParamSpec, TypeVar

__all__ = ["hinted"]

P = ParamSpec("P")
R = TypeVar("R")


def hinted(function: Callable[P, R]) -> Callable[P, R]:
    """The same function, whose TypeError for an argument that it does not have says which it has."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            known = [name for name in inspect.signature(function).parameters if name != "self"]
            for name in kwargs:
                if name not in known and str(error).endswith(f"unexpected keyword argument {name!r}"):
                    close = get_close_matches(name, known, 1, 0.5)
                    answer = f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(known)}"
                    raise TypeError(f"{error}; {answer}") from None
            raise

    return call
