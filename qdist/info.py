"""What `qdist info` prints: what was found on this machine, and how to get what was not."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
from collections.abc import Callable

from qdist import __version__
from qdist.comm.errors import CommError
from qdist.comm.place import cores, cuda_devices, cuda_extra
from qdist.comm.transports.libmpi import find_mpirun

__all__ = ["report"]

Finding = tuple[bool, str]
"""Whether it is there, and what to print: what was found, or the line that brings it."""


def report() -> str:
    """The report, one line a finding."""
    findings: dict[str, Callable[[], Finding]] = {
        "qdist": lambda: (True, f"{__version__}, Python {platform.python_version()}, NumPy {_version('numpy')}"),
        "CPU kernels": _kernels,
        "cores": lambda: (True, f"{cores()} ({platform.machine()})"),
        "memory": _memory,
        "MPI": _mpi,
        "GPU": _gpu,
        "CuPy": _cupy,
        "NCCL": _nccl,
        "cuStateVec": _custatevec,
        "plots": lambda: _package("matplotlib", "plot"),
        "torch": lambda: _package("torch", "torch"),
        "PennyLane": lambda: _package("pennylane", "pennylane"),
        "Qiskit": lambda: _package("qiskit", "qiskit"),
    }
    width = max(map(len, findings))
    lines = []
    for name, find in findings.items():
        there, text = find()
        lines.append(f"{'ok     ' if there else 'missing'}  {name:<{width}}  {text}")
    return "\n".join(lines)


def _kernels() -> Finding:
    try:
        from qdist import native
    except ImportError as error:
        return False, str(error)
    return True, f"{native.variant} (built: {', '.join(native.available_variants())})"


def _memory() -> Finding:
    with open("/proc/meminfo") as f:
        kib = {line.split(":")[0]: int(line.split()[1]) for line in f}
    return True, f"{kib['MemTotal'] / 2**20:.1f} GiB, {kib['MemAvailable'] / 2**20:.1f} GiB free"


def _mpi() -> Finding:
    try:
        mpirun = find_mpirun()
    except CommError as error:
        return False, str(error)
    kind = "bundled" if mpirun.bundled else "this system's"
    return True, f"{mpirun.family} {mpirun.version} ({kind}: {mpirun.path}), mpi4py {_version('mpi4py')}"


def _gpu() -> Finding:
    count = cuda_devices()
    if count == 0:
        return False, "no CUDA device or driver on this machine; everything runs on the CPU"
    return True, f"{count} CUDA device{'s' if count > 1 else ''}"


def _cupy() -> Finding:
    if importlib.util.find_spec("cupy") is None:
        return False, f"`pip install 'qdist[{cuda_extra()}]'` brings it"
    import cupy

    version = cupy.cuda.runtime.runtimeGetVersion()
    return True, f"{cupy.__version__} for CUDA {version // 1000}.{version % 1000 // 10}"


def _nccl() -> Finding:
    if importlib.util.find_spec("cupy") is None:
        return False, "comes with CuPy"
    try:
        from cupy.cuda import nccl
    except ImportError:
        return False, "`pip install nvidia-nccl-cu12` or nvidia-nccl-cu13 brings it"
    if not getattr(nccl, "available", False):
        return False, "`pip install nvidia-nccl-cu12` or nvidia-nccl-cu13 brings it"
    return True, str(nccl.get_version())


def _custatevec() -> Finding:
    for name in ("cuquantum-python-cu13", "cuquantum-python-cu12"):
        if version := _version(name):
            return True, f"{name} {version}"
    return False, f"`pip install 'qdist[{cuda_extra()}]'` brings it (optional: CuPy alone is enough)"


def _package(name: str, extra: str) -> Finding:
    if version := _version(name):
        return True, version
    return False, f"`pip install 'qdist[{extra}]'` brings it (optional)"


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
