"""The CPU: NumPy arrays, and the C++ kernels of ``qdist.native``."""

from qdist.backends.cpu.backend import CpuBackend

__all__ = ["CpuBackend"]
