"""The C++ kernels, in the best variant that this CPU can run.

An extension module is built from the same sources for each instruction set: by an install from sources for this CPU's
alone, in wheels for all of them (``QDIST_VARIANTS`` in CMakeLists.txt). ``kernels`` is the one picked here; ``variant``
its name. Set ``QDIST_SIMD`` to a variant's name to force it (to compare or to debug).
"""

import importlib
import logging
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from qdist.native.cpu import cpu_flags, supported_variants

__all__ = ["available_variants", "kernels", "supported_variants", "variant"]


def available_variants() -> list[str]:
    """Variants that were built into this install."""
    return sorted({f.name.split(".")[0].removeprefix("_kernels_") for f in _built()})


def _built() -> Iterable[Path]:
    # An editable install keeps the built modules beside the wheel's files, not beside this one.
    for folder in __path__:
        yield from Path(folder).glob("_kernels_*.so")


def _load() -> ModuleType:
    wanted = os.environ.get("QDIST_SIMD")
    machine = platform.machine()
    names = [wanted] if wanted else supported_variants(machine, cpu_flags())
    errors = []
    for name in names:
        try:
            return importlib.import_module(f"{__name__}._kernels_{name}")
        except ModuleNotFoundError as error:
            errors.append(str(error))
    if wanted:
        raise ImportError(
            f"QDIST_SIMD={wanted}: CPU kernels of this install are {available_variants()}; unset it, and the best that "
            "this CPU can run is taken"
        )
    raise ImportError(
        f"qdist has no CPU kernels for this {machine} machine: looked for {names or 'none (CPU is older)'}, "
        f"built are {available_variants() or 'none'}. Reinstall with `pip install .` on this machine, or, for "
        "machines that differ, with `pip install . -C cmake.define.QDIST_VARIANTS=all`."
    )


if TYPE_CHECKING:
    # What all variants have in common: _kernels.pyi.
    from . import _kernels as kernels
else:
    kernels = _load()
variant: str = kernels.variant
logging.getLogger("qdist.native").info("CPU kernels: %s (built: %s)", variant, ", ".join(available_variants()))
