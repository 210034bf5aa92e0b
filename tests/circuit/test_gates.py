"""The gate table: every row against the laws it must obey, and against Qiskit's matrices."""

from __future__ import annotations

import copy
import math
import pickle
from itertools import product

import numpy as np
import pytest
from strategies import TABLE_GATES, random_unitary

from qdist.circuit import (
    GATES,
    CircuitError,
    Gate,
    Parameter,
    diagonal_gate,
    pauli_rotation_gate,
    permutation_gate,
    unitary_gate,
)
from qdist.circuit.gates import MEASURE, RESET, barrier_gate, initialize_gate
from qdist.circuit.matrices import pauli_matrix

DATA_GATES = [
    unitary_gate(random_unitary(4, 1)),
    unitary_gate(np.eye(2)),
    diagonal_gate(np.exp(1j * np.arange(8))),
    permutation_gate([2, 0, 3, 1]),
    permutation_gate([0, 1, 3, 2, 4, 5, 7, 6]),
    *(pauli_rotation_gate(label) for label in ("X", "ZZ", "XZY", "IYI", "YY", "I")),
]
ALL_GATES = [*TABLE_GATES, *DATA_GATES]
every_gate = pytest.mark.parametrize("gate", ALL_GATES, ids=lambda gate: f"{gate.name}{gate.num_qubits}")


def words(text: str) -> list[str]:
    return text.split()


QELIB1 = words(
    "u3 u2 u1 cx id u0 u p x y z h s sdg t tdg rx ry rz sx sxdg cz cy swap ch ccx cswap crx cry crz cu1 cp "
    "cu3 csx cu rxx rzz rccx rc3x c3x c3sqrtx c4x"
)
STDGATES = words(
    "p x y z h s sdg t tdg sx rx ry rz cx cy cz cp crx cry crz ch swap ccx cswap cu CX phase cphase id u1 u2 u3"
)


def angles_of(gate: Gate, seed: int) -> list[float]:
    return list(np.random.default_rng(seed).uniform(-2 * math.pi, 2 * math.pi, gate.num_params))


def z_on(position: int, num_qubits: int) -> np.ndarray:
    return np.diag([(-1.0) ** (index >> position & 1) for index in range(1 << num_qubits)])


def controlled_by_definition(inner: np.ndarray, num_controls: int, ctrl_state: int) -> np.ndarray:
    """Entry by entry: the controls are the low bits of the index."""
    size = inner.shape[0] << num_controls
    matrix = np.zeros((size, size), dtype=complex)
    for row in range(size):
        for column in range(size):
            if row % (1 << num_controls) == column % (1 << num_controls) == ctrl_state:
                matrix[row, column] = inner[row >> num_controls, column >> num_controls]
            elif row == column:
                matrix[row, column] = 1
    return matrix


@every_gate
def test_matrix_is_unitary_and_complex128(gate: Gate) -> None:
    for seed in range(3):
        matrix = gate.matrix(*angles_of(gate, seed))
        assert matrix.dtype == np.complex128
        assert matrix.shape == (1 << gate.num_qubits,) * 2
        np.testing.assert_allclose(matrix @ matrix.conj().T, np.eye(len(matrix)), atol=1e-14)


@every_gate
def test_inverse_undoes_the_gate(gate: Gate) -> None:
    for seed in range(3):
        params = tuple(angles_of(gate, seed))
        inverse, inverse_params = gate.inverse(params)
        product = inverse.matrix(*inverse_params) @ gate.matrix(*params)
        np.testing.assert_allclose(product, np.eye(len(product)), atol=1e-14)
        assert inverse.num_qubits == gate.num_qubits


@every_gate
def test_inverse_takes_symbolic_angles(gate: Gate) -> None:
    symbols = [Parameter(f"p{k}") for k in range(gate.num_params)]
    inverse, inverse_params = gate.inverse(tuple(2 * symbol + 0.1 for symbol in symbols))
    values = dict(zip(symbols, angles_of(gate, 5)))
    bound = [param.bind(values) for param in inverse_params]
    matrix = gate.matrix(*(2 * value + 0.1 for value in values.values()))
    np.testing.assert_allclose(inverse.matrix(*bound) @ matrix, np.eye(len(matrix)), atol=1e-13)


