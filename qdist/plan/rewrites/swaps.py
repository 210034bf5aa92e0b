"""SWAP gates, as other names for the qubits of the gates before them.

A gate before a SWAP is the same gate on the other qubit behind it. So all SWAP gates can stand at the beginning, where
they change nothing about |0...0>.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from qdist.plan.operations import Operation, moved

__all__ = ["without_swaps"]


def without_swaps(operations: Sequence[Operation], num_qubits: int) -> Iterable[Operation | None]:
    """For each operation of a circuit that begins with |0...0> the one to run in its place, None for a SWAP."""
    places = list(range(num_qubits))
    found: list[Operation | None] = []
    renamed = False
    for operation in reversed(operations):
        if operation.kind == "swap":
            a, b = operation.targets
            places[a], places[b] = places[b], places[a]
            renamed = True
            found.append(None)
        else:
            found.append(moved(operation, places) if renamed else operation)
    return reversed(found)
