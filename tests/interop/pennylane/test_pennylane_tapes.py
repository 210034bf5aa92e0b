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
