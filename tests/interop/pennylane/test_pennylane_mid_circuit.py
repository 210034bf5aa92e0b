"""Mid-circuit measurements on qdist.qubit: every method against the exact values of deferred measurements."""

import numpy as np
import pytest

qml = pytest.importorskip("pennylane")

from qdist.interop.pennylane import QdistQubit  # noqa: E402
from qdist.program.runner import Runner  # noqa: E402

SHOTS = 20_000
METHODS = ["one-shot", "tree-traversal", "deferred"]


def device():
    return QdistQubit(wires=8, seed=5)


def circuit(reset=False, postselect=None):
    qml.RY(0.8, wires=0)
    first = qml.measure(0, reset=reset)
    qml.RX(0.5, wires=1)
    qml.cond(first, qml.RY)(1.1, wires=1)
    second = qml.measure(1, postselect=postselect)
    qml.cond(first + second == 1, qml.RX)(0.7, wires=2)
    qml.CNOT([1, 2])
    return (
        qml.expval(qml.Z(0)),
        qml.expval(qml.Y(2) @ qml.Z(1)),
        qml.probs(wires=[2, 0]),
        qml.var(qml.X(2)),
        qml.expval(first),
        qml.expval(2 * first + second),
        qml.probs(op=[first, second]),
        qml.var(second),
    )


def exact(**options):
    return qml.QNode(circuit, qml.device("default.qubit", wires=8))(**options)


@pytest.mark.parametrize("options", [{}, {"reset": True}, {"postselect": 1}], ids=str)
@pytest.mark.parametrize("method", METHODS)
def test_shots_have_the_means_of_the_exact_values(method, options):
    node = qml.set_shots(qml.QNode(circuit, device(), mcm_method=method), SHOTS)
    for found, expected in zip(node(**options), exact(**options)):
        np.testing.assert_allclose(found, expected, atol=0.06)


@pytest.mark.parametrize("options", [{}, {"reset": True}, {"postselect": 0}], ids=str)
@pytest.mark.parametrize("method", ["tree-traversal", "device", "deferred"])
def test_without_shots_values_are_exact(method, options):
    found = qml.QNode(circuit, device(), mcm_method=method)(**options)
    for one, other in zip(found, exact(**options)):
        np.testing.assert_allclose(one, other, atol=1e-9)


def test_paths_run_once_however_many_shots_take_them(monkeypatch):
    runs, inner = [], Runner.run_with
    monkeypatch.setattr(Runner, "run_with", lambda *args, **kwargs: runs.append(1) or inner(*args, **kwargs))
    qml.set_shots(qml.QNode(circuit, device(), mcm_method="one-shot"), 1000)()
    assert len(runs) < 60


def test_samples_counts_and_lists_of_outcomes():
    def outcomes():
        qml.Hadamard(0)
        first = qml.measure(0)
        qml.cond(first, qml.X)(1)
        second = qml.measure(1)
        return qml.sample([first, second]), qml.counts([first, second]), qml.counts(first), qml.sample(wires=[0, 1])

    bits, counts, alone, wires = qml.set_shots(qml.QNode(outcomes, device()), 200)()
    assert bits.shape == wires.shape == (200, 2)
    np.testing.assert_array_equal(bits[:, 0], bits[:, 1])
    assert set(counts) == {"00", "11"}
    assert sum(counts.values()) == sum(alone.values()) == 200


def test_postselection_discards_shots_or_fills_them():
    def selected():
        qml.Hadamard(0)
        qml.measure(0, postselect=1)
        return qml.sample(wires=0)

    for method, mode, least, most in [
        ("one-shot", "hw-like", 60, 140),
        ("one-shot", "fill-shots", 200, 200),
        ("deferred", "hw-like", 60, 140),
        ("deferred", "fill-shots", 200, 200),
    ]:
        node = qml.set_shots(qml.QNode(selected, device(), mcm_method=method, postselect_mode=mode), 200)
        found = node()
        assert least <= len(found) <= most, (method, mode)
        assert (found == 1).all()


def test_shot_vectors_and_batches():
    def rotated(x):
        qml.RX(x, wires=0)
        outcome = qml.measure(0, reset=True)
        qml.cond(outcome, qml.X)(1)
        return qml.expval(qml.Z(1)), qml.expval(outcome)

    parts = qml.set_shots(qml.QNode(rotated, device()), [3, 4])(np.array([0.0, np.pi]))
    for mean, outcome in parts:
        np.testing.assert_allclose(mean, [1, -1])
        np.testing.assert_allclose(outcome, [0, 1])


def test_gradients_through_deferred_measurements():
    def trained(x):
        qml.RY(x[0], wires=0)
        outcome = qml.measure(0)
        qml.cond(outcome, qml.RY)(x[1], wires=1)
        return qml.expval(qml.Z(1))

    x = qml.numpy.array([0.6, 1.1])
    found, expected = (qml.grad(qml.QNode(trained, dev))(x) for dev in (device(), qml.device("default.qubit", wires=3)))
    np.testing.assert_allclose(found, expected, atol=1e-9)


def test_dynamic_wires_are_reset_between_their_uses():
    def reused():
        for _ in range(2):
            with qml.allocate(1) as (spare,):
                qml.Hadamard(spare)
                qml.CNOT([spare, 0])
        return qml.probs(wires=0)

    node = qml.set_shots(qml.QNode(reused, QdistQubit(wires=2, seed=2), mcm_method="one-shot"), 4000)
    np.testing.assert_allclose(node(), [0.5, 0.5], atol=0.05)


def test_what_a_mixed_state_lacks_is_an_error():
    def mixed(measure):
        qml.Hadamard(0)
        qml.measure(0)
        return measure()

    node = qml.QNode(mixed, device(), mcm_method="tree-traversal")
    with pytest.raises(qml.exceptions.DeviceError, match="mcm_method='deferred'"):
        node(lambda: qml.purity(wires=0))
    config = qml.devices.ExecutionConfig(mcm_config=qml.devices.MCMConfig(mcm_method="single-branch-statistics"))
    with pytest.raises(qml.exceptions.DeviceError, match="tree-traversal"):
        device().setup_execution_config(config)
