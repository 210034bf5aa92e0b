"""What the tests of layers in other frameworks share: random circuits with features, weights and several outputs."""

import numpy as np

import qdist as qd

FEATURES, WEIGHTS = 3, 5


def random_circuit(seed: int, num_qubits: int = 3) -> tuple[qd.Circuit, qd.ParameterVector, qd.ParameterVector]:
    """Gates of many kinds; angles that mix features and weights, products and functions of them among them."""
    rng = np.random.default_rng(seed)
    x, w = qd.ParameterVector("x", FEATURES), qd.ParameterVector("w", WEIGHTS)
    circuit = qd.Circuit(num_qubits).h(range(num_qubits))
    for k in range(12):
        a, b, c = (int(q) for q in rng.permutation(num_qubits)[:3])
        feature, weight, other = x[int(rng.integers(FEATURES))], w[k % WEIGHTS], w[int(rng.integers(WEIGHTS))]
        match int(rng.integers(7)) if seed % 3 else k % 6:
            case 0:
                circuit.rx(weight + 0.3 * feature, a)
            case 1:
                circuit.ry(weight, a).cx(a, b)
            case 2:
                circuit.rzz(2 * feature - weight, a, b)
            case 3:
                circuit.u(weight, feature, 0.2 * other, c)
            case 4:
                circuit.crx(weight / 2, a, b).rz(feature, c)
            case 5:
                circuit.pauli_rotation(weight, "XYZ", [a, b, c])
            case _:
                circuit.ry(weight * feature, a).p(np.sin(other), b)
    for k in range(WEIGHTS):
        circuit.rx(w[k] + 0.1 * x[k % FEATURES], k % num_qubits)
    return circuit, x, w


def outputs(num_qubits: int = 3) -> list:
    return ["Z0", {"X1 Z2": 0.5, "Y0": -0.8}, qd.Probabilities([2, 0]), qd.Variance("X0 Z1")]


def pennylane_circuit(qml, x, w) -> None:
    """The same circuit as ``plain_circuit``."""
    for q in range(3):
        qml.RX(x[..., q], wires=q)
    for layer in range(2):
        for q in range(3):
            qml.RY(w[6 * layer + q], wires=q)
            qml.RZ(w[6 * layer + 3 + q], wires=q)
        qml.CNOT([0, 1])
        qml.CNOT([1, 2])
        qml.IsingZZ(w[12 + layer] * 0.5, wires=[0, 2])


def plain_circuit() -> tuple[qd.Circuit, qd.ParameterVector, qd.ParameterVector]:
    x, w = qd.ParameterVector("x", 3), qd.ParameterVector("w", 14)
    circuit = qd.Circuit(3)
    for q in range(3):
        circuit.rx(x[q], q)
    for layer in range(2):
        for q in range(3):
            circuit.ry(w[6 * layer + q], q).rz(w[6 * layer + 3 + q], q)
        circuit.cx(0, 1).cx(1, 2).rzz(w[12 + layer] / 2, 0, 2)
    return circuit, x, w
