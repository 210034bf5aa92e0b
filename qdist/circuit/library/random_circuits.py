"""Random circuits: quantum volume and random gates. The same seed gives the same circuit."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from qdist.hints import hinted

from ..circuit import Circuit
from ..errors import CircuitError
from ..gates import GATES
from ..wires import check_count
from .arguments import listed

Seed = int | np.random.Generator | None

# A list of its own, rather than the gate table's, so that a new gate does not change the circuit of an old
# seed.
# fmt: off
RANDOM_GATES = (
    "h", "x", "y", "z", "s", "sdg", "t", "tdg", "sx", "sxdg", "rx", "ry", "rz", "p", "u", "r",
    "cx", "cy", "cz", "ch", "cs", "csx", "cp", "crx", "cry", "crz", "cu",
    "swap", "iswap", "dcx", "ecr", "rxx", "ryy", "rzz", "rzx", "xx_plus_yy", "fsim", "ccx", "ccz", "cswap",
)
# fmt: on


@hinted
def quantum_volume(num_qubits: int, depth: int | None = None, seed: Seed = None) -> Circuit:
    """The model circuit of quantum volume (Cross et al., PRA 100, 032328 (2019)).

    Args:
        num_qubits: the number n of qubits.
        depth: the number of layers, n when not given. In each, the qubits are paired at random (an odd one
            rests) and every pair gets its own Haar-random SU(4).
        seed: an integer, or a NumPy Generator to draw from.
    """
    rng = _generator(seed)
    circuit = Circuit(num_qubits)
    for _ in range(num_qubits if depth is None else check_count(depth, "layers")):
        order = rng.permutation(num_qubits).tolist()
        for k in range(0, num_qubits - 1, 2):
            circuit.unitary(random_su(4, rng), order[k : k + 2])
    return circuit


@hinted
def random_su(size: int, seed: Seed = None) -> NDArray[np.complex128]:
    """A Haar-random matrix of SU(size): a Gaussian matrix made unitary (Mezzadri, math-ph/0609050),
    determinant 1.
    """
    rng, size = _generator(seed), check_count(size, "rows of the matrix")
    if not size:
        raise CircuitError("a matrix of SU(size) has at least one row, got size=0")
    gaussian = rng.normal(size=(size, size)) + 1j * rng.normal(size=(size, size))
    q, r = np.linalg.qr(gaussian)
    # The factorisation is unique only up to phases; this choice of them makes the measure Haar's.
    unitary = q * (np.diagonal(r) / np.abs(np.diagonal(r)))
    return unitary * np.exp(-1j * np.angle(np.linalg.det(unitary)) / size)


@hinted
def random_circuit(num_qubits: int, depth: int, seed: Seed = None, gates: Sequence[str] = RANDOM_GATES) -> Circuit:
    """Layers of random gates with random angles, in which every qubit takes part in at most one gate.

    Args:
        num_qubits: the number of qubits.
        depth: the number of layers; every qubit is in a gate of each of them unless only wider gates are
            allowed.
        seed: an integer, or a NumPy Generator to draw from.
        gates: the names to draw from, each as likely as the others among those that still fit.
    """
    gates = listed(gates, "gates", "names of gates")
    unknown = [name for name in gates if name not in GATES]
    if unknown:
        raise CircuitError(f"no gates of the names {unknown} exist")
    rng = _generator(seed)
    choices = [GATES[name] for name in gates]
    circuit = Circuit(num_qubits)
    for _ in range(check_count(depth, "layers")):
        free = rng.permutation(num_qubits).tolist()
        while fitting := [gate for gate in choices if 0 < gate.num_qubits <= len(free)]:
            gate = fitting[rng.integers(len(fitting))]
            qubits = [free.pop() for _ in range(gate.num_qubits)]
            circuit.append(gate, qubits, rng.uniform(0, 2 * math.pi, size=gate.num_params).tolist())
    return circuit


def _generator(seed: Seed) -> np.random.Generator:
    try:
        return np.random.default_rng(seed)
    except (TypeError, ValueError):
        raise CircuitError(f"seed={seed!r}: a seed is an int >= 0, a NumPy Generator, or None") from None
