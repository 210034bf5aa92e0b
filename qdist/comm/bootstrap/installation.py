"""What each rank runs, compared before anything else: qdist's version, Python, NumPy and the kernels' variant.

Ranks of different versions would plan different exchanges, or the same with kernels that round differently, and the
results would be mixtures of both.
"""

from __future__ import annotations

import platform
import socket
import sys
import warnings
from collections.abc import Sequence

import numpy as np

from qdist.comm.errors import CommError
from qdist.comm.transports.transport import Transport
from qdist.native import variant

__all__ = ["check_same_installation", "compare", "installation"]

_BYTES = 512
"""Of the text that a rank tells. It does not change with the version, so that different ones understand each other."""

_MUST_AGREE = {
    "qdist": "install the same qdist on every host",
    "Python": "start every rank with the same Python (3.x, whatever the last number)",
    "NumPy": "install the same NumPy (at least the same first number) on every host",
    "kernels": "set QDIST_SIMD on all ranks to one variant that all of them can run (`qdist info` lists those built)",
}
"""What must be equal on all ranks, and the way out where it is not."""


def installation() -> dict[str, str]:
    """What this process runs. NumPy's further numbers may differ, with a warning: its random numbers and its rounding
    may change between them, and so may what a program computes from them on each rank."""
    number = np.__version__.split(".")
    return {
        # This package imports nothing of the one that it is part of.
        "qdist": sys.modules[__name__.partition(".")[0]].__version__,
        "Python": ".".join(platform.python_version_tuple()[:2]),
        "NumPy": number[0],
        "kernels": variant,
        "NumPy in full": ".".join(number[:2]),
        "host": socket.gethostname(),
    }


def check_same_installation(transport: Transport) -> None:
    """Raises CommError on every rank if they do not run the same; names the ranks, their hosts and both values.
    Collective. Warns on rank 0 of what may differ."""
    if transport.size == 1:
        return
    text = "\n".join(f"{name}={value}" for name, value in installation().items()).encode()[:_BYTES]
    mine = np.zeros(_BYTES, np.uint8)
    mine[: len(text)] = np.frombuffer(text, np.uint8)
    table = np.empty((transport.size, _BYTES), np.uint8)
    transport.all_gather(mine, table, True)
    compare([_read(row.tobytes()) for row in table], is_first=transport.rank == 0)


def compare(everyone: Sequence[dict[str, str]], is_first: bool) -> None:
    """Raises CommError where ranks differ in what must be equal."""
    for name, way_out in _MUST_AGREE.items():
        if different := _different(everyone, name):
            raise CommError(f"the ranks do not run the same {name}: {different}: {way_out}")
    if is_first and (different := _different(everyone, "NumPy in full")):
        warnings.warn(
            f"the ranks do not run the same NumPy: {different}: what each rank computes for itself may differ, random "
            "numbers above all",
            RuntimeWarning,
            stacklevel=5,
        )


def _different(everyone: Sequence[dict[str, str]], name: str) -> str | None:
    """The first rank that differs from rank 0, as text; None if there is none."""
    expected, host = everyone[0].get(name, "unknown"), everyone[0].get("host", "unknown")
    for rank, other in enumerate(everyone):
        value = other.get(name, "unknown")
        if value != expected:
            return f"rank {rank} on {other.get('host', 'unknown')} has {value}, rank 0 on {host} has {expected}"
    return None


def _read(raw: bytes) -> dict[str, str]:
    lines = raw.rstrip(b"\0").decode(errors="replace").splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}
