"""What the benchmarks share: the machine they ran on, tables, and results as JSON with both."""

from __future__ import annotations

import datetime
import json
import math
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import qdist

RESULTS = Path(__file__).parent / "results"


def machine() -> dict[str, Any]:
    """The machine and software that a result belongs to."""
    return {
        "cpu": _cpu(),
        "architecture": platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "qdist": qdist.__version__,
        "date": datetime.date.today().isoformat(),
    }


def machine_line(known: dict[str, Any] | None = None) -> str:
    """known: what a file of results says of its machine; by default this one."""
    m = known or machine()
    return f"{m['cpu']}, {m['cores']} cores, {m['memory_gib']} GiB; Python {m['python']}, NumPy {m['numpy']}"


def _cpu() -> str:
    fields = dict(
        (part.strip() for part in line.split(":", 1))
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if ":" in line
    )
    if name := fields.get("model name"):
        return str(name)
    # AArch64 kernels give numbers, not names; lscpu's table of them for the cores that matter here.
    parts = {"0xd0c": "Neoverse-N1", "0xd40": "Neoverse-V1", "0xd49": "Neoverse-N2", "0xd4f": "Neoverse-V2"}
    return parts.get(fields.get("CPU part", ""), f"CPU part {fields.get('CPU part', 'unknown')}")


def table(header: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns aligned, numbers to three digits."""
    cells = [[_cell(c) for c in row] for row in [header, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = ["  ".join(c.rjust(w) for c, w in zip(row, widths)) for row in cells]
    lines.insert(1, "  ".join("-" * w for w in widths))
    return "\n".join(lines)


def _cell(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def save(name: str, results: Any) -> Path:
    """Writes results/NAME.json with the machine beside the numbers; returns the path."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"machine": machine(), "results": _plain(results)}, indent=1, allow_nan=False) + "\n")
    return path


def _plain(results: Any) -> Any:
    """With None for numbers that are not there: JSON has no NaN."""
    if isinstance(results, dict):
        return {key: _plain(value) for key, value in results.items()}
    if isinstance(results, list | tuple):
        return [_plain(value) for value in results]
    return None if isinstance(results, float) and not math.isfinite(results) else results
