"""What is given in place of a circuit, a communicator or a layout, often another library's: what to give instead."""

from __future__ import annotations

from typing import Any

from qdist.circuit import Circuit
from qdist.comm import Communicator
from qdist.plan.layout import Layout

__all__ = ["checked_circuit", "checked_communicator", "checked_layout"]

_CONVERTED = {
    "builtins.str": "Circuit.from_qasm(text) reads OpenQASM",
    "qiskit": "qdist.interop.qiskit.from_qiskit(circuit) makes one",
    "pennylane": 'PennyLane\'s circuits run on qml.device("qdist.qubit", wires=...)',
}
"""By the library of a type, or by the type."""


def checked_circuit(given: Any) -> Circuit:
    """The circuit. Raises TypeError for anything else, with the way to make one of it."""
    if isinstance(given, Circuit):
        return given
    kind = type(given)
    way = _CONVERTED.get(kind.__module__.partition(".")[0], _CONVERTED.get(f"{kind.__module__}.{kind.__name__}", ""))
    raise TypeError(f"a qdist.Circuit is needed, not {kind.__name__}{way and f': {way}'}")


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
