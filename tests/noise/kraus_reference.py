"""Density matrices by Kraus operators in plain NumPy, which share nothing with what they check but gates' matrices."""

import functools

import numpy as np

import qdist as qd
from qdist.circuit.instruction import Instruction


def embedded(matrix: np.ndarray, qubits: tuple[int, ...], n: int) -> np.ndarray:
    """A matrix on some qubits as one on n, entry by entry."""
    result = np.zeros((2**n, 2**n), complex)
    for column in range(2**n):
        inner = sum((column >> q & 1) << k for k, q in enumerate(qubits))
        rest = column & ~sum(1 << q for q in qubits)
        for row in range(2 ** len(qubits)):
            result[rest | sum((row >> k & 1) << q for k, q in enumerate(qubits)), column] += matrix[row, inner]
    return result


def evolved(rho: np.ndarray, instruction: Instruction, n: int) -> np.ndarray:
    """rho after one instruction; what is measured is left alone."""
    gate, qubits, angles, *_ = instruction
    if gate.kind in ("readout", "barrier", "measure") or not qubits:
        return rho
    if gate.kind == "reset":
        operators = [np.array([[1, 0], [0, 0]]), np.array([[0, 1], [0, 0]])]
    elif gate.kind == "initialize":
        size = 2 ** len(qubits)
        vector = np.eye(size)[gate.data] if isinstance(gate.data, int) else gate.data
        if vector.ndim == 2:
            vector = functools.reduce(np.kron, gate.data[::-1])
        operators = [np.outer(vector, row) for row in np.eye(size)]
    else:
        operators = gate.data if gate.kind == "channel" else [gate.matrix(*angles)]
    whole = [embedded(operator, qubits, n) for operator in operators]
    return sum(k @ rho @ k.conj().T for k in whole)


def density(circuit: qd.Circuit, params: object = None) -> np.ndarray:
    """rho after the circuit, from |0...0>."""
    bound = circuit if params is None else circuit.bind(params)
    n = bound.num_qubits
    rho = np.zeros((2**n, 2**n), complex)
    rho[0, 0] = 1
    for instruction in bound:
        rho = evolved(rho, instruction, n)
    return rho


def outcomes(circuit: qd.Circuit, params: object = None) -> dict[tuple[int, ...], np.ndarray]:
    """What circuits that measure and branch end in: for each setting of the classical bits as they are read the density
    matrix times its probability."""
    bound = circuit if params is None else circuit.bind(params)
    n = bound.num_qubits
    flips = {i.qubits[0]: i.gate.data for i in bound if i.gate.kind == "readout"}
    start = np.zeros((2**n, 2**n), complex)
    start[0, 0] = 1
    found = {(0,) * bound.num_clbits: start}
    for instruction in bound:
        gate, qubits, _, clbits, condition = instruction
        after: dict[tuple[int, ...], np.ndarray] = {}
        for bits, rho in found.items():
            if not all(test.holds(bits) for test in condition):
                after[bits] = after.get(bits, 0) + rho
            elif gate.kind == "measure":
                wrong = flips.get(qubits[0], (0, 0))
                for outcome, read in np.ndindex(2, 2):
                    projector = embedded(np.diag([1 - outcome, outcome]), qubits, n)
                    weight = wrong[outcome] if outcome != read else 1 - wrong[outcome]
                    new = tuple(read if k == clbits[0] else bit for k, bit in enumerate(bits))
                    after[new] = after.get(new, 0) + weight * projector @ rho @ projector
            else:
                after[bits] = after.get(bits, 0) + evolved(rho, instruction, n)
        found = after
    return found


def expectation(circuit: qd.Circuit, observable: qd.PauliSum, params: object = None) -> float:
    n = circuit.num_qubits
    total = np.zeros((2**n, 2**n), complex)
    for string, coefficient in observable:
        matrix = np.eye(1)
        for q in range(n):
            letter = "IXZY"[(string.x >> q & 1) | (string.z >> q & 1) << 1]
            matrix = np.kron(PAULIS[letter], matrix)
        total += coefficient * matrix
    return float(np.trace(total @ density(circuit, params)).real)


PAULIS = {
    "I": np.eye(2),
    "X": np.array([[0, 1], [1, 0]]),
    "Y": np.array([[0, -1j], [1j, 0]]),
    "Z": np.array([[1, 0], [0, -1]]),
}


def noisy_circuit(kind: str, num_qubits: int = 3) -> tuple[qd.Circuit, qd.PauliSum, np.ndarray]:
    """A circuit of Clifford gates, rotations and others with six parameters, of Pauli channels alone ("pauli") or of
    all kinds ("kraus"), an observable, and values. More qubits are a line of rotations."""
    t = qd.ParameterVector("t", 6)
    c = qd.Circuit(num_qubits)

    def noise(*qubits: int) -> None:
        for q in qubits:
            if kind == "pauli":
                c.depolarizing(0.1, q)
            else:
                c.amplitude_damping(0.15, q)
        if len(qubits) == 2:
            c.pauli_channel({"XZ": 0.05, "YI": 0.02}, *qubits) if kind == "pauli" else c.depolarizing(0.1, *qubits)
        elif kind == "kraus":
            c.thermal_relaxation(50, 70, 10, qubits[0], 0.1)

    c.h(0)
    noise(0)
    c.ry(t[0], 1)
    noise(1)
    c.cx(0, 1)
    noise(0, 1)
    c.u(t[1], t[2], 0.3, 2)
    noise(2)
    c.cy(1, 2).rzz(t[3] * t[0], 0, 2)
    noise(0, 2)
    c.crx(t[4], 2, 0)
    noise(2)
    c.p(t[5], 1).phase_damping(0.2, 1)
    noise(1)
    c.sx(0).iswap(0, 2).y(1).ccx(0, 1, 2).t(0).cp(t[1], 0, 1).ry(0.3, 0).cu(0.1, 0.2, 0.3, 0.4, 1, 2)
    for q in range(3, num_qubits):
        c.cx(q - 1, q).ry(0.3 * q, q)
        noise(q)
    observable = qd.PauliSum({"Z0 Z1": 0.3, "X2": 0.7, "Y0 X1": -0.4, "": 0.2, "Z0 Z1 Z2": 0.5})
    return c, observable, np.array([0.4, 1.1, -0.7, 0.9, 1.3, 0.2])
