"""Parametrised circuits for variational algorithms."""

from collections.abc import Mapping, Sequence
from typing import Any

from qdist.hints import hinted

from ..circuit import Circuit
from ..errors import CircuitError
from ..gates import GATES, Gate
from ..parameters import ParameterVector
from ..pauli import PauliSum
from ..pauli.operators import Terms
from ..wires import check_count
from .arguments import integer, listed
from .evolution import add_rotation
from .graphs import Entanglement, entangling_pairs, weighted_edges
from .hamiltonians import maxcut


@hinted
def hardware_efficient(
    num_qubits: int,
    layers: int,
    rotations: Sequence[str] = ("ry", "rz"),
    entanglement: Entanglement = "linear",
    entangler: str = "cx",
    final_rotations: bool = False,
    name: str = "theta",
) -> Circuit:
    """Layers of single-qubit rotations and entangling gates (Kandala et al., Nature 549, 242 (2017)).

    A layer is each of `rotations` on every qubit, then `entangler` on every pair. The parameters are one
    vector `name`: layer by layer, rotation by rotation, qubit by qubit.

    Args:
        num_qubits: the number n of qubits.
        layers: the number of layers.
        rotations: names of one-parameter, one-qubit gates.
        entanglement: "linear" (a chain), "circular" (a ring), "full", or as `entangling_pairs` describes.
        entangler: the name of a two-qubit gate without parameters.
        final_rotations: end with one more round of rotations.
        name: of the vector of parameters; two ansätze in one circuit need two names.

    >>> hardware_efficient(20, 8).num_parameters  # the ansatz of the benchmarks: 8 layers of RY, RZ, CX chain
    320
    """
    num_qubits, layers = check_count(num_qubits, "qubits"), check_count(layers, "layers")
    pairs = entangling_pairs(num_qubits, entanglement)
    names = listed(rotations, "rotations", "names of gates")
    turns = [_gate(name, num_qubits=1, num_params=1) for name in names]
    entangle = _gate(entangler, num_qubits=2, num_params=0)
    rounds = layers + bool(final_rotations)
    theta = iter(ParameterVector(name, rounds * len(turns) * num_qubits))
    circuit = Circuit(num_qubits)
    for layer in range(rounds):
        for turn in turns:
            for qubit in range(num_qubits):
                circuit.append(turn, (qubit,), (next(theta),))
        if layer < layers:
            for pair in pairs:
                circuit.append(entangle, pair)
    return circuit


def _gate(name: str, num_qubits: int, num_params: int) -> Gate:
    gate = GATES.get(name) if isinstance(name, str) else None
    if gate is None or (gate.num_qubits, gate.num_params) != (num_qubits, num_params):
        raise CircuitError(f"{name!r} is not a gate on {num_qubits} qubits with {num_params} parameters")
    return gate


@hinted
def real_amplitudes(
    num_qubits: int, reps: int = 3, entanglement: Entanglement = "reverse_linear", name: str = "theta"
) -> Circuit:
    """Qiskit's RealAmplitudes: RY on every qubit and CX, `reps` times, then RY. All amplitudes stay real.

    The n (reps + 1) parameters are the vector `name`, round by round.
    """
    return hardware_efficient(num_qubits, reps, ("ry",), entanglement, final_rotations=True, name=name)


@hinted
def efficient_su2(
    num_qubits: int,
    reps: int = 3,
    entanglement: Entanglement = "reverse_linear",
    rotations: Sequence[str] = ("ry", "rz"),
    name: str = "theta",
) -> Circuit:
    """Qiskit's EfficientSU2: RY and RZ on every qubit and CX, `reps` times, then RY and RZ.

    The 2 n (reps + 1) parameters are the vector `name`: round by round, the RY angles of all qubits before
    the RZ angles.
    """
    return hardware_efficient(num_qubits, reps, rotations, entanglement, final_rotations=True, name=name)


