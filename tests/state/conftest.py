"""Lets these tests use the strategies that the circuit tests define, and run with one thread and with two."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from qdist.native import kernels

sys.path.append(str(Path(__file__).parents[1] / "circuit"))


@pytest.fixture(params=[1, 2], ids=["1 thread", "2 threads"])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = kernels.max_threads()
    kernels.set_threads(request.param)
    yield request.param
    kernels.set_threads(before)
