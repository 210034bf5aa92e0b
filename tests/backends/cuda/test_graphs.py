"""When launches are recorded, and memory that stays where it is. A stand-in for CuPy records; test_device_calls.py
counts what a gradient launches."""

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from pinned import add_pinned, launched

from qdist.backends.cuda import graphs, staging
from qdist.backends.cuda.graphs import Graphs


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> Any:
    runtime = SimpleNamespace(waited=0)

    def synchronize() -> None:
        runtime.waited += 1

    runtime.deviceSynchronize = synchronize
    cuda = SimpleNamespace(runtime=runtime)
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(cuda=cuda, empty=np.empty))
    add_pinned(cuda, monkeypatch)
    return cuda


def test_what_is_launched_twice_is_recorded_and_replayed(cuda: Any) -> None:
    done: list[str] = []
    made: list[str] = []
    own = Graphs()

    def launches(name: str) -> None:
        made.append(name)
        launched(lambda: done.append(name))
        launched(lambda: done.append(name.upper()))

    for _ in range(4):
        own.run("a", lambda: launches("a"))
    own.run("b", lambda: launches("b"))
    assert done == ["a", "A"] * 4 + ["b", "B"]
    assert made == ["a", "a", "b"]


def test_graphs_used_last_are_kept(cuda: Any) -> None:
    made: list[int] = []
    own = Graphs()
    for key in [*range(graphs._MOST), 0, *range(graphs._MOST, 2 * graphs._MOST - 1), 0, 0, 1]:
        own.run(key, lambda key=key: made.append(key))
    # Number 0 was recorded once, and number 1 was forgotten.
    assert (made.count(0), made.count(1), made.count(2)) == (2, 2, 1)


def test_a_failure_ends_the_recording(cuda: Any) -> None:
    own = Graphs()
    own.run("a", lambda: None)

    def fail() -> None:
        raise ValueError("a launch failed")

    with pytest.raises(ValueError, match="a launch failed"):
        own.run("a", fail)
    done: list[int] = []
    own.run("a", lambda: launched(lambda: done.append(1)))
    assert done == [1]


def test_kept_memory_waits_for_other_streams_alone(cuda: Any) -> None:
    kept = staging.Kept(16)
    first = kept.taken()
    assert kept.taken() is first
    assert cuda.runtime.waited == 0
    cuda.get_current_stream = lambda: SimpleNamespace(ptr=7)
    assert kept.taken() is first
    assert cuda.runtime.waited == 1
    kept.taken()
    assert cuda.runtime.waited == 1