@every_gate
def test_derivative_equals_finite_difference(gate: Gate) -> None:
    step = 1e-5
    params = np.array(angles_of(gate, 7))
    for k in range(gate.num_params):
        shift = np.eye(gate.num_params)[k] * step
        # Fourth order, so that the truncation error is below the rounding error.
        central = 8 * (gate.matrix(*(params + shift)) - gate.matrix(*(params - shift)))
        wide = gate.matrix(*(params + 2 * shift)) - gate.matrix(*(params - 2 * shift))
        np.testing.assert_allclose(gate.derivative(k, *params), (central - wide) / (12 * step), atol=2e-10)


@every_gate
def test_generator_generates_the_gate(gate: Gate) -> None:
    generator = gate.generator
    if generator is None:
        return
    assert gate.num_params == 1
    np.testing.assert_allclose(generator, generator.conj().T, atol=0)
    eigenvalues, vectors = np.linalg.eigh(generator)
    (angle,) = angles_of(gate, 11)
    exponential = vectors @ np.diag(np.exp(-0.5j * angle * eigenvalues)) @ vectors.conj().T
    np.testing.assert_allclose(gate.matrix(angle), exponential, atol=1e-14)


def test_one_angle_rotations_have_generators() -> None:
    without = {gate.name for gate in ALL_GATES if gate.num_params == 1 and gate.generator is None}
    assert without == {"u0"}


@every_gate
@pytest.mark.parametrize(("num_controls", "ctrl_state"), [(1, None), (1, 0), (2, 1), (2, 2), (2, "11")])
def test_controlled_matches_the_definition(gate: Gate, num_controls: int, ctrl_state: int | str | None) -> None:
    controlled = gate.controlled(num_controls, ctrl_state)
    state = {None: (1 << num_controls) - 1, "11": 3}.get(ctrl_state, ctrl_state)
    params = angles_of(gate, 13)
    expected = controlled_by_definition(gate.matrix(*params), num_controls, state)
    np.testing.assert_allclose(controlled.matrix(*params), expected, atol=0)
    assert controlled.num_qubits == gate.num_qubits + num_controls
    assert controlled.base is gate.base or gate.base.name == "gphase"
    for k in range(gate.num_params):
        block = np.zeros_like(expected)
        places = np.flatnonzero(np.arange(len(block)) % (1 << num_controls) == state)
        block[np.ix_(places, places)] = gate.derivative(k, *params)
        np.testing.assert_allclose(controlled.derivative(k, *params), block, atol=1e-15)
    if controlled.is_diagonal:
        np.testing.assert_allclose(controlled.diagonal(*params), np.diagonal(expected), atol=1e-15)


@every_gate
def test_structure_flags_are_true_to_the_matrix(gate: Gate) -> None:
    for target in (gate, gate.controlled(2, 1)):
        matrices = [target.matrix(*angles_of(gate, seed)) for seed in range(4)]
        size = 1 << target.num_qubits
        off_diagonal = ~np.eye(size, dtype=bool)
        assert target.is_diagonal == all(not np.any(matrix[off_diagonal]) for matrix in matrices)
        assert target.is_real == all(not np.any(matrix.imag) for matrix in matrices)
        assert target.is_permutation == all(np.all((matrix == 0) | (matrix == 1)) for matrix in matrices)
        commuting = tuple(
            position
            for position in range(target.num_qubits)
            if all(
                np.allclose(z_on(position, target.num_qubits) @ m, m @ z_on(position, target.num_qubits))
                for m in matrices
            )
        )
        assert target.diagonal_qubits == commuting
        assert target.is_pure == all(not np.any(matrix.real * matrix.imag) for matrix in matrices)
        if target.base.data is None and not target.is_identity:
            flips = [np.arange(size) ^ 1 << position for position in range(target.num_qubits)]
            x_like = tuple(k for k, flip in enumerate(flips) if all(np.allclose(m[flip][:, flip], m) for m in matrices))
            assert target.x_like_qubits == x_like
        if target.is_diagonal:
            np.testing.assert_allclose(target.diagonal(*angles_of(gate, 0)), np.diagonal(matrices[0]), atol=1e-15)


