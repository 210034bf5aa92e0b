"""Files of states."""

from __future__ import annotations

from typing import Any

from files import Files

from qdist.plan import Layout
from qdist.state import StateVector, storage


class Fuzzed(Files):
    name = "state"
    count = 3

    def save(self, number: int) -> None:
        # Small blocks, so that there are several.
        storage._SMALLEST_BLOCK = 16
        if number == 0:
            StateVector.basis(3, 5).save(self.path)
        elif number == 1:
            StateVector(2, "complex128", layout=Layout([1, 0])).save(self.path)
        else:
            StateVector(1).save(self.path)

    def load(self) -> Any:
        return StateVector.load(self.path, device="cpu")
