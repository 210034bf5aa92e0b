"""A circuit that loses its norm where rounding errors of equal gates add up."""

import numpy as np

import qdist as qd


def repeated_turns() -> qd.Circuit:
    """160 turns by pi / 2: cos and sin of an eighth of a circle are both rounded down in single precision, by 1.7e-8 of
    themselves. Then four that have parameters. A billionth more, since pi / 2 itself would be taken for a constant."""
    circuit = qd.Circuit(4)
    for layer in range(40):
        for q in range(4):
            circuit.ry(np.pi / 2 + 1e-9, q).rz(0.3 + 0.2 * layer + q, q)
        circuit.cz(layer % 4, (layer + 1) % 4)
    for q, angle in enumerate(qd.ParameterVector("t", 4)):
        circuit.rx(angle, q)
    return circuit
