"""Which MPI: the launcher's own when there is one, the bundled one otherwise.

mpi4py's wheels load libmpi at run time. A process that Open MPI's mpirun started but that loads MPICH would find itself
alone, once a rank: everything computed N times over, in silence. So the library follows the launcher.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from qdist.comm.errors import CommError

__all__ = [
    "Mpirun",
    "bundled_prefixes",
    "cuda_aware",
    "find_mpirun",
    "loaded_library",
    "point_mpi4py_at_launcher",
]

_LAUNCHERS = ("hydra_pmi_proxy", "mpiexec", "mpirun", "prte", "orte", "orted")
_LIB_FOLDERS = ("lib", "lib64", f"lib/{os.uname().machine}-linux-gnu")
_OPEN_MPI, _MPICH = "libmpi.so.40", "libmpi.so.12"


@dataclass(frozen=True, slots=True)
class Mpirun:
    """A launcher: where it is and which family's flags it takes."""

    path: str
    family: str
    """mpich or openmpi."""
    version: str
    bundled: bool
    """Whether it came with this Python environment."""


def bundled_prefixes() -> tuple[Path, ...]:
    """Where pip puts an MPI wheel's bin/ and lib/."""
    import site

    found = [Path(sys.prefix), Path(site.getuserbase())]
    return tuple(p.resolve() for p in found)


def find_mpirun(which: str = "auto") -> Mpirun:
    """The launcher to use: ``auto`` (the cluster's if one is on PATH, else the bundled), ``bundled``, or a path.

    Raises CommError when there is none.
    """
    if which not in ("auto", "bundled"):
        path = shutil.which(which)
        if path is None:
            raise CommError(f"no launcher at {which!r}")
        return _inspect(path)
    if which == "auto":
        for folder in os.environ.get("PATH", "").split(os.pathsep):
            if _is_bundled(folder):
                continue
            for name in ("mpirun", "mpiexec"):
                if path := shutil.which(name, path=folder):
                    return _inspect(path)
    for prefix in bundled_prefixes():
        for name in ("mpirun", "mpiexec"):
            if path := shutil.which(name, path=str(prefix / "bin")):
                return _inspect(path)
    raise CommError("no mpirun was found, not even the bundled one: `pip install mpich` brings it")


def point_mpi4py_at_launcher(environ: Mapping[str, str] = os.environ) -> str | None:
    """Has mpi4py load the library of the launcher that started this process. To be called before mpi4py.MPI is
    imported; returns the library, or None where mpi4py's own search (bundled first, then the system's) is right."""
    if "mpi4py.MPI" in sys.modules or "MPI4PY_LIBMPI" in environ or "MPI4PY_MPIABI" in environ:
        return None
    library = library_for(_launcher(), environ)
    if library is not None:
        os.environ["MPI4PY_LIBMPI"] = library
    return library


def library_for(launcher: Path | None, environ: Mapping[str, str]) -> str | None:
    """The MPI library that belongs to a launcher's executable, or None for the bundled one."""
    wanted = _OPEN_MPI if "OMPI_COMM_WORLD_SIZE" in environ else _MPICH
    if launcher is not None:
        if _is_bundled(launcher.parent):
            return None
        for folder in _LIB_FOLDERS:
            if (library := launcher.parent.parent / folder / wanted).exists():
                return str(library)
    if wanted == _OPEN_MPI:
        return _OPEN_MPI
    return None


def loaded_library() -> str | None:
    """Path of the libmpi that this process has loaded, or None."""
    try:
        with open("/proc/self/maps") as f:
            for line in f:
                path = line.split(maxsplit=5)[-1].strip()
                if os.path.basename(path).startswith("libmpi.so"):
                    return path
    except OSError:
        pass
    return None


def cuda_aware() -> bool:
    """Whether the loaded MPI library says that it takes GPU memory."""
    path = loaded_library()
    if path is None:
        return False
    query = getattr(ctypes.CDLL(path), "MPIX_Query_cuda_support", None)
    return bool(query is not None and query() == 1)


def _is_bundled(folder: str | Path) -> bool:
    resolved = Path(folder or ".").resolve()
    return any(resolved == prefix / "bin" for prefix in bundled_prefixes())


def _inspect(path: str) -> Mpirun:
    text = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20).stdout
    family = "openmpi" if "Open MPI" in text or "OpenRTE" in text or "prte" in text.lower() else "mpich"
    version = next((w for w in text.replace(",", " ").split() if w[0].isdigit()), "unknown")
    return Mpirun(path, family, version, _is_bundled(Path(path).parent))


def _launcher() -> Path | None:
    """The executable of the nearest ancestor that looks like an MPI launcher."""
    for pid in _ancestors():
        try:
            exe = Path(os.readlink(f"/proc/{pid}/exe"))
        except OSError:
            continue
        if exe.name.startswith(_LAUNCHERS):
            return exe
    return None


def _ancestors() -> Iterator[int]:
    pid = os.getppid()
    while pid > 1:
        yield pid
        try:
            with open(f"/proc/{pid}/stat") as f:
                # The name, in parentheses, may itself hold spaces and parentheses.
                pid = int(f.read().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return
