"""Every operation that runs natively on qdist.qubit, its inverse and controlled forms, against PennyLane's matrix."""

import numpy as np
import pytest

qml = pytest.importorskip("pennylane")

from qdist.circuit import Circuit, Parameter  # noqa: E402
from qdist.interop.pennylane import QdistQubit, operations  # noqa: E402
from qdist.interop.pennylane.gates import FIXED, RULES  # noqa: E402
from qdist.state import reference  # noqa: E402

KINDS = [*FIXED, *RULES]


def example(kind: type, seed: int = 7) -> "qml.operation.Operator":
    """The operation with random angles, on wires in no special order."""
    rng = np.random.default_rng(seed)
    angles = rng.uniform(-3, 3, kind.num_params if isinstance(kind.num_params, int) else 1)
    if kind is qml.PauliRot:
        return qml.PauliRot(angles[0], "XIZY", wires=[2, "a", 0, 1])
    if kind is qml.MultiControlledX:
        return qml.MultiControlledX(wires=[3, 0, 1, 2], control_values=[1, 0, 1])
    if kind is qml.FermionicDoubleExcitation:
        return kind(angles[0], wires1=[2, 0, 3], wires2=[1, "a"])
    if kind is qml.GlobalPhase:
        return qml.GlobalPhase(angles[0], wires=0)
    count = kind.num_wires if isinstance(kind.num_wires, int) else 3
    return kind(*angles, wires=[2, 0, 3, 1][:count])


def forms(op: "qml.operation.Operator") -> list["qml.operation.Operator"]:
    """The operation, its inverse, and both under controls of both values."""
    inverse = qml.adjoint(op, lazy=True)
    return [
        op,
        inverse,
        qml.ctrl(op, control="c"),
        qml.ctrl(op, control=["c", "d"], control_values=[0, 1]),
        qml.ctrl(inverse, control=["c", "d"], control_values=[1, 0]),
    ]


def matrix(op: "qml.operation.Operator") -> np.ndarray:
    """Of the parts, in PennyLane's order of the operation's wires."""
    count = max(1, len(op.wires))
    place = {wire: count - 1 - k for k, wire in enumerate(op.wires)}
    circuit = Circuit(count)
    angles = [float(angle) for angle in op.data] if operations.num_angles(op) else []
    for gate, wires, params in operations.parts(op, angles):
        circuit.append(gate, [place[wire] for wire in wires], params)
    return reference.unitary(circuit)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_parts_multiply_to_the_matrix_of_pennylane_with_its_phase(kind):
    op = example(kind)
    for one in forms(op) if kind is not qml.Identity else [op]:
        assert operations.is_native(one)
        np.testing.assert_allclose(matrix(one), qml.matrix(one, wire_order=one.wires), atol=1e-12, err_msg=str(one))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_signature_has_all_but_the_angles(kind):
    if kind is qml.Identity:
        return
    op, same = example(kind), example(kind, seed=8)
    moved = op.map_wires({wire: f"w{wire}" for wire in op.wires})
    assert operations.signature(op) == operations.signature(same)
    signatures = [operations.signature(one) for one in [*forms(op), moved]]
    assert len(set(signatures)) == len(signatures)


def test_signatures_tell_words_control_values_and_matrices_apart():
    divided = [qml.FermionicDoubleExcitation(0.1, [0, 1, 2, 3, 4][:k], [0, 1, 2, 3, 4][k:]) for k in (2, 3)]
    assert operations.signature(divided[0]) != operations.signature(divided[1])
    words = [qml.PauliRot(0.3, word, wires=[0, 1]) for word in ("XY", "YX")]
    controls = [qml.MultiControlledX(wires=[0, 1, 2], control_values=values) for values in ([0, 1], [1, 0])]
    matrices = [qml.QubitUnitary(m, wires=0) for m in (np.eye(2), np.array([[0, 1], [1, 0]]))]
    phases = [qml.DiagonalQubitUnitary(np.array([1, phase]), wires=0) for phase in (1j, -1j)]
    states = [qml.StatePrep(np.array(state), wires=0) for state in ([1.0, 0.0], [0.0, 1.0])]
    for pair in (words, controls, matrices, phases, states):
        assert operations.signature(pair[0]) != operations.signature(pair[1])


