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


def begun(reset):
    qml.RY(1.0, 0)
    qml.RY(0.5, 1)
    first = qml.measure(0, reset=reset)
    qml.cond(first, qml.RX)(2.0, 1)
    qml.measure(1, postselect=1)
    return first


def late(reset):
    """What was measured first decides how likely the postselected outcome is."""
    first = begun(reset)
    return qml.expval(first), qml.probs(wires=0), qml.expval(qml.Z(1))


def between(reset):
    """Postselections before, between and after other measurements, and conditions on several."""
    qml.RY(0.9, 0)
    qml.measure(0, postselect=1, reset=reset)
    qml.RY(1.2, 1)
    first = qml.measure(1, reset=reset)
    qml.cond(first, qml.RY)(0.7, 2)
    qml.measure(2, postselect=0, reset=reset)
    qml.RX(0.8, 2)
    second = qml.measure(2)
    qml.cond(first & ~second, qml.RX)(1.1, 0)
    qml.cond(first | second, qml.RY)(0.4, 1)
    qml.measure(0, postselect=1)
    return qml.expval(first), qml.probs(op=[first, second]), qml.probs(wires=[1, 2]), qml.expval(qml.X(1))


def rare(reset):
    """A postselection that one shot of some thousands passes."""
    qml.RY(0.4, 0)
    first = qml.measure(0, reset=reset)
    qml.RY(0.02, 1)
    qml.cond(first, qml.RY)(0.05, 1)
    qml.measure(1, postselect=1)
    return qml.expval(first), qml.probs(wires=[0, 1])


@pytest.mark.parametrize("reset", [False, True], ids=["kept", "reset"])
@pytest.mark.parametrize("circuit", [late, between, rare])
@pytest.mark.parametrize("method", ["one-shot", "tree-traversal", "device", None])
def test_filled_shots_are_distributed_as_those_that_pass_all_postselections(method, circuit, reset):
    node = qml.QNode(circuit, device(), mcm_method=method, postselect_mode="fill-shots")
    expected = qml.QNode(circuit, qml.device("default.qubit", wires=10), mcm_method="deferred")(reset)
    for found, mean in zip(qml.set_shots(node, SHOTS)(reset), expected):
        np.testing.assert_allclose(found, mean, atol=5 / np.sqrt(SHOTS))


def test_filled_shots_are_as_many_as_asked_for():
    def sampled():
        begun(False)
        return qml.sample(wires=[0, 1])

    node = qml.QNode(sampled, device(), mcm_method="one-shot", postselect_mode="fill-shots")
    for shots in (1, 7, 1000):
        found = qml.set_shots(node, shots)()
        assert found.shape == (shots, 2)
        assert (found[:, 1] == 1).all()
    few = [qml.set_shots(node, 1)()[0, 0] for _ in range(300)]
    assert np.mean(few) == pytest.approx(0.766, abs=0.12)


@pytest.mark.parametrize("branches", [False, True], ids=["at once", "after another"])
@pytest.mark.parametrize("method", METHODS)
def test_postselection_on_what_cannot_be_is_an_error(method, branches):
    def impossible():
        if branches:
            qml.Hadamard(1)
            qml.measure(1)
        qml.X(0)
        qml.measure(0, postselect=0)
        return qml.expval(qml.Z(0)), qml.probs(wires=0)

    for mode, message in [("fill-shots", "probability 0"), ("hw-like", "none of 20 shots"), (None, "none of 20 shots")]:
        node = qml.QNode(impossible, device(), mcm_method=method, postselect_mode=mode)
        with pytest.raises(qml.exceptions.DeviceError, match=message):
            qml.set_shots(node, 20)()
        if method != "one-shot":
            with pytest.raises(qml.exceptions.DeviceError, match="probability 0"):
                node()


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


READ = {
    "probs of one": lambda first, second: qml.probs(op=first),
    "probs of both": lambda first, second: qml.probs(op=[second, first]),
    "their sum": lambda first, second: qml.expval(first + 2 * second),
    "one": lambda first, second: qml.expval(second),
    "variance of a wire": lambda first, second: qml.var(qml.Z(2) @ qml.X(1)),
    "both kinds": lambda first, second: (qml.probs(op=first), qml.expval(qml.Z(2)), qml.probs(wires=[2, 1])),
}


@pytest.mark.parametrize("what", READ)
@pytest.mark.parametrize("diff_method", ["best", "adjoint", "parameter-shift"])
@pytest.mark.parametrize("method", [None, "deferred", "tree-traversal", "device"])
def test_gradients_of_what_was_measured(method, diff_method, what):
    """The adjoint method is that of deferred measurements; "best" is another where a method of its own is asked for."""
    if diff_method == "adjoint" and method in ("tree-traversal", "device"):
        pytest.skip("which refuse it: see the next test")

    def node(x):
        qml.RX(x[0], 0)
        first = qml.measure(0)
        qml.RY(x[1], 1)
        qml.CNOT([0, 1])
        second = qml.measure(1, reset=True)
        qml.cond(second, qml.RX)(x[0], 2)
        qml.RY(0.3, 1)
        return READ[what](first, second)

    def joined(own):
        return lambda x: qml.math.hstack([qml.math.reshape(value, (-1,)) for value in _as_tuple(own(x))])

    x = qml.numpy.array([0.3, 0.7], requires_grad=True)
    own = qml.QNode(node, device(), diff_method=diff_method, mcm_method=method)
    expected = qml.jacobian(joined(qml.QNode(node, qml.device("default.qubit"), mcm_method="deferred")))(x)
    np.testing.assert_allclose(qml.jacobian(joined(own))(x), expected, atol=1e-8)


def _as_tuple(values):
    return values if isinstance(values, tuple | list) else (values,)


@pytest.mark.parametrize("method", ["tree-traversal", "device"])
def test_adjoint_derivatives_are_those_of_deferred_measurements(method):
    def node(x):
        qml.RX(x, 0)
        return qml.expval(qml.measure(0))

    own = qml.QNode(node, device(), diff_method="adjoint", mcm_method=method)
    with pytest.raises(qml.exceptions.QuantumFunctionError, match="does not support adjoint"):
        qml.grad(own)(qml.numpy.array(0.3, requires_grad=True))


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
