"""These tests run on every rank of an MPI job at once; see tests/comm/test_on_ranks.py."""

import pytest

import qdist.comm as qc


@pytest.fixture(scope="session")
def comm() -> qc.Communicator:
    return qc.init(timeout=120)
