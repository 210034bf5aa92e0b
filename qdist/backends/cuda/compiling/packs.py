"""Kernels that were compiled ahead: a pack for each architecture, in which a cubin is found by a digest of its text.

A pack is a zip file cubins/sm_NN.zip in this package's folder, made when a wheel is built or by
``python -m qdist.backends.cuda.compiling``. What no pack has, because a source or an option has changed or the GPU is
of another kind, is compiled when it is first needed.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path

__all__ = ["ARCHITECTURES", "FOLDER", "cubin", "digest", "write"]

ARCHITECTURES = (80, 90, 100, 120)
"""A cubin also runs on later GPUs of the same major version: sm_80's on 8.6 and 8.9, sm_100's on 10.3."""

FOLDER = Path(__file__).parents[1] / "cubins"


def digest(code: str, options: Sequence[str]) -> str:
    """What a cubin is found by: it is of exactly this text, compiled with these options."""
    return hashlib.sha256("\0".join((code, *options)).encode()).hexdigest()[:32]


def cubin(code: str, options: Sequence[str], capability: int) -> bytes | None:
    """The machine code for a GPU of this compute capability (90 for 9.0); None where no pack has it."""
    name = digest(code, options)
    for architecture in range(capability, capability // 10 * 10 - 1, -1):
        try:
            with zipfile.ZipFile(FOLDER / f"sm_{architecture}.zip") as pack:
                return pack.read(name)
        except (OSError, KeyError, zipfile.BadZipFile):
            continue
    return None


def write(architecture: int, cubins: Iterable[tuple[str, bytes]], folder: Path) -> Path:
    """Writes the pack of an architecture: digests and machine code. It replaces another one at once, when all is in
    it."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"sm_{architecture}.zip"
    unfinished = path.with_suffix(".part")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as pack:
        for name, code in cubins:
            # A fixed date, so that the same sources give the same file.
            pack.writestr(zipfile.ZipInfo(name), code, zipfile.ZIP_DEFLATED)
    unfinished.replace(path)
    return path
