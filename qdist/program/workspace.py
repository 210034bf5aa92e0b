"""Workspace: the two states of a gradient and their product, passed to whoever computes it; and the ones that are
free."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from qdist.state.statevector import StateVector

__all__ = ["MOST_BYTES", "Workspace", "Workspaces"]

MOST_BYTES = 1 << 28
"""States of up to so many bytes are kept for the next gradient: page faults of new memory cost as much as a sweep."""


MOST_POOLED = 1 << 26
"""The same where memory comes from a pool: small states, for which it takes longer to set them up than to run."""


class Workspace:
    """A ket and a bra whose amplitudes are of no use any more, and an array of one double beside them; None where one
    has not been needed yet."""

    __slots__ = ("bra", "ket", "product")

    def __init__(self) -> None:
        self.ket: StateVector | None = None
        self.bra: StateVector | None = None
        self.product: Any = None

    def room_of_product(self) -> Any:
        """The array beside the bra: launches that are recorded once find it where it was."""
        if self.product is None:
            assert self.bra is not None, "made before"
            self.product = self.bra.backend.empty((1,), np.dtype(np.float64))
        return self.product


class Workspaces:
    """At most one free workspace. Threads may take and put back at any time: none has one that another has."""

    __slots__ = ("_free",)

    def __init__(self) -> None:
        self._free: deque[Workspace] = deque(maxlen=1)

    def take(self) -> Workspace:
        """A free workspace, or a new one."""
        try:
            return self._free.pop()
        except IndexError:
            return Workspace()

    def put_back(self, workspace: Workspace) -> None:
        """It is free from now on, if it is worth keeping."""
        bra = workspace.bra
        if bra is not None and bra.local.nbytes <= (MOST_POOLED if bra.backend.pools_memory else MOST_BYTES):
            self._free.append(workspace)
