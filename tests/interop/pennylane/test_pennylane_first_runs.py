"""Tapes that run for the first time are not planned, and give what planned ones give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

qml = pytest.importorskip("pennylane")

from qdist.interop.pennylane import QdistQubit  # noqa: E402


def circuit(a: Any, b: Any) -> None:
    qml.Hadamard(0)
    qml.IsingXX(a, wires=[0, 1])
    qml.Rot(a, b, 0.3, wires=1)
    qml.CRY(b, wires=[1, 2])
    qml.MultiControlledX(wires=[0, 1, 2])


MEASUREMENTS = {
    "values": lambda: (qml.expval(qml.Z(0) @ qml.X(2)), qml.expval(qml.Y(1))),
    "mixed": lambda: (qml.probs([2, 0]), qml.expval(qml.Z(1)), qml.var(qml.X(0))),
    "state": lambda: qml.state(),
}


@pytest.mark.parametrize("kind", MEASUREMENTS)
def test_results_of_a_first_run_and_of_later_ones(kind: str, planned: list[int]) -> None:
    def function(a: Any, b: Any) -> Any:
        circuit(a, b)
        return MEASUREMENTS[kind]()

    node = qml.QNode(function, QdistQubit(wires=3))
    expected = qml.QNode(function, qml.device("default.qubit", wires=3))
    for times, angles in enumerate([(0.4, 1.1), (0.4, 1.1), (-0.7, 2.0)]):
        found, wanted = node(*angles), expected(*angles)
        many = isinstance(wanted, tuple)
        for one, other in zip(found if many else [found], wanted if many else [wanted], strict=True):
            np.testing.assert_allclose(one, other, atol=1e-12)
        assert len(planned) == min(times, 1)


def test_samples_do_not_depend_on_how_often_a_tape_has_run() -> None:
    def function(a: Any) -> Any:
        circuit(a, 0.9)
        return qml.counts(wires=[0, 1, 2])

    def counts(times: int) -> Any:
        node = qml.set_shots(qml.QNode(function, QdistQubit(wires=3, seed=7)), shots=200)
        return [node(0.4) for _ in range(times)]

    (first,) = counts(1)
    assert sum(first.values()) == 200
    assert len(first) > 2
    assert counts(3)[0] == first


def test_derivatives_and_batches_are_planned_for_at_once(planned: list[int]) -> None:
    node = qml.QNode(lambda a: (circuit(a, 0.9), qml.expval(qml.Z(0)))[1], QdistQubit(wires=3))
    reference = qml.QNode(lambda a: (circuit(a, 0.9), qml.expval(qml.Z(0)))[1], qml.device("default.qubit", wires=3))
    angle = qml.numpy.array(0.3, requires_grad=True)
    np.testing.assert_allclose(qml.grad(node)(angle), qml.grad(reference)(angle), atol=1e-9)
    assert len(planned) == 1
    batch = np.array([0.1, 0.2, 0.5])
    np.testing.assert_allclose(node(batch), reference(batch), atol=1e-12)
