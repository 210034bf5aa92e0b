"""Random tapes on qdist.qubit and on default.qubit: every operation, observable and measurement, batched and not."""

import numpy as np
import pytest

qml = pytest.importorskip("pennylane")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from random_tapes import LABELS, run, script  # noqa: E402

from qdist.interop.pennylane import QdistQubit  # noqa: E402

SEEDS = st.integers(0, 2**32 - 1)
DEVICES = {labelled: QdistQubit(wires=LABELS if labelled else None) for labelled in (False, True)}


def check(found, expected):
    if isinstance(expected, tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            check(one, other)
        return
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@settings(max_examples=120, deadline=None, derandomize=True)
@given(seed=SEEDS, labelled=st.booleans(), batched=st.booleans())
def test_random_tapes_have_the_results_of_default_qubit(seed, labelled, batched):
    tape = script(np.random.default_rng(seed), LABELS if labelled else list(range(5)), 3 if batched else None)
    reference = qml.device("default.qubit", wires=LABELS if labelled else None)
    check(run(DEVICES[labelled], tape), run(reference, tape))


@settings(max_examples=25, deadline=None, derandomize=True)
@given(seed=SEEDS)
def test_complex64_has_them_to_its_precision(seed):
    tape = script(np.random.default_rng(seed), list(range(5)))
    found = run(QdistQubit(c_dtype=np.complex64), tape)
    expected = run(qml.device("default.qubit"), tape)
    pairs = zip(found, expected) if isinstance(expected, tuple) else [(found, expected)]
    for mp, (one, other) in zip(tape.measurements, pairs):
        # An entropy's slope has no bound where an eigenvalue is 0.
        tolerance = 1e-3 if "entropy" in str(mp) or "mutual" in str(mp) else 1e-4
        np.testing.assert_allclose(one, other, atol=tolerance)


def test_wires_in_the_order_of_the_device():
    tape = qml.tape.QuantumScript([qml.X("q")], [qml.probs(wires=["q", "a"]), qml.state()])
    probs, state = run(DEVICES[True], tape)
    np.testing.assert_allclose(probs, [0, 0, 1, 0])
    assert np.argmax(np.abs(state)) == 0b00100


def not_hermitian(rng, kind):
    """Operators of two qubits that i, or another complex number, makes Hermitian."""
    first, second = (m + m.conj().T for m in rng.normal(size=(2, 2, 2)) + 1j * rng.normal(size=(2, 2, 2)))
    scale = rng.uniform(0.5, 2)
    return {
        "word": lambda: -1j * scale * (qml.X(0) @ qml.Y(0) @ qml.Hadamard(1)),
        "commutator": lambda: 1j * scale * qml.commutator(qml.Hadamard(0), qml.Y(0)),
        "of matrices": lambda: 1j * qml.commutator(qml.Hermitian(first, 0), qml.Hermitian(second, 0)),
        "in a sum": lambda: qml.sum(
            qml.s_prod(1j, qml.prod(qml.Hermitian(first, 0), qml.Y(0))),
            qml.s_prod(-1j, qml.prod(qml.Y(0), qml.Hermitian(first, 0))),
            qml.s_prod(scale, qml.Hadamard(1)),
        ),
        "nested": lambda: qml.s_prod(1j, qml.s_prod(-1j * scale, qml.Hadamard(0) @ qml.Z(1))),
        "in a product": lambda: qml.prod(qml.s_prod(-1j, qml.prod(qml.Hermitian(first, 0))), qml.s_prod(1j, qml.Z(1))),
    }[kind]()


@pytest.mark.parametrize("kind", ["word", "commutator", "of matrices", "in a sum", "nested", "in a product"])
def test_complex_multiples_that_are_hermitian(kind):
    rng = np.random.default_rng(3)
    for _ in range(3):
        observable = not_hermitian(rng, kind)
        ops = [op for wire in (0, 1) for op in (qml.RY(rng.normal(), wire), qml.RX(rng.normal(), wire))]
        tape = qml.tape.QuantumScript([*ops, qml.CNOT([0, 1])], [qml.expval(observable), qml.var(observable)])
        state = run(DEVICES[False], qml.tape.QuantumScript(tape.operations, [qml.state()]))
        image = qml.matrix(observable, wire_order=[0, 1]) @ state
        mean = np.vdot(state, image).real
        for _ in range(2):  # The second time observables are known.
            check(run(DEVICES[False], tape), (mean, np.vdot(image, image).real - mean**2))


@pytest.mark.parametrize("wires", [[0, 1], [2, 0], [1, 2, 0]])
@pytest.mark.parametrize("kind", ["csr_matrix", "csr_array"])
def test_states_from_sparse_vectors(kind, wires):
    sparse = pytest.importorskip("scipy.sparse")
    vector = np.zeros(2 ** len(wires), complex)
    vector[[1, -1]] = 0.6, 0.8j
    start = qml.StatePrep(getattr(sparse, kind)(vector), wires=wires)
    ops = [qml.RX(0.3, 0), qml.CNOT([0, 1]), qml.RY(0.4, 2)]
    for rest in ([], ops):
        tape = qml.tape.QuantumScript([start, *rest], [qml.state(), qml.expval(qml.Z(0) @ qml.X(2))])
        dense = qml.tape.QuantumScript([qml.StatePrep(vector, wires=wires), *rest], tape.measurements)
        check(run(QdistQubit(wires=3), tape), run(qml.device("default.qubit", wires=3), dense))


def partly_used(rng, labels):
    """Operations on some of the labels in any order, some of which are decomposed, and one that is only measured."""
    own = [labels[k] for k in rng.permutation(len(labels))]
    used = own[: int(rng.integers(2, 4))]
    ops = [kind(rng.uniform(-3, 3), wire) for wire in used for kind in (qml.RY, qml.RX)]
    ops += [
        [qml.CNOT(used[:2])],
        [qml.pow(qml.CNOT(used[1::-1]), 2)],
        [qml.FlipSign([1, 0], used[:2])],
        [qml.exp(qml.I(used[0]) @ qml.X(used[1]), 0.3j)],
        [],
    ][rng.integers(5)]
    ops = [ops[k] for k in rng.permutation(len(ops))]
    if rng.random() < 0.3:
        ops.insert(0, qml.QubitSum(own[:3]))
    acted = qml.wires.Wires.all_wires([op.wires for op in ops])
    return ops, [wire for wire in own if wire not in acted]


@pytest.mark.parametrize("reference", ["default.qubit", "lightning.qubit"])
@pytest.mark.parametrize("labels", [[0, 1, 2, 3], ["a", "b", "c", "d"], [5, 1, "x", 2]], ids=str)
def test_all_wires_of_a_device_without_any_are_in_the_standard_order(labels, reference):
    if reference == "lightning.qubit":
        pytest.importorskip("pennylane_lightning.lightning_qubit")
    rng = np.random.default_rng(7)
    for _ in range(40):
        ops, others = partly_used(rng, labels)
        if reference == "lightning.qubit" and any(isinstance(op, qml.ops.Pow | qml.ops.Exp) for op in ops):
            continue  # It takes the order of what these are decomposed to.
        measured = [qml.probs(), qml.state(), qml.expval(qml.Z(others[0] if others else labels[0]))]
        tape = qml.tape.QuantumScript(ops, [measured[k] for k in rng.permutation(3)])
        check(run(QdistQubit(), tape), run(qml.device(reference), tape))


def test_shots_of_all_wires_are_in_the_standard_order():
    ops = [qml.X(2), qml.Identity(0)]
    for measured, expected in [(qml.counts(), {"100": 5}), (qml.sample(), [[1, 0, 0]] * 5)]:
        tape = qml.tape.QuantumScript(ops, [measured, qml.expval(qml.Z(1))], shots=5)
        found, _ = run(QdistQubit(), tape)
        assert found == expected if isinstance(expected, dict) else np.array_equal(found, expected)


@pytest.mark.parametrize(
    "ops",
    [
        [],
        [qml.Barrier([0, 1])],
        [qml.GlobalPhase(0.3)],
        [qml.GlobalPhase(np.array([0.3, 0.5]))],
        [qml.IntegerComparator(0, geq=True, wires=[0, 1, 2])],
        [qml.QubitSum([1, 2, 5]), qml.RX(0.3, 1), qml.RY(0.4, 2)],
        [qml.pow(qml.CNOT([0, 1]), 2)],
        [qml.MultiControlledX(["a", "b", "c"], work_wires=["w"]), qml.X("b")],
        [qml.RX(0.3, 1), qml.RY(0.5, 0), qml.MultiControlledX([1, 0, 2], work_wires=["w"])],
        [qml.RX(0.3, 1), qml.RY(0.5, 0), qml.MultiControlledX([1, 0, 2], work_wires=[3])],
    ],
    ids=lambda ops: str(ops).replace(" ", ""),
)
def test_all_wires_are_those_before_decomposition(ops):
    for measured in ([qml.state()], [qml.probs()], [qml.probs(), qml.state()]):
        tape = qml.tape.QuantumScript(ops, measured)
        check(run(QdistQubit(), tape), run(qml.device("default.qubit"), tape))


def test_wires_without_a_device_order_are_sorted_if_they_are_numbers_from_0():
    for ops in ([qml.X(2), qml.X(0), qml.Identity(1)], [qml.X("b"), qml.Identity("a")]):
        tape = qml.tape.QuantumScript(ops, [qml.state()])
        np.testing.assert_allclose(run(DEVICES[False], tape), run(qml.device("default.qubit"), tape))


def test_large_matrices_and_projectors_are_not_made_of_strings():
    wires = list(range(7))
    rng = np.random.default_rng(1)
    ops = [qml.RY(rng.uniform(-2, 2), wires=w) for w in wires] + [qml.CNOT([w, w + 1]) for w in range(6)]
    dense = rng.normal(size=(128, 128))
    sparse = qml.Hamiltonian([0.5, -0.3], [qml.X(0) @ qml.Z(4), qml.Y(6)]).sparse_matrix(wire_order=wires)
    measured = [
        qml.expval(qml.Hermitian(dense + dense.T, wires=wires)),
        qml.var(qml.Hermitian(dense + dense.T, wires=wires)),
        qml.expval(qml.SparseHamiltonian(sparse, wires=wires)),
        qml.expval(qml.Projector([0] * 7, wires=wires)),
        qml.expval(qml.exp(qml.X(0) @ qml.Z(1), 0.3)),
    ]
    tape = qml.tape.QuantumScript(ops, measured)
    check(run(DEVICES[False], tape), run(qml.device("default.qubit"), tape))


def test_templates_are_decomposed_and_dynamic_wires_given_out():
    weights = qml.StronglyEntanglingLayers.shape(2, 4)

    def circuit():
        qml.AmplitudeEmbedding(np.arange(1, 17), wires=range(4), normalize=True)
        qml.StronglyEntanglingLayers(np.arange(np.prod(weights)).reshape(weights) / 7, wires=range(4))
        qml.QFT(wires=range(4))
        qml.GroverOperator(wires=range(3))
        qml.BasisEmbedding([1, 0], wires=[2, 3])
        with qml.allocate(1, state="zero", restored=True) as (spare,):
            qml.CNOT([0, spare])
            qml.CNOT([0, spare])
        return qml.probs(wires=range(4)), qml.expval(qml.Z(1))

    found = qml.QNode(circuit, QdistQubit(wires=6))()
    check(found, qml.QNode(circuit, qml.device("default.qubit", wires=6))())


def test_rows_with_states_or_matrices_of_their_own():
    rng = np.random.default_rng(5)
    states = rng.normal(size=(3, 4))
    states /= np.linalg.norm(states, axis=1, keepdims=True)
    matrices = np.array([np.linalg.qr(rng.normal(size=(2, 2)))[0] for _ in range(3)])
    ops = [
        qml.StatePrep(states, wires=[0, 1]),
        qml.RX(rng.normal(size=3), wires=0),
        qml.QubitUnitary(matrices, wires=1),
    ]
    tape = qml.tape.QuantumScript(ops, [qml.expval(qml.Z(0)), qml.probs(wires=[0, 1])])
    check(run(DEVICES[False], tape), run(qml.device("default.qubit"), tape))
