"""SmallStates: new states of few qubits, of which several share an array."""

from __future__ import annotations

from collections.abc import Iterator

from numpy.typing import NDArray

from qdist.backends.memory import ALIGNMENT
from qdist.state.statevector import StateVector

__all__ = ["SMALL_QUBITS", "SmallStates"]

SMALL_QUBITS = 10
"""States of up to so many qubits take less time to run than to make."""

_ROWS = 16
"""States that share an array, which lives as long as one of them."""


class SmallStates:
    """States like a given one on one host, whose amplitudes are not set: to make each alone takes longer than its run.

    For one thread at a time.
    """

    def __init__(self, model: StateVector) -> None:
        self._model, self._size = model, len(model.local)
        self._rows: Iterator[NDArray] = iter(())

    def new(self) -> StateVector:
        """One of them."""
        row = next(self._rows, None)
        if row is None:
            width = max(self._size, ALIGNMENT // self._model.dtype.itemsize)
            shared = self._model.backend.empty((_ROWS, width), self._model.dtype)
            self._rows = iter(shared[:, : self._size])
            row = next(self._rows)
        return self._model.on(row)
