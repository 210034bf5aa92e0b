"""What a row program runs of a circuit: its gates, and the rotations that compilers have written as other gates."""

from __future__ import annotations

from qdist.circuit.circuit import Circuit
from qdist.plan.operations import Operation, operations
from qdist.plan.rewrites.conjugated import with_rotations_found
from qdist.plan.rewrites.sandwiches import without_sandwiches

__all__ = ["row_operations"]


def row_operations(circuit: Circuit) -> list[Operation]:
    """Of a unitary circuit, in order. A rotation may flip all qubits: rows have no tiles."""
    return with_rotations_found(without_sandwiches(list(operations(circuit))), circuit.num_qubits)
