"""qdist.qubit on several ranks; run on every rank at once. The same scripts as on one, and the same results on all."""

import sys
from pathlib import Path

import numpy as np
import pennylane as qml
import pytest

import qdist
from qdist.interop.pennylane import QdistQubit

sys.path.append(str(Path(__file__).parents[1]))
from random_tapes import run, script

WIRES = list(range(8))


@pytest.fixture(scope="session")
def device() -> QdistQubit:
    return QdistQubit(wires=8, device="cpu")


def layers(x):
    qml.AngleEmbedding(x[..., :8], wires=WIRES, rotation="Y")
    for wire in WIRES:
        qml.CNOT([wire, (wire + 1) % 8])
    qml.Rot(x[..., 8], x[..., 9], x[..., 10], wires=7)
    qml.DoubleExcitation(x[..., 11], wires=[7, 0, 3, 6])
    return qml.expval(qml.Z(0) @ qml.X(7)), qml.probs(wires=[7, 2]), qml.var(qml.Y(6))


def same_everywhere(numbers):
    table = qdist.comm.world().all_gather(np.ascontiguousarray(numbers))
    assert (table == table[0]).all()


def numbers(results):
    return np.concatenate([np.ravel(one) for one in results]).astype(complex)


def test_states_are_split_and_every_rank_has_every_result(device):
    assert device.comm is not None
    assert device.comm.size == qdist.comm.world().size > 1
    reference = qml.device("default.qubit", wires=8)
    for seed in range(6):
        tape = script(np.random.default_rng(seed), WIRES, 2 if seed % 2 else None)
        found, expected = run(device, tape), run(reference, tape)
        pairs = zip(found, expected) if isinstance(expected, tuple) else [(found, expected)]
        for one, other in pairs:
            np.testing.assert_allclose(one, other, atol=1e-9)
    place = {wire: 7 - wire for wire in WIRES}
    assert device._compiler.compiled([qml.RX(0.1, wires=0)], place).program.comm is device.comm


@pytest.mark.parametrize("rows", [None, 2])
def test_gradients(device, rows):
    x = qml.numpy.array(np.random.default_rng(1).normal(size=(12,) if rows is None else (rows, 12)))

    def jacobian(device):
        node = qml.QNode(layers, device)
        return qml.jacobian(lambda x: qml.math.concatenate([qml.math.reshape(one, (-1,)) for one in node(x)]))(x)

    found = jacobian(device)
    np.testing.assert_allclose(found, jacobian(qml.device("default.qubit", wires=8)), atol=1e-9)
    same_everywhere(found)


def test_circuits_that_begin_with_amplitudes(device):
    features = np.random.default_rng(2).normal(size=256)

    def circuit(x):
        qml.AmplitudeEmbedding(features, wires=WIRES, normalize=True)
        qml.RX(x, wires=0)
        qml.CRY(x, wires=[0, 5])
        return qml.expval(qml.Z(5))

    nodes = [qml.QNode(circuit, one) for one in (device, qml.device("default.qubit", wires=8))]
    np.testing.assert_allclose(*[qml.grad(node)(qml.numpy.array(0.4)) for node in nodes], atol=1e-9)


def test_samples_and_outcomes_are_the_same_on_all_ranks(device):
    def circuit():
        for wire in WIRES:
            qml.RY(0.3 + wire, wires=wire)
        outcome = qml.measure(3)
        qml.cond(outcome, qml.X)(0)
        return qml.sample(wires=WIRES), qml.expval(outcome), qml.expval(qml.X(1))

    bits, outcome, mean = qml.set_shots(qml.QNode(circuit, device), 2000)()
    same_everywhere(bits)
    same_everywhere(np.array([outcome, mean]))
    assert abs(outcome - np.sin(3.3 / 2) ** 2) < 0.06
    assert abs(mean - np.sin(1.3)) < 0.12


def test_small_circuits_run_on_every_rank(device):
    def bell(x):
        qml.RX(x, wires=0)
        qml.CNOT([0, 1])
        return qml.expval(qml.Z(1))

    node = qml.QNode(bell, device)
    np.testing.assert_allclose(qml.grad(node)(qml.numpy.array(0.4)), -np.sin(0.4), atol=1e-12)
    same_everywhere(qml.set_shots(qml.QNode(lambda: (qml.Hadamard(0), qml.sample(wires=0))[1], device), 100)())
