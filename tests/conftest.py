"""What all tests share: where ranks come from, and property tests that give the same answer every time."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from hypothesis import settings

from qdist.comm import CommError
from qdist.comm.launch import mpirun_command
from qdist.comm.libmpi import find_mpirun

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

RunRanks = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def run_ranks() -> RunRanks:
    """run_ranks(n, [arguments of python]) runs a Python program on n real MPI ranks with plain mpirun."""
    try:
        mpirun = find_mpirun("bundled")
    except CommError:
        mpirun = find_mpirun()

    def run(
        ranks: int, arguments: Sequence[str | Path], timeout: float = 300, **environ: str
    ) -> subprocess.CompletedProcess[str]:
        command = [*mpirun_command(mpirun, ranks), sys.executable, *map(str, arguments)]
        # Plugins of pytest, which no test on ranks needs, would double the time in which a rank starts.
        plain = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        return subprocess.run(
            command, env=os.environ | plain | environ, capture_output=True, text=True, timeout=timeout
        )

    return run


@pytest.fixture
def free_port() -> int:
    """A TCP port of this machine that nobody uses right now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]
