"""torch.cuda's names for devices and streams, over CuPy. All but is_available and device_count need a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ....comm import cuda_devices

__all__ = ["Stream", "default_stream", "device", "device_count", "is_available", "set_device", "stream"]


def is_available() -> bool:
    """Whether there is a GPU."""
    return cuda_devices() > 0


def device_count() -> int:
    """How many GPUs this process sees."""
    return cuda_devices()


def set_device(index: int) -> None:
    """Makes a GPU the current one. Raises RuntimeError if there is none of this number."""
    _cupy(index).cuda.Device(index).use()


@contextmanager
def device(index: int) -> Iterator[None]:
    """Within it, a GPU is the current one. Raises RuntimeError if there is none of this number."""
    with _cupy(index).cuda.Device(index):
        yield


class Stream:
    """A queue of a GPU's work, beside the default one."""

    def __init__(self, of: Any = None) -> None:
        self.of = _cupy(0).cuda.Stream(non_blocking=True) if of is None else of

    def wait_stream(self, other: Stream) -> None:
        """What is queued here from now on comes after what is queued there by now."""
        self.of.wait_event(other.of.record())

    def synchronize(self) -> None:
        """Returns once all that is queued is done."""
        self.of.synchronize()


def default_stream() -> Stream:
    """The queue that work goes to outside of `stream()`: CuPy's current one."""
    return Stream(_cupy(0).cuda.Stream.null)


@contextmanager
def stream(chosen: Stream) -> Iterator[None]:
    """Within it, this thread's work is queued there."""
    with chosen.of:
        yield


def _cupy(index: int) -> Any:
    if not 0 <= index < cuda_devices():
        raise RuntimeError(f"GPU {index} asked for, but this process sees {cuda_devices()}")
    import cupy

    return cupy
