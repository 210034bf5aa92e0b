"""The threads of the BLAS library behind NumPy, which takes all cores for every product unless it is told otherwise.

They wait for the next product in a busy loop: where ranks share a node's cores, those of one rank would keep the other
ranks from computing.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

import numpy  # noqa: F401  # Loads the library.

__all__ = ["blas_threads", "set_blas_threads", "share_blas_threads"]

_SETTINGS = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS")
"""What users tell these libraries with, who then have the last word."""


class _Library(NamedTuple):
    set_threads: Callable[[int], None]
    threads: Callable[[], int]
    at_start: int


_asked: int | None = None


def set_blas_threads(count: int) -> None:
    """What the user asks for."""
    global _asked
    _asked = count
    for library in _libraries():
        library.set_threads(count)


def share_blas_threads(count: int | None) -> None:
    """This process's share of the cores, unless the user has said otherwise; None: as many as at the start."""
    if _asked is None and not any(os.environ.get(name) for name in _SETTINGS):
        for library in _libraries():
            library.set_threads(library.at_start if count is None else min(count, library.at_start))


def blas_threads() -> list[int]:
    """Of each library that is known here."""
    return [library.threads() for library in _libraries()]


@cache
def _libraries() -> list[_Library]:
    """OpenBLAS and MKL, as far as they are loaded when this is first asked; NumPy's is."""
    return [found for path in _loaded() if (found := _library(path)) is not None]


def _loaded() -> Iterator[str]:
    """Paths of what may be such a library, each once."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split(maxsplit=5)[5].strip() for line in maps if line.count("/")}
    except OSError:  # Not on Linux.
        return
    yield from sorted(path for path in paths if "openblas" in os.path.basename(path) or "libmkl_rt" in path)


def _library(path: str) -> _Library | None:
    try:
        library = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
    except OSError:
        return None
    for prefix, suffix in (("openblas", ""), ("openblas", "64_"), ("scipy_openblas", ""), ("scipy_openblas", "64_")):
        setter = getattr(library, f"{prefix}_set_num_threads{suffix}", None)
        getter = getattr(library, f"{prefix}_get_num_threads{suffix}", None)
        if setter is not None and getter is not None:
            return _Library(setter, getter, getter())
    setter, getter = (getattr(library, f"MKL_{what}", None) for what in ("Set_Num_Threads", "Get_Max_Threads"))
    return None if setter is None or getter is None else _Library(setter, getter, getter())
