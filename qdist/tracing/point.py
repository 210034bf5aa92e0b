"""Point: one place where a trace looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from qdist.tracing.gpu import GpuClock
from qdist.tracing.recorder import Recorder

__all__ = ["Point", "Wrapper"]

Wrapper = Callable[[Recorder, GpuClock, Callable[..., Any]], Callable[..., Any]]
"""Makes the timed function of the one that it is given."""


class Point(NamedTuple):
    """A function of a class or a module, and what makes the timed one of it."""

    owner: Any
    name: str
    wrapper: Wrapper
