"""qdist as a device of PennyLane: qml.device("qdist.qubit", wires=n)."""

from .device import QdistQubit

__all__ = ["QdistQubit"]
