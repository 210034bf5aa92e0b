"""One interface (Backend) to the CPU and to GPUs: memory, executors of plans, kernels on amplitudes."""

from qdist.backends.backend import Backend, Executor, ObservableKernel, RowKernel
from qdist.backends.choice import backend_on, checked_device, chosen_device, on_host
from qdist.backends.errors import StateError

__all__ = [
    "Backend",
    "Executor",
    "ObservableKernel",
    "RowKernel",
    "StateError",
    "backend_on",
    "checked_device",
    "chosen_device",
    "on_host",
]
