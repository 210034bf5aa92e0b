"""Mistyped keyword arguments: the error names the right one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from typing import Any, ParamSpec, TypeVar

__all__ = ["hinted", "unexpected"]

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
                    raise TypeError(f"{error}; {_answer(name, known)}") from None
            raise

    return call


def unexpected(function: Callable[..., Any], wrong: Mapping[str, Any]) -> TypeError:
    """What a function raises that takes all other keyword arguments itself, as ``**kwargs: Never``: for calls that take
    microseconds, of which ``hinted`` would be a part."""
    known = [
        parameter.name
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self" and parameter.kind is not parameter.VAR_KEYWORD
    ]
    name = next(iter(wrong))
    return TypeError(f"{function.__qualname__}() got an unexpected keyword argument {name!r}; {_answer(name, known)}")


def _answer(name: str, known: Sequence[str]) -> str:
    close = get_close_matches(name, known, 1, 0.5)
    return f"did you mean {close[0]!r}?" if close else f"it takes {', '.join(known) or 'no arguments'}"
