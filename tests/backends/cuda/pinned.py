"""Page-locked memory for stand-ins of CuPy: copies are made at once."""

import ctypes
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from qdist.backends.cuda import staging


def add_pinned(cuda: Any, monkeypatch: pytest.MonkeyPatch, copied: Callable[[], None] = lambda: None) -> None:
    """Gives ``cupy.cuda`` what staging.py uses; ``copied`` is called for each upload."""

    def copy(to: int, source: int, nbytes: int, kind: int, stream: int) -> None:
        copied()
        ctypes.memmove(to, source, nbytes)

    cuda.Event = lambda disable_timing: SimpleNamespace(synchronize=lambda: None, record=lambda stream: None)
    cuda.get_current_stream = lambda: SimpleNamespace(ptr=0)
    cuda.runtime.memcpyHostToDevice, cuda.runtime.memcpyAsync = 1, copy
    monkeypatch.setitem(sys.modules, "cupyx", SimpleNamespace(empty_pinned=lambda size, dtype: np.empty(size, dtype)))
    monkeypatch.setattr(staging, "_of_thread", staging._OfThread())
