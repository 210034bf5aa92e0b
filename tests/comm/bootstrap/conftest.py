"""Tests of how ranks come together begin in a process that is alone, whatever ran in it before."""

from collections.abc import Iterator

import pytest

import qdist.comm as qc


@pytest.fixture(autouse=True)
def _no_world() -> Iterator[None]:
    qc.shutdown()
    yield
    qc.shutdown()
