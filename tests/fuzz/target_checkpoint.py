"""Checkpoints."""

from __future__ import annotations

from typing import Any

import numpy as np
from files import Files

from qdist import checkpoint


class Fuzzed(Files):
    name = "checkpoint"
    count = 3

    def save(self, number: int) -> None:
        weight, nested = np.arange(6.0, dtype=np.float32).reshape(2, 3), [1, (0.5, None), {"deep": np.ones(2)}]
        states: list[Any] = [
            {"w": weight, "epoch": 3, "z": nested},
            {"model": {"a.b": np.array([1 + 2j], np.complex64)}, "empty": np.zeros((0, 3)), "s": np.float64(2)},
            [1, "two", float("inf"), {}, True],
        ]
        checkpoint.save(self.path, states[number])

    def load(self) -> Any:
        return checkpoint.load(self.path)
