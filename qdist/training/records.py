"""What a training records: metrics of every step in memory, a JSONL file of them, and when there is no progress."""

from __future__ import annotations

import json
import math
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from qdist.tensorfile import naming
from qdist.training.checks import check_whole

__all__ = ["OWN_NAMES", "History", "Log", "Patience"]

OWN_NAMES = {"step", "event", "time"}
"""What a line of the log has beside metrics."""


class History:
    """The metrics of all steps by name; NaN where a step recorded none of that name."""

    def __init__(self) -> None:
        self.steps = 0
        self.values: dict[str, list[float]] = {}

    def add(self, metrics: dict[str, float]) -> None:
        for name in metrics:
            self.values.setdefault(name, [math.nan] * self.steps)
        self.steps += 1
        for name, values in self.values.items():
            values.append(metrics.get(name, math.nan))

    def state_dict(self) -> dict[str, Any]:
        return {name: np.array(values, np.float64) for name, values in self.values.items()}

    def load_state_dict(self, state: dict[str, Any], steps: int) -> None:
        self.steps = steps
        self.values = {name: values.numpy().tolist() for name, values in state.items()}


class Log:
    """A JSONL file: one object a line, with "step" and its metrics, or "event" and what it was.

    After a restart, lines of steps that have to be taken again are left out, so that every step stands there once, and
    so is what a crash has left of others. Raises ValueError for a file of something else, which stays as it is.
    """

    def __init__(self, path: Path, step: int) -> None:
        lines: list[str] = []
        if path.exists():
            # A crash may have left bytes that are no text.
            with open(path, errors="surrogateescape", newline="\n") as file:
                lines = list(file)
        entries = [_entry(line) for line in lines]
        if not any(entries) and any(line.strip() and line.endswith("\n") for line in lines):
            raise ValueError(f"log={str(path)!r}: there is no line of a log of a training in it; name another file")
        stay = [line for line, entry in zip(lines, entries) if "event" in entry or entry.get("step", step) < step]
        beside = path.with_name(f".{path.name}.part")
        with naming(path):
            with open(beside, "w", errors="surrogateescape", newline="\n") as file:
                file.writelines(line if line.endswith("\n") else f"{line}\n" for line in stay)
            os.replace(beside, path)
        self._file: TextIO = open(path, "a")  # noqa: SIM115 - closed by close()

    def write(self, **entry: Any) -> None:
        # JSON has no NaN; a loss that is none is a fact that a log must be able to tell.
        plain = {k: str(v) if isinstance(v, float) and not math.isfinite(v) else v for k, v in entry.items()}
        self._file.write(json.dumps({**plain, "time": round(time.time(), 3)}) + "\n")
        self._file.flush()

    def close(self) -> None:
        # A line that a full disk has no room for was told of by `write`.
        with suppress(OSError):
            self._file.close()


def _entry(line: str) -> dict[str, Any]:
    """What a line tells of an event or a step; nothing for a line that was not written whole, or by others."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    whole = isinstance(entry, dict) and ("event" in entry or type(entry.get("step")) is int)
    return entry if whole else {}


class Patience:
    """Whether a metric has stopped to get smaller.

    Args:
        steps: after so many recorded values without a new smallest one there is no more progress.
        least: how much smaller a value must be to count.
    """

    def __init__(self, steps: int, least: float) -> None:
        check_whole("patience", steps, 1)
        if math.isnan(least):
            raise ValueError(f"least={least}: must be a number")
        self._steps, self._least = steps, least
        self.best, self.since = math.inf, 0

    def over(self, value: float) -> bool:
        """Whether patience is at its end after this value; NaN is no progress."""
        if value < self.best - self._least:
            self.best, self.since = value, 0
        else:
            self.since += 1
        return self.since >= self._steps
