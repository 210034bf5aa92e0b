"""Well-known states: circuits that prepare them from |0...0>."""

import math
from typing import Any

from qdist.hints import hinted

from ..circuit import Circuit
from ..errors import CircuitError
from ..wires import check_count
from .graphs import weighted_edges


@hinted
def ghz(num_qubits: int) -> Circuit:
    """The Greenberger-Horne-Zeilinger state (|0...0> + |1...1>) / sqrt(2): H and a chain of CX."""
    num_qubits = _at_least_one(num_qubits)
    circuit = Circuit(num_qubits)
    circuit.h(0)
    for qubit in range(num_qubits - 1):
        circuit.cx(qubit, qubit + 1)
    return circuit


@hinted
def w_state(num_qubits: int) -> Circuit:
    """The W state: the equal superposition of the basis states with a single 1 (Dür et al., PRA 62, 062314
    (2000)).

    The excitation starts on qubit 0 and each step hands on the share of it that the qubits above will hold.
    """
    num_qubits = _at_least_one(num_qubits)
    circuit = Circuit(num_qubits)
    circuit.x(0)
    for qubit in range(1, num_qubits):
        circuit.cry(2 * math.acos(math.sqrt(1 / (num_qubits - qubit + 1))), qubit - 1, qubit)
        circuit.cx(qubit, qubit - 1)
    return circuit


@hinted
def graph_state(graph: Any) -> Circuit:
    """The graph state: |+> on every vertex and CZ on every edge (Hein et al., PRA 69, 062311 (2004)).

    It is the +1 eigenstate of X on a vertex times Z on its neighbours, for every vertex.

    Args:
        graph: pairs of qubits, or an object with `edges` such as a networkx Graph; weights are not used.
    """
    num_qubits, edges = weighted_edges(graph)
    circuit = Circuit(num_qubits)
    circuit.h(range(num_qubits))
    for a, b, _ in edges:
        circuit.cz(a, b)
    return circuit


def _at_least_one(num_qubits: int) -> int:
    count = check_count(num_qubits, "qubits")
    if count < 1:
        raise CircuitError(f"the state needs at least one qubit, got {count}")
    return count
