"""Matrices that are not unitary, as trajectories apply them, among gates: the state gets the length they give it."""

from collections.abc import Callable

import numpy as np
import pytest

import qdist as qd
from qdist.circuit.channels import LinearGate
from qdist.circuit.instruction import Instruction
from qdist.program.program import Program

Matrix = np.ndarray


def _unitary(rng: np.random.Generator, size: int) -> Matrix:
    return np.linalg.qr(rng.normal(size=(size, size)) + 1j * rng.normal(size=(size, size)))[0]


def _rotation(letters: str, angle: float) -> Matrix:
    paulis = {"X": [[0, 1], [1, 0]], "Y": [[0, -1j], [1j, 0]], "Z": [[1, 0], [0, -1]]}
    product = np.eye(1)
    for letter in letters:
        product = np.kron(np.array(paulis[letter]), product)
    return np.cos(angle / 2) * np.eye(len(product)) - 1j * np.sin(angle / 2) * product


_KINDS: dict[str, Callable[[np.random.Generator], Matrix]] = {
    "identity": lambda rng: 0.9 * np.eye(2),
    "pair's identity": lambda rng: 0.9 * np.eye(4),
    "real rotation": lambda rng: 0.8 * _rotation("Y", rng.uniform(0, 6)),
    "imaginary rotation": lambda rng: 1.1 * _rotation("X", rng.uniform(0, 6)),
    "phase": lambda rng: 0.9j * _rotation("Z", rng.uniform(0, 6)),
    "hadamard": lambda rng: 0.5 * np.array([[1, 1], [1, -1]]),
    "flip": lambda rng: 0.3 * np.array([[0, 1], [1, 0]]),
    "damping": lambda rng: np.diag([1, rng.uniform(0.5, 1)]),
    "decay": lambda rng: np.array([[0.1, 1], [0, 0.1]]),
    "sum": lambda rng: np.array([[1, 1], [0, 0]]),
    "projector": lambda rng: np.array([[1, 0], [0, 0]]),
    "matrix": lambda rng: rng.normal(size=(2, 2)) + 1j * rng.normal(size=(2, 2)),
    "unitary": lambda rng: 0.7 * _unitary(rng, 2),
    "pair": lambda rng: rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4)),
    "pair's unitary": lambda rng: 0.7 * _unitary(rng, 4),
    "pair's rotation": lambda rng: 0.7 * _rotation("XX", rng.uniform(0, 6)),
    "product": lambda rng: np.kron(rng.normal(size=(2, 2)), 0.9 * _rotation("Y", 0.4)),
    "exchange": lambda rng: 0.6 * np.eye(4)[[0, 2, 1, 3]],
}


def _applied(matrix: Matrix, qubits: tuple[int, ...], state: Matrix) -> Matrix:
    n = len(state).bit_length() - 1
    axes = [n - 1 - q for q in reversed(qubits)]
    moved = np.moveaxis(state.reshape((2,) * n), axes, range(len(axes)))
    result = (matrix @ moved.reshape(len(matrix), -1)).reshape(moved.shape)
    return np.moveaxis(result, range(len(axes)), axes).ravel()


def _check(circuit: qd.Circuit, device: str, tolerances: dict[str, float]) -> None:
    """In each of these dtypes."""
    state = np.zeros(1 << circuit.num_qubits, np.complex128)
    state[0] = 1
    for gate, qubits, params, *_ in circuit:
        state = _applied(gate.matrix(*map(float, params)), qubits, state)
    for dtype, tolerance in tolerances.items():
        found = Program(circuit, device=device, dtype=dtype).run().amplitudes()
        np.testing.assert_allclose(found, state, rtol=0, atol=tolerance * np.linalg.norm(state))


def _circuit(kinds: list[str], num_qubits: int, seed: int, gates: bool = True) -> qd.Circuit:
    """A matrix of each kind on random qubits, with gates between them."""
    rng = np.random.default_rng(seed)
    circuit = qd.Circuit(num_qubits)
    for q in range(num_qubits):
        circuit.ry(0.3 + 0.2 * q, q).rz(0.1 * q, q)
    for kind in kinds:
        matrix = _KINDS[kind](rng)
        qubits = rng.permutation(num_qubits)[: len(matrix).bit_length() - 1]
        circuit = circuit.with_instructions([*circuit, Instruction(LinearGate(matrix), tuple(map(int, qubits)))])
        if gates:
            a, b = map(int, rng.permutation(num_qubits)[:2])
            circuit.cx(a, b).ry(float(rng.uniform(0, 6)), b).rx(float(rng.uniform(0, 6)), a).rzz(0.3, a, b).h(a)
    return circuit


@pytest.mark.parametrize("num_qubits", [3, 13])
@pytest.mark.parametrize("kind", list(_KINDS))
def test_each_kind_keeps_its_length(kind: str, num_qubits: int, device: str) -> None:
    for gates in (False, True):
        for seed in range(3):
            circuit = _circuit([kind] * 3, num_qubits, seed, gates)
            _check(circuit, device, {"complex128": 1e-13, "complex64": 2e-6})


@pytest.mark.parametrize("num_qubits", [2, 5, 12, 14])
def test_all_kinds_one_after_the_other(num_qubits: int, device: str) -> None:
    for seed in range(6):
        kinds = np.random.default_rng(seed).permutation(list(_KINDS)).tolist()
        _check(_circuit(kinds, num_qubits, seed), device, {"complex128": 1e-12, "complex64": 1e-5})


@pytest.mark.parametrize("num_qubits", [6, 13])
def test_long_circuits_that_lose_little(num_qubits: int, device: str) -> None:
    """Rounding errors of long circuits are mended by restoring the norm, which must not undo what channels take."""
    circuit, instructions = qd.Circuit(num_qubits), []
    for layer in range(40):
        for q in range(num_qubits):
            instructions += qd.Circuit(num_qubits).ry(0.3 + q + 0.1 * layer, q).rx(0.2 * q, q)
            damped = LinearGate(np.sqrt(1 - 2e-5) * np.eye(2) if layer % 2 else np.diag([1, np.sqrt(1 - 2e-5)]))
            instructions.append(Instruction(damped, (q,)))
        for q in range(num_qubits - 1):
            instructions += qd.Circuit(num_qubits).cz(q, q + 1)
    circuit = circuit.with_instructions(instructions)
    _check(circuit, device, {"complex64": 2e-5})
    program = Program(circuit, device=device, dtype="complex64")
    norm = program.run().norm()
    double = Program(circuit, device=device, dtype="complex128")
    exact = double.run().norm()
    assert exact < 1 - 1e-3
    assert abs(norm - exact) < 2e-5
