"""Gates that have no name of their own, and angles for any gate: what programs are tried with, alone and on ranks."""

import numpy as np

import qdist as qd
from qdist.circuit import GATES, diagonal_gate, pauli_rotation_gate, permutation_gate, unitary_gate
from qdist.circuit.gate import Gate


def angles(gate: Gate) -> list[float]:
    return [0.37 + 0.61 * k for k in range(gate.num_params)]


def odd_gates() -> list[tuple[str, Gate]]:
    rng = np.random.default_rng(11)
    phases = np.exp(1j * rng.normal(size=64))
    found = [
        ("unitary 3", unitary_gate(qd.library.random_circuits.random_su(8, seed=1))),
        ("unitary 4", unitary_gate(qd.library.random_circuits.random_su(16, seed=2))),
        ("unitary 6", unitary_gate(qd.library.random_circuits.random_su(64, seed=3))),
        ("controlled unitary", unitary_gate(qd.library.random_circuits.random_su(4, seed=4)).controlled(2, 1)),
        ("diagonal 2", diagonal_gate(phases[:4])),
        ("diagonal 3", diagonal_gate(phases[:8])),
        ("diagonal 6", diagonal_gate(phases)),
        ("controlled diagonal", diagonal_gate(phases[:4]).controlled(2, 2)),
        ("permutation 3", permutation_gate(rng.permutation(8))),
        ("permutation 5", permutation_gate(rng.permutation(32))),
        ("controlled permutation", permutation_gate(rng.permutation(4)).controlled(1, 0)),
        ("ccx_o1", GATES["x"].controlled(2, 1)),
        ("x under five", GATES["x"].controlled(5, 19)),
        ("p under three", GATES["p"].controlled(3, 5)),
        ("crz_o0", GATES["rz"].controlled(1, 0)),
        ("rzz under two", GATES["rzz"].controlled(2, 2)),
        ("ry_o0", GATES["ry"].controlled(1, 0)),
        ("swap_o0", GATES["swap"].controlled(1, 0)),
        ("rzx under one", GATES["rzx"].controlled()),
        ("controlled phase of everything", GATES["gphase"].controlled(2, 0)),
        ("controlled rotation", pauli_rotation_gate("XIY").controlled(2, 1)),
        ("controlled Z rotation", pauli_rotation_gate("ZZ").controlled(1, 0)),
        ("controlled I rotation", pauli_rotation_gate("I").controlled(1, 0)),
    ]
    labels = ["I", "IZ", "Z", "ZZ", "ZIZZZ", "X", "Y", "XY", "ZX", "XYZ", "YYZX", "XZZZY", "XYXYZXY"]
    return found + [(f"rotation {label}", pauli_rotation_gate(label)) for label in labels]