@every_gate
def test_pauli_letters_are_those_of_the_generator(gate: Gate) -> None:
    strings = (
        {"".join(letters) for letters in product("IXYZ", repeat=gate.num_qubits)} if gate.num_params == 1 else set()
    )
    found = [s for s in strings if gate.generator is not None and np.array_equal(pauli_matrix(s), gate.generator)]
    assert ([gate.pauli] if gate.pauli else []) == found
    if gate.pauli:
        assert pauli_rotation_gate(gate.pauli[::-1]).matrix(0.7) == pytest.approx(gate.matrix(0.7), abs=1e-15)


def test_known_structure_of_well_known_gates() -> None:
    named = {gate.name: gate for gate in TABLE_GATES}
    diagonal = {name for name, gate in named.items() if gate.is_diagonal}
    assert diagonal == set(words("id z s sdg t tdg rz p gphase u0 rzz cz cs csdg cp crz ccz"))
    permutation = {name for name, gate in named.items() if gate.is_permutation}
    assert permutation == set(words("id x u0 swap dcx dcxdg cx cswap ccx c3x c4x"))
    assert {name for name in ("h", "ry", "cry", "z", "x") if named[name].is_real} == {
        "h",
        "ry",
        "cry",
        "z",
        "x",
    }
    assert not any(named[name].is_real for name in ("y", "rx", "rz", "s", "iswap", "ecr"))
    assert named["rzx"].diagonal_qubits == (0,)
    assert named["crx"].diagonal_qubits == (0,)
    assert named["cswap"].diagonal_qubits == (0,)
    assert not named["h"].is_diagonal
    with pytest.raises(CircuitError, match="h is not diagonal"):
        named["h"].diagonal()


def test_every_gate_of_the_qasm_libraries_is_there() -> None:
    assert set(QELIB1) <= set(GATES)
    assert set(STDGATES) <= set(GATES)
    assert {gate.qasm2_name for gate in TABLE_GATES} - {None} <= set(QELIB1)
    assert {gate.qasm3_name for gate in TABLE_GATES} - {None, "gphase"} <= set(STDGATES)
    # A gate that a library has is written under a name that reads back as the same gate.
    for names, attribute in ((QELIB1, "qasm2_name"), (STDGATES, "qasm3_name")):
        for name in names:
            assert GATES[getattr(GATES[name], attribute)] is GATES[name]


def test_matrices_equal_qiskits() -> None:
    library = pytest.importorskip("qiskit.circuit.library")
    theirs = {
        "id": "IGate", "x": "XGate", "y": "YGate", "z": "ZGate", "h": "HGate", "s": "SGate",
        "sdg": "SdgGate", "t": "TGate", "tdg": "TdgGate", "sx": "SXGate", "sxdg": "SXdgGate",
        "rx": "RXGate", "ry": "RYGate", "rz": "RZGate", "p": "PhaseGate", "gphase": "GlobalPhaseGate",
        "u": "UGate", "u2": "U2Gate", "r": "RGate", "swap": "SwapGate", "iswap": "iSwapGate",
        "dcx": "DCXGate", "ecr": "ECRGate", "rxx": "RXXGate", "ryy": "RYYGate", "rzz": "RZZGate",
        "rzx": "RZXGate", "xx_plus_yy": "XXPlusYYGate", "rccx": "RCCXGate", "rc3x": "RC3XGate",
        "cx": "CXGate", "cy": "CYGate", "cz": "CZGate", "ch": "CHGate", "cs": "CSGate", "csdg": "CSdgGate",
        "csx": "CSXGate", "cp": "CPhaseGate", "crx": "CRXGate", "cry": "CRYGate", "crz": "CRZGate",
        "cu3": "CU3Gate", "cu": "CUGate", "cswap": "CSwapGate", "ccx": "CCXGate", "ccz": "CCZGate",
        "c3x": "C3XGate", "c4x": "C4XGate", "c3sqrtx": "C3SXGate", "u1": "U1Gate", "u3": "U3Gate",
        "cu1": "CU1Gate",
    }  # fmt: skip
    unknown_to_qiskit = {"u0", "fsim", "iswapdg", "dcxdg", "rc3xdg"}
    assert {gate.name for gate in TABLE_GATES} <= set(theirs) | unknown_to_qiskit
    for name, their_class in theirs.items():
        params = angles_of(GATES[name], 17)
        their_gate = getattr(library, their_class)(*params)
        np.testing.assert_allclose(GATES[name].matrix(*params), their_gate.to_matrix(), atol=1e-14, err_msg=name)


