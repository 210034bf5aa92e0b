"""Lets these tests use the strategies of the circuit tests, and run on a device and with one thread and with two."""

import sys
from collections.abc import Iterator
from inspect import unwrap
from pathlib import Path

import pytest

from qdist.native import kernels
from qdist.program import program
from qdist.state.statevector import StateVector

sys.path.append(str(Path(__file__).parents[1] / "circuit"))


@pytest.fixture(scope="session", autouse=True)
def _default_device(device: str) -> Iterator[None]:
    """Where a test names no device, it means that of --device: the same tests serve every device."""
    with pytest.MonkeyPatch.context() as patch:
        for make in map(unwrap, (StateVector.__init__, *(getattr(StateVector, n).__func__ for n in _MAKERS))):
            assert make.__code__.co_varnames[make.__code__.co_argcount - 1] == "device"
            patch.setattr(make, "__defaults__", (*make.__defaults__[:-1], device))
        for call in map(unwrap, (program.Program.__init__, program.compile, program.simulate)):
            patch.setitem(call.__kwdefaults__, "device", device)
        yield


_MAKERS = ("empty", "from_amplitudes", "basis", "product", "load")


@pytest.fixture(params=[1, 2], ids=["1 thread", "2 threads"])
def threads(request: pytest.FixtureRequest, device: str) -> Iterator[int]:
    if device != "cpu" and request.param > 1:
        pytest.skip("threads are the CPU's")
    before = kernels.max_threads()
    kernels.set_threads(request.param)
    yield request.param
    kernels.set_threads(before)