@pytest.mark.parametrize("kind", [qml.QubitUnitary, qml.DiagonalQubitUnitary, qml.BlockEncode, qml.SISWAP])
def test_operations_given_by_a_matrix(kind):
    rng = np.random.default_rng(3)
    dense = np.linalg.qr(rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4)))[0]
    made = {
        qml.QubitUnitary: lambda: qml.QubitUnitary(dense, wires=["b", 0]),
        qml.DiagonalQubitUnitary: lambda: qml.DiagonalQubitUnitary(np.exp(1j * rng.normal(size=4)), wires=["b", 0]),
        qml.BlockEncode: lambda: qml.BlockEncode(np.array([[0.1, 0.2], [0.3, 0.4]]), wires=["b", 0]),
        qml.SISWAP: lambda: qml.SISWAP(wires=["b", 0]),
    }
    op = made[kind]()
    for one in [op, qml.adjoint(op, lazy=True), qml.ctrl(op, control="c", control_values=[0])]:
        assert operations.is_native(one)
        np.testing.assert_allclose(matrix(one), qml.matrix(one, wire_order=one.wires), atol=1e-12)


@pytest.mark.parametrize(
    "made", [lambda u: u, lambda u: qml.numpy.array(u, requires_grad=False)], ids=["numpy", "autograd"]
)
def test_controls_that_are_zero_of_batches_of_matrices_and_of_other_frameworks(made):
    """PennyLane makes all controls 1 where it binds new parameters to a ControlledQubitUnitary."""
    rng = np.random.default_rng(4)
    dense = np.linalg.qr(rng.normal(size=(2, 4, 4)) + 1j * rng.normal(size=(2, 4, 4)))[0]

    def circuit(u):
        qml.RY(0.3, 2)
        qml.RX(1.1, 3)
        qml.RY(0.5, 0)
        qml.ctrl(qml.QubitUnitary(u, [0, 1]), control=[2, 3], control_values=[0, 1])
        qml.ControlledQubitUnitary(u, wires=[3, 1, 0], control_values=[0])
        return qml.probs(wires=[0, 1, 2, 3])

    node = qml.QNode(circuit, QdistQubit())
    start = np.einsum(
        "a,b,c,d->abcd",
        [np.cos(0.25), np.sin(0.25)],
        [1, 0],
        [np.cos(0.15), np.sin(0.15)],
        [np.cos(0.55), -1j * np.sin(0.55)],
    )
    expected = []
    for u in dense:
        state = start.copy()
        state[:, :, 0, 1] = (u @ state[:, :, 0, 1].reshape(4)).reshape(2, 2)
        state[:, :, :, 0] = np.einsum("baBA,ABc->abc", u.reshape(2, 2, 2, 2), state[:, :, :, 0])
        expected.append(abs(state.ravel()) ** 2)
    np.testing.assert_allclose(node(made(dense)), expected, atol=1e-12)
    np.testing.assert_allclose(node(made(dense[1])), expected[1], atol=1e-12)


def test_angles_stay_affine_so_that_one_program_serves_all_values():
    for kind in KINDS:
        op = example(kind)
        symbols = [Parameter(f"p{k}") for k in range(operations.num_angles(op))]
        values = {symbol: float(value) for symbol, value in zip(symbols, op.data)}
        bound = [
            (gate, wires, tuple(p if isinstance(p, float) else float(p.bind(values)) for p in params))
            for gate, wires, params in operations.parts(op, symbols)
        ]
        plain = operations.parts(op, [float(value) for value in op.data])
        for (gate, wires, params), (other, others, numbers) in zip(bound, plain, strict=True):
            assert (gate, wires) == (other, others)
            np.testing.assert_allclose(params, numbers, atol=1e-15)


def test_what_the_table_lacks_is_left_to_pennylane():
    assert not operations.is_native(qml.QFT(wires=range(3)))
    assert not operations.is_native(qml.StatePrep(np.array([1.0, 0.0]), wires=0))
    assert not operations.is_native(qml.QubitUnitary(np.eye(2**11), wires=range(11)))
