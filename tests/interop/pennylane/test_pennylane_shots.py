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


IDENTITIES = {
    "I": lambda: qml.I(0),
    "II": lambda: qml.I(0) @ qml.I(1),
    "2 I": lambda: 2 * qml.I(0),
    "-I": lambda: -qml.I(1),
    "0 X": lambda: 0 * qml.X(0),
    "X - X": lambda: qml.X(0) - qml.X(0),
}


@pytest.mark.parametrize("beside", [[], [lambda: qml.expval(qml.Z(1)), lambda: qml.counts(qml.X(2))]], ids=len)
@pytest.mark.parametrize("name", IDENTITIES)
def test_multiples_of_the_identity_have_samples(name, beside):
    made = IDENTITIES[name]
    value = {"2 I": 2, "-I": -1, "0 X": 0, "X - X": 0}.get(name, 1)

    def circuit():
        prepared()
        kinds = qml.var, qml.sample, qml.counts, qml.expval
        return (*(kind(made()) for kind in kinds), *(other() for other in beside))

    var, samples, counts, mean, *others = qml.set_shots(qml.QNode(circuit, device()), SHOTS)()
    assert var == pytest.approx(0, abs=1e-12)
    assert samples.shape == (SHOTS,)
    np.testing.assert_allclose(samples, value, atol=1e-12)
    assert {round(float(key), 12): int(count) for key, count in counts.items()} == {value: SHOTS}
    assert mean == pytest.approx(value)
    if beside:
        near(others[0], qml.QNode(lambda: (prepared(), qml.expval(qml.Z(1)))[1], qml.device("default.qubit"))())
        assert sum(others[1].values()) == SHOTS


def test_probabilities_of_the_identity_are_those_of_its_wire():
    def circuit():
        prepared()
        return qml.probs(op=qml.I(0))

    found = qml.set_shots(qml.QNode(circuit, device()), SHOTS)()
    near(found, qml.QNode(circuit, qml.device("default.qubit", wires=3))())


SUMS = {
    "apart": lambda: 0.5 * qml.X(0) + 0.3 * qml.Z(1),
    "together": lambda: 0.5 * qml.X(0) + 0.3 * qml.Z(0) @ qml.Y(1) - 0.7 * qml.Z(2),
    "with the identity": lambda: qml.X(0) + 2 * qml.I(1),
    "Hamiltonian": lambda: qml.Hamiltonian([0.4, -1.1], [qml.Z(0) @ qml.Z(1), qml.Y(2)]),
    "Hadamards": lambda: qml.Hadamard(0) @ (qml.X(1) + qml.Hadamard(2)),
    "multiple": lambda: 2 * (qml.X(1) + qml.Hadamard(2)),
}


@pytest.mark.parametrize("parts", [False, True], ids=["one", "parts"])
@pytest.mark.parametrize("name", SUMS)
def test_sums_have_samples_of_their_eigenvalues(name, parts):
    matrix = qml.matrix(SUMS[name](), wire_order=range(3))
    state = qml.QNode(lambda: (prepared(), qml.state())[1], qml.device("default.qubit", wires=3))()
    mean = np.vdot(state, matrix @ state).real
    spread = np.linalg.norm(matrix @ state) ** 2 - mean**2
    eigenvalues, vectors = np.linalg.eigh(matrix)
    weights = np.abs(vectors.conj().T @ state) ** 2

    def circuit():
        prepared()
        return qml.sample(SUMS[name]()), qml.counts(SUMS[name]()), qml.var(SUMS[name]()), qml.expval(qml.X(0))

    found = qml.set_shots(qml.QNode(circuit, device()), [SHOTS, 10] if parts else SHOTS)()
    samples, counts, var, _ = found[0] if parts else found
    assert samples.shape == (SHOTS,)
    near(samples.mean(), mean, 8)
    near(var, spread, 20)
    for value in np.unique(eigenvalues.round(9)):
        share = sum(count for key, count in counts.items() if abs(key - value) < 1e-6) / SHOTS
        near(share, weights[np.abs(eigenvalues - value) < 1e-6].sum())
        near((np.abs(samples - value) < 1e-6).mean(), share)


