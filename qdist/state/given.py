"""What is given in place of a communicator or a layout, often another library's: what to give instead."""

from __future__ import annotations

from typing import Any

from qdist.comm import Communicator
from qdist.plan.layout import Layout

__all__ = ["checked_communicator", "checked_layout"]


def checked_communicator(given: Any) -> Communicator:
    """The communicator. Raises TypeError for anything else, such as one of an MPI library."""
    if isinstance(given, Communicator):
        return given
    raise TypeError(
        f'comm is a communicator such as that of qdist.comm.init(), or of a mesh, mesh["state"], not '
        f"{type(given).__name__}"
    )


def checked_layout(given: Any) -> Layout:
    """The layout. Raises TypeError for anything else."""
    if isinstance(given, Layout):
        return given
    raise TypeError(f"layout is a qdist.plan.Layout, of the qubits' positions, not {type(given).__name__}")
