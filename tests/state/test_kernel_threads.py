"""How many threads the kernels use: what was asked for, else a rank's share of its node's cores."""

import os
import re
from collections.abc import Iterator
from threading import Thread
from types import SimpleNamespace

import numpy as np
import pytest

import qdist as qd
from qdist import tensor
from qdist.native import kernels
from qdist.native.blas import blas_threads
from qdist.native.core_share import set_core_share
from qdist.state import threads


@pytest.fixture(autouse=True)
def _as_at_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody has decided yet, and three threads are the default."""
    before, elementwise = kernels.max_threads(), tensor.num_threads()
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(threads, "_at_start", 3)
    monkeypatch.setattr(threads, "_chosen", None)
    monkeypatch.delattr(threads._this_thread, "shares", raising=False)
    kernels.set_threads(3)
    yield
    kernels.set_threads(before)
    tensor.set_num_threads(elementwise)


def test_ranks_that_split_no_state_share_the_cores_of_their_node(monkeypatch: pytest.MonkeyPatch) -> None:
    qd.compile(qd.Circuit(2).h(0), device="cpu")
    assert kernels.max_threads() == 3
    monkeypatch.setattr(threads, "is_initialized", lambda: True)
    monkeypatch.setattr(threads, "world", lambda: SimpleNamespace(local_size=2, cores=1))
    qd.compile(qd.Circuit(2).h(0), device="cpu")
    assert kernels.max_threads() == 1
    kernels.set_threads(2)  # What somebody sets stays.
    qd.compile(qd.Circuit(2).h(0), device="cpu")
    assert kernels.max_threads() == 2


@pytest.mark.parametrize(("given", "threads"), [("", 1), ("many", 1), ("2", 3), ("2,1", 3)])
def test_a_variable_that_asks_for_no_number_leaves_ranks_their_share(
    monkeypatch: pytest.MonkeyPatch, given: str, threads: int
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", given)
    monkeypatch.setattr("qdist.state.threads.is_initialized", lambda: True)
    monkeypatch.setattr("qdist.state.threads.world", lambda: SimpleNamespace(local_size=2, cores=1))
    qd.compile(qd.Circuit(2).h(0), device="cpu")
    assert kernels.max_threads() == threads


def test_tensors_of_ranks_share_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor.threads, "_threads", None)
    monkeypatch.setattr(tensor.threads, "_at_start", lambda: 0)
    assert tensor.num_threads() == len(os.sched_getaffinity(0))
    set_core_share(5)
    try:
        assert tensor.num_threads() == 5
        monkeypatch.setattr(tensor.threads, "_at_start", lambda: 3)
        assert tensor.num_threads() == 3  # OMP_NUM_THREADS was set.
    finally:
        set_core_share(None)


def test_a_number_that_was_asked_for_is_that_of_all_threads_and_of_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "is_initialized", lambda: True)
    monkeypatch.setattr(threads, "world", lambda: SimpleNamespace(local_size=2, cores=1))
    qd.set_num_threads(2)
    found = []

    def compiles() -> None:
        qd.compile(qd.Circuit(2).h(0), device="cpu")
        found.append(kernels.max_threads())

    compiles()
    other = Thread(target=compiles)
    other.start()
    other.join()
    assert found == [2, 2]
    assert tensor.num_threads() == 2
    for wrong in (0, -1, 10**12):
        with pytest.raises(ValueError, match="thread"):
            qd.set_num_threads(wrong)
    for wrong in (1.5, "3", None):
        with pytest.raises(TypeError, match=re.escape(f"set_num_threads({wrong!r}): a whole number")):
            qd.set_num_threads(wrong)  # type: ignore[arg-type]
    assert (kernels.max_threads(), tensor.num_threads()) == (2, 2)
    qd.set_num_threads(np.int64(1))  # type: ignore[arg-type]
    assert (kernels.max_threads(), tensor.num_threads()) == (1, 1)
    assert set(blas_threads()) <= {1}
