"""Shots on qdist.qubit: distributions, shot vectors, groups that do not commute, classical shadows, seeds."""

import numpy as np
import pytest

qml = pytest.importorskip("pennylane")

from qdist.interop.pennylane import QdistQubit  # noqa: E402

SHOTS = 40_000


def device(seed=1, **options):
    return QdistQubit(wires=3, seed=seed, **options)


def prepared():
    qml.RY(0.7, wires=0)
    qml.CNOT([0, 1])
    qml.RX(1.1, wires=2)
    qml.IsingXY(0.4, wires=[1, 2])


def near(found, expected, width=5):
    """Within some standard errors of a mean of numbers of about 1."""
    np.testing.assert_allclose(found, expected, atol=width / np.sqrt(SHOTS))


def test_means_are_those_without_shots():
    def circuit():
        prepared()
        return (
            qml.expval(qml.Z(0) @ qml.X(1)),
            qml.expval(qml.Hamiltonian([0.3, -0.7, 0.4], [qml.X(0), qml.Z(0) @ qml.Y(2), qml.Identity(1)])),
            qml.expval(qml.Hermitian(np.array([[0.3, 0.4j], [-0.4j, -0.2]]), wires=2)),
            qml.var(qml.X(2)),
            qml.probs(wires=[2, 0]),
            qml.probs(op=qml.Hadamard(1)),
            qml.expval(qml.Projector([0, 1], wires=[0, 2])),
        )

    found = qml.set_shots(qml.QNode(circuit, device()), SHOTS)()
    for one, other in zip(found, qml.QNode(circuit, qml.device("default.qubit", wires=3))()):
        near(one, other)


def test_samples_and_counts():
    def circuit():
        prepared()
        return qml.sample(wires=[1, 0]), qml.counts(wires=[0, 2]), qml.sample(qml.X(1)), qml.counts(all_outcomes=True)

    bits, counts, eigenvalues, everything = qml.set_shots(qml.QNode(circuit, device()), SHOTS)()
    exact = qml.QNode(
        lambda: (prepared(), qml.probs(wires=[0, 2]), qml.expval(qml.X(1)))[1:], qml.device("default.qubit")
    )
    probs, mean = exact()
    assert bits.shape == (SHOTS, 2)
    near([counts.get(key, 0) / SHOTS for key in ("00", "01", "10", "11")], probs)
    near(eigenvalues.mean(), mean)
    assert sorted(everything) == [f"{k:03b}" for k in range(8)]
    assert sum(everything.values()) == SHOTS


def test_shot_vectors_batches_and_both():
    def circuit(x):
        qml.RX(x, wires=0)
        qml.CNOT([0, 1])
        return qml.expval(qml.Z(1)), qml.counts(wires=0), qml.sample(wires=[0, 1])

    rows = np.array([0.0, np.pi, 0.3])
    parts = qml.set_shots(qml.QNode(circuit, device()), [5, (7, 2)])(rows)
    assert len(parts) == 3
    for (mean, counts, bits), shots in zip(parts, (5, 7, 7)):
        assert mean.shape == (3,)
        np.testing.assert_allclose(mean[:2], [1, -1])
        assert counts[:2] == [{"0": shots}, {"1": shots}]
        assert bits.shape == (3, shots, 2)
    (mean, counts, bits) = qml.set_shots(qml.QNode(circuit, device()), 4)(0.0)
    assert (mean, counts, bits.shape) == (1.0, {"0": 4}, (4, 2))


def test_a_seed_makes_results_the_same_and_runs_different():
    def circuit():
        prepared()
        return qml.sample()

    first, second = (qml.set_shots(qml.QNode(circuit, device(seed=7)), 50) for _ in range(2))
    once, again = first(), first()
    np.testing.assert_array_equal(once, second())
    assert (once != again).any()
    assert (once != qml.set_shots(qml.QNode(circuit, device(seed=8)), 50)()).any()


def test_the_global_seed_is_numpys():
    def circuit():
        prepared()
        return qml.sample()

    found = []
    for _ in range(2):
        np.random.seed(3)  # noqa: NPY002
        found.append(qml.set_shots(qml.QNode(circuit, device(seed="global")), 50)())
    np.testing.assert_array_equal(*found)


def test_shots_of_the_constructor_and_of_the_call():
    with pytest.warns(qml.exceptions.PennyLaneDeprecationWarning):
        dev = QdistQubit(wires=1, shots=11)
    node = qml.QNode(lambda: qml.sample(wires=0), dev)
    assert node().shape == (11, 1)
    assert qml.set_shots(node, 5)().shape == (5, 1)


def test_classical_shadows():
    def circuit():
        prepared()
        return qml.classical_shadow(wires=[0, 1]), qml.shadow_expval(qml.Z(0) @ qml.Z(1)), qml.expval(qml.Z(0))

    (bits, recipes), shadow, mean = qml.set_shots(qml.QNode(circuit, device()), 4000)()
    assert bits.shape == recipes.shape == (4000, 2)
    exact = qml.QNode(lambda: (prepared(), qml.expval(qml.Z(0) @ qml.Z(1)))[1], qml.device("default.qubit"))()
    assert abs(shadow - exact) < 0.3
    assert abs(mean - np.cos(0.7)) < 0.1


def test_gradients_with_shots_are_by_parameter_shift():
    def circuit(x):
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    node = qml.set_shots(qml.QNode(circuit, device()), SHOTS)
    assert qml.workflow.get_best_diff_method(node)(qml.numpy.array(0.4)) == "parameter-shift"
    near(qml.grad(node)(qml.numpy.array(0.4)), -np.sin(0.4))
    with pytest.raises(qml.exceptions.QuantumFunctionError, match="adjoint"):
        qml.set_shots(qml.QNode(circuit, device(), diff_method="adjoint"), 10)(qml.numpy.array(0.4))