def test_sums_too_large_to_diagonalise_are_refused():
    chain = qml.sum(*(qml.X(k) @ qml.Z(k + 1) for k in range(14)))
    node = qml.set_shots(qml.QNode(lambda: qml.counts(chain), QdistQubit(wires=15, seed=1)), 10)
    with pytest.raises(qml.exceptions.DeviceError, match=r"15 wires.*Measure its terms"):
        node()


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


def test_snapshots_of_states_in_circuits_with_shots():
    """PennyLane runs a snapshot without shots, and those with shots beside it, as tapes of one execution."""

    @qml.qnode(QdistQubit(wires=2), interface="autograd")
    def circuit(x):
        qml.RX(x, 0)
        qml.Snapshot("state")
        qml.Snapshot("counts", measurement=qml.counts(wires=[0]))
        qml.CNOT([0, 1])
        return qml.expval(qml.Z(1)), qml.sample(wires=[0, 1])

    x = qml.numpy.array(np.pi, requires_grad=True)
    with pytest.warns(UserWarning, match="n_snapshots"):
        found = qml.snapshots(qml.set_shots(circuit, 7))(x)
    np.testing.assert_allclose(found["state"], [0, 0, -1j, 0], atol=1e-12)
    assert found["counts"] == {"1": 7}
    assert found["execution_results"][0] == -1
    np.testing.assert_array_equal(found["execution_results"][1], np.ones((7, 2)))

    tape = qml.tape.QuantumScript([qml.RX(0.3, 0)], [qml.expval(qml.Z(0))], shots=5)
    with pytest.raises(qml.exceptions.DeviceError, match=r"samples have no adjoint derivative: .*parameter-shift"):
        QdistQubit().compute_vjp([tape], [1.0])


def test_gradients_with_shots_are_by_parameter_shift():
    def circuit(x):
        qml.RX(x, wires=0)
        return qml.expval(qml.Z(0))

    node = qml.set_shots(qml.QNode(circuit, device()), SHOTS)
    assert qml.workflow.get_best_diff_method(node)(qml.numpy.array(0.4)) == "parameter-shift"
    near(qml.grad(node)(qml.numpy.array(0.4)), -np.sin(0.4))
    with pytest.raises(qml.exceptions.QuantumFunctionError, match="adjoint"):
        qml.set_shots(qml.QNode(circuit, device(), diff_method="adjoint"), 10)(qml.numpy.array(0.4))


@pytest.mark.parametrize("angle", [0.4, np.array([0.4, 0.7, 1.1])], ids=["one", "batch"])
@pytest.mark.parametrize("shots", [6, [5], [5, 5], [3, (4, 2)]], ids=str)
@pytest.mark.parametrize(
    "measured",
    [
        lambda: qml.expval(qml.I(0)),
        lambda: qml.expval(2 * qml.I(0) + 0.5 * qml.I(1)),
        lambda: (qml.expval(qml.I(0)), qml.expval(3 * qml.I(1))),
        lambda: (qml.expval(qml.I(0)), qml.var(qml.I(0))),
        lambda: (qml.expval(qml.I(0)), qml.shadow_expval(qml.I(0))),
        lambda: (qml.var(qml.I(1)), qml.expval(qml.Z(0) @ qml.Z(0)), qml.probs(wires=2)),
    ],
)
def test_constants_have_a_value_in_every_part_of_a_shot_vector(measured, shots, angle):
    def circuit(angle):
        qml.RX(angle, 0)
        return measured()

    found, wanted = (
        qml.set_shots(qml.QNode(circuit, qml.device(name, wires=3)), shots)(angle)
        for name in ("qdist.qubit", "default.qubit")
    )
    assert [np.shape(leaf) for leaf in _leaves(found)] == [np.shape(leaf) for leaf in _leaves(wanted)]
    for one, other in zip(_leaves(found), _leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)


def _leaves(results):
    return [leaf for part in results for leaf in _leaves(part)] if isinstance(results, tuple) else [results]