@hinted
def strongly_entangling_layers(
    num_qubits: int, layers: int, ranges: Sequence[int] | None = None, name: str = "theta"
) -> Circuit:
    """PennyLane's StronglyEntanglingLayers (Schuld et al., PRA 101, 032308 (2020)).

    A layer is Rot(phi, theta, omega) = RZ(omega) RY(theta) RZ(phi) on every qubit, then CX from each qubit i
    to qubit (i + r) mod n.

    Args:
        num_qubits: the number n of qubits.
        layers: the number of layers.
        ranges: the range r of each layer; 1, 2, ..., n - 1 and over again when not given.

    The parameters are the vector `name`, in the order of PennyLane's weights of shape (layers, n, 3).
    """
    num_qubits, layers = check_count(num_qubits, "qubits"), check_count(layers, "layers")
    if ranges is None:
        ranges = [1 + layer % max(1, num_qubits - 1) for layer in range(layers)]
    ranges = [integer(r, "a range") for r in listed(ranges, "ranges", "ints, one a layer")]
    if len(ranges) != layers or (num_qubits > 1 and any(r % num_qubits == 0 for r in ranges)):
        raise CircuitError(f"{layers} ranges that are no multiple of {num_qubits} are needed, got {list(ranges)}")
    theta = iter(ParameterVector(name, 3 * num_qubits * layers))
    circuit = Circuit(num_qubits)
    for r in ranges:
        for qubit in range(num_qubits):
            circuit.rz(next(theta), qubit).ry(next(theta), qubit).rz(next(theta), qubit)
        if num_qubits > 1:
            for qubit in range(num_qubits):
                circuit.cx(qubit, (qubit + r) % num_qubits)
    return circuit


@hinted
def qaoa(cost: Terms, layers: int, num_qubits: int | None = None, name: str = "") -> Circuit:
    """The quantum approximate optimisation algorithm (Farhi et al., arXiv 1411.4028).

    From |+...+>, each layer l is exp(-i gamma[l] cost), then exp(-i beta[l] X) on every qubit. The parameters
    are the vectors "gamma" and "beta" (with a `name` "name_gamma" and "name_beta"), first all of gamma. A constant in
    the cost, a global phase, is left out.

    Args:
        cost: a real sum of Z strings, whose low eigenvalues are wanted: a PauliSum or {"Z0 Z1": 0.5, ...}.
        layers: the number of layers.
        num_qubits: the number of qubits, if more than the cost acts on.
        name: what the vectors' names begin with.
    """
    if isinstance(cost, Mapping) and any(isinstance(key, tuple) for key in cost):
        raise CircuitError("the cost is a sum of Z strings; for the edges of a graph use qaoa_maxcut(graph, layers)")
    try:
        cost = PauliSum(cost)
    except TypeError as error:
        raise CircuitError(f"the cost must be a sum of Z strings, such as {{'Z0 Z1': 0.5}}: {error}") from None
    if cost.x.any() or not cost.is_hermitian():
        raise CircuitError("the cost must be a sum of Z strings with real coefficients")
    terms = [(string, c.real) for string, c in cost.simplify() if string.weight]
    circuit = Circuit(cost.num_qubits if num_qubits is None else num_qubits)
    prefix = f"{name}_" if name else ""
    gamma, beta = ParameterVector(f"{prefix}gamma", layers), ParameterVector(f"{prefix}beta", layers)
    circuit.h(range(circuit.num_qubits))
    for layer in range(layers):
        for string, coefficient in terms:
            add_rotation(circuit, 2 * coefficient * gamma[layer], string)
        circuit.rx(2 * beta[layer], range(circuit.num_qubits))
    return circuit


@hinted
def qaoa_maxcut(graph: Any, layers: int, name: str = "") -> Circuit:
    """`qaoa` for `maxcut(graph)`: RZZ(gamma weight) on every edge, then RX(2 beta) on every qubit.

    Args:
        graph: pairs, triples with a weight, {(a, b): weight}, or an object with `edges` such as a networkx Graph.
        layers: the number of layers.
        name: what the vectors' names begin with.
    """
    num_qubits, edges = weighted_edges(graph)
    return qaoa(maxcut(edges), layers, num_qubits, name)
