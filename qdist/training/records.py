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

from qdist.training.checks import check_whole

__all__ = ["History", "Log", "Patience"]


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

    After a restart, lines of steps that have to be taken again are left out, so that every step stands there once.
    """

    def __init__(self, path: Path, step: int) -> None:
        lines = []
        if path.exists():
            lines = [line for line in path.read_text().splitlines(keepends=True) if _stays(line, step)]
        beside = path.with_name(f".{path.name}.part")
        with open(beside, "w") as file:
            file.writelines(lines)
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


def _stays(line: str, step: int) -> bool:
    """Whether a line was written whole and tells of a step before this one, or of an event."""
    try:
        entry = json.loads(line)
    except ValueError:
        return False
    return isinstance(entry, dict) and ("event" in entry or entry.get("step", step) < step)


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
