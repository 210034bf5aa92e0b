"""Which variants of the kernels a CPU can run. The build runs this file as well, to make the one for the CPU at hand:

python cpu.py        prints them, best first
"""

import platform
from collections.abc import Iterable

__all__ = ["cpu_flags", "supported_variants"]

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


def cpu_flags() -> set[str]:
    """What this CPU offers, as Linux names it; nothing where it does not say."""
    try:
        with open("/proc/cpuinfo") as f:
            for line in f:
                if line.startswith("flags"):
                    return set(line.split(":", 1)[1].split())
    except OSError:
        pass
    return set()


if __name__ == "__main__":
    print(*supported_variants(platform.machine(), cpu_flags()))
