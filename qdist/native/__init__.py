"""The C++ kernels, in the best variant that this CPU can run.

The build makes one extension module an instruction set from the same sources. ``kernels`` is the one picked here;
``variant`` its name. Set ``QDIST_SIMD`` to a variant's name to force it (to compare or to debug).
"""

import importlib
import os
import platform
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType

__all__ = ["available_variants", "kernels", "supported_variants", "variant"]

# What the psABI levels ask of a CPU, in the names that /proc/cpuinfo uses.
_V2 = {"cx16", "lahf_lm", "popcnt", "sse4_1", "sse4_2", "ssse3"}
_V3 = _V2 | {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}


def supported_variants(machine: str, flags: Iterable[str]) -> list[str]:
    """Variants that a CPU of this machine type with these flags can run, best first."""
    have = set(flags)
    if machine in ("x86_64", "AMD64", "amd64"):
        levels = (("x86_64_v4", _V4), ("x86_64_v3", _V3), ("x86_64_v2", _V2))
        return [name for name, needs in levels if needs <= have]
    if machine in ("aarch64", "arm64"):
        return ["aarch64"]
    return ["generic"]


def available_variants() -> list[str]:
    """Variants that were built into this install."""
    return sorted({f.name.split(".")[0].removeprefix("_kernels_") for f in _built()})


def _built() -> Iterable[Path]:
    # An editable install keeps the built modules beside the wheel's files, not beside this one.
    for folder in __path__:
        yield from Path(folder).glob("_kernels_*.so")


def _cpu_flags() -> set[str]:
    try:
        with open("/proc/cpuinfo") as f:
            for line in f:
                if line.startswith("flags"):
                    return set(line.split(":", 1)[1].split())
    except OSError:
        pass
    return set()


def _load() -> ModuleType:
    wanted = os.environ.get("QDIST_SIMD")
    machine = platform.machine()
    names = [wanted] if wanted else supported_variants(machine, _cpu_flags())
    errors = []
    for name in names:
        try:
            return importlib.import_module(f"{__name__}._kernels_{name}")
        except ModuleNotFoundError as error:
            errors.append(str(error))
    raise ImportError(
        f"qdist has no CPU kernels for this {machine} machine: looked for {names or 'none (CPU is older)'}, "
        f"built are {available_variants() or 'none'}. Reinstall with `pip install .` on this machine."
    )


kernels = _load()
variant: str = kernels.variant