def test_negative_controls_equal_qiskits() -> None:
    library = pytest.importorskip("qiskit.circuit.library")
    for state in range(16):
        theirs = library.C4XGate(ctrl_state=state).to_matrix()
        np.testing.assert_allclose(GATES["x"].controlled(4, state).matrix(), theirs, atol=1e-14)


def test_fsim_is_an_exchange_and_a_phase() -> None:
    x, y = GATES["x"].matrix(), GATES["y"].matrix()
    exchange = np.kron(x, x) + np.kron(y, y)
    eigenvalues, vectors = np.linalg.eigh(exchange)
    theta, phi = 0.7, 0.4
    rotated = vectors @ np.diag(np.exp(-0.5j * theta * eigenvalues)) @ vectors.conj().T
    np.testing.assert_allclose(
        GATES["fsim"].matrix(theta, phi), np.diag([1, 1, 1, np.exp(-1j * phi)]) @ rotated, atol=1e-14
    )


def test_pauli_rotation_label_has_the_highest_qubit_first() -> None:
    np.testing.assert_allclose(pauli_rotation_gate("XZ").matrix(0.4), GATES["rzx"].matrix(0.4), atol=1e-15)
    np.testing.assert_allclose(
        pauli_rotation_gate("IY").matrix(0.4), np.kron(np.eye(2), GATES["ry"].matrix(0.4)), atol=1e-15
    )


def test_permutation_moves_basis_state_i_to_its_ith_entry() -> None:
    gate = permutation_gate([1, 2, 3, 0])
    for i in range(4):
        assert gate.matrix()[(i + 1) % 4, i] == 1


def test_controlled_gates_with_a_name_are_the_rows_of_the_table() -> None:
    assert GATES["x"].controlled() is GATES["cx"]
    assert GATES["cx"].controlled() is GATES["ccx"] is GATES["toffoli"]
    assert GATES["x"].controlled(4) is GATES["c4x"]
    assert GATES["sx"].controlled(3) is GATES["c3sqrtx"]
    assert GATES["gphase"].controlled() is GATES["p"]
    assert GATES["gphase"].controlled(2) is GATES["cp"]
    assert GATES["h"].controlled(3, 5) is GATES["h"].controlled(2, "10").controlled(1, 1)
    assert GATES["x"].controlled(0) is GATES["x"]


def test_cu_controls_the_phase_too() -> None:
    gate = GATES["cu"]
    assert gate.base.controlled() is gate
    twice = gate.controlled()
    np.testing.assert_allclose(
        twice.matrix(0.1, 0.2, 0.3, 0.4), controlled_by_definition(gate.matrix(0.1, 0.2, 0.3, 0.4), 1, 1)
    )


@every_gate
def test_pickle_and_copy_keep_the_gate(gate: Gate) -> None:
    for target in (gate, gate.controlled(3, 2)):
        again = pickle.loads(pickle.dumps(target))
        assert again == target
        assert hash(again) == hash(target)
        assert copy.deepcopy(target) is target
        if target.base.data is None:
            assert again is target


def test_gates_of_other_kinds_pickle_and_compare() -> None:
    others = [MEASURE, RESET, barrier_gate(3), initialize_gate(2, 2), initialize_gate([1, 0, 0, 0], 2)]
    for gate in others:
        assert pickle.loads(pickle.dumps(gate)) == gate
        assert not gate.is_unitary
        for refused in (gate.matrix, gate.inverse, gate.controlled):
            with pytest.raises(CircuitError, match="not unitary"):
                refused()
    assert len(set(others)) == len(others)
    assert [gate.is_directive for gate in others] == [False, False, True, False, False]


