"""From a circuit to a Plan: the layout of qubits, exchanges between ranks, the order of gates, and fused blocks."""

from qdist.plan.layout import Layout

__all__ = ["Layout"]