def test_gates_with_different_data_differ() -> None:
    assert unitary_gate(np.eye(2)) == unitary_gate(np.eye(2))
    assert unitary_gate(np.eye(2)) != unitary_gate(-np.eye(2))
    assert pauli_rotation_gate("X") != pauli_rotation_gate("Y")
    assert diagonal_gate([1, 1j]).controlled() != diagonal_gate([1, -1j]).controlled()
    assert GATES["x"] != GATES["y"]
    assert GATES["x"] != "x"


def test_gates_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="immutable"):
        GATES["x"].name = "y"
    with pytest.raises(ValueError, match="read-only"):
        GATES["x"].matrix()[0, 0] = 5
    given = np.eye(2, dtype=complex)
    gate = unitary_gate(given)
    given[0, 0] = -1
    assert gate.matrix()[0, 0] == 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: unitary_gate([[1, 1], [1, 1]]), "not unitary: U†U differs from the identity by up to 2"),
        (lambda: unitary_gate([[1, 0], [0, np.nan]]), "nan or infinity"),
        (lambda: unitary_gate(np.eye(3)), r"shape \(2\*\*n, 2\*\*n\); got \(3, 3\)"),
        (lambda: unitary_gate(np.ones((2, 4))), "got"),
        (lambda: unitary_gate("abc"), "array of numbers"),
        (lambda: diagonal_gate([1, 2]), "entry 1 is 2.*modulus 2 where it must be 1"),
        (lambda: diagonal_gate([1, 1, 1]), r"shape \(2\*\*n,\); got \(3,\)"),
        (lambda: permutation_gate([0, 0]), "each of 0 .. 1 once"),
        (lambda: permutation_gate([0.0, 1.0]), "takes 2\\*\\*n ints"),
        (lambda: pauli_rotation_gate("XA"), "letters I, X, Y and Z"),
        (lambda: pauli_rotation_gate(""), "letters I, X, Y and Z"),
        (lambda: initialize_gate(4, 2), "basis state 4 is out of range: 2 qubits have states 0 to 3"),
        (lambda: initialize_gate("012", 3), "3 characters 0 or 1"),
        (lambda: initialize_gate([1, 1], 1), "its norm is 1.4142136; divide by it"),
        (lambda: initialize_gate([1, 0, 0], 2), "4 amplitudes, or 2 pairs"),
        (lambda: initialize_gate([[1, 0], [2, 0]], 2), "its norm is 2"),
        (lambda: GATES["x"].controlled(1, 2), "ctrl_state 2 must be an int from 0 to 1"),
        (lambda: GATES["x"].controlled(2, "1"), "string of 2 characters"),
        (lambda: GATES["x"].controlled(-1), "number of controls must be an int >= 0"),
        (lambda: GATES["rx"].matrix(), "rx takes 1 parameters; got 0"),
        (lambda: GATES["rx"].derivative(1, 0.2), "no parameter 1"),
        (lambda: GATES["rx"].matrix(Parameter("t")), r"unbound parameters \(t\)"),
    ],
)
def test_wrong_arguments_are_refused_with_the_reason(make: object, message: str) -> None:
    with pytest.raises(CircuitError, match=message):
        make()  # type: ignore[operator]


def test_single_precision_matrices_are_accepted() -> None:
    unitary = random_unitary(8, 3).astype(np.complex64)
    assert unitary_gate(unitary).matrix().dtype == np.complex128
    diagonal_gate(np.exp(1j * np.arange(4)).astype(np.complex64))


def test_wide_gates_are_cheap_to_make() -> None:
    """Only the matrix of a wide gate is large; the row itself must not build it."""
    assert GATES["x"].controlled(40).diagonal_qubits == tuple(range(40))
    assert pauli_rotation_gate("XZ" * 30).num_qubits == 60
    assert diagonal_gate(np.ones(1 << 18)).is_diagonal
