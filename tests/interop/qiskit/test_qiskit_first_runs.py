"""Circuits that run for the first time are not planned, and give what planned ones give."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("qiskit")

from qiskit import QuantumCircuit
from qiskit.circuit import Parameter
from qiskit.circuit.random import random_circuit
from qiskit.primitives import StatevectorEstimator
from qiskit.quantum_info import SparsePauliOp, Statevector

from qdist.interop.qiskit import Backend, Estimator, Sampler


@pytest.mark.parametrize("seed", range(4))
def test_counts_and_states_of_a_backend(seed: int, planned: list[int]) -> None:
    circuit = random_circuit(5, 12, seed=seed)
    expected = Statevector(circuit)
    circuit.measure_all()
    backend, counts = Backend(), []
    for times in range(3):
        result = backend.run(circuit, shots=300, seed_simulator=11, statevector=True).result()
        np.testing.assert_allclose(result.get_statevector(), expected.data, atol=1e-12)
        counts.append(result.get_counts())
        assert len(planned) == min(times, 1)
    assert counts[0] == counts[1] == counts[2]


def test_a_sampler_and_an_estimator(planned: list[int]) -> None:
    t = Parameter("t")
    circuit = QuantumCircuit(4)
    circuit.h(0)
    for q in range(3):
        circuit.cx(q, q + 1)
        circuit.ry((q + 1) * t, q)
    energy = SparsePauliOp.from_list([("ZZII", 1.0), ("IXXI", 0.5), ("YIIY", -0.3)])
    expected = [StatevectorEstimator().run([(circuit, energy, [v])]).result()[0].data.evs for v in (0.4, 0.9)]
    estimator = Estimator()
    for value, times in ((0.4, 0), (0.4, 1), (0.9, 1)):
        found = estimator.run([(circuit, energy, [value])]).result()[0].data.evs
        np.testing.assert_allclose(found, expected[value == 0.9], atol=1e-12)
        assert len(planned) == times

    planned.clear()
    measured = circuit.measure_all(inplace=False)
    sampler = Sampler(seed=5)
    first, second = (sampler.run([(measured, [0.4])], shots=200).result()[0].data.meas.get_counts() for _ in range(2))
    assert first == second
    assert len(planned) == 1


def test_several_values_at_once_are_planned_for(planned: list[int]) -> None:
    t = Parameter("t")
    circuit = QuantumCircuit(2)
    circuit.ry(t, 0)
    circuit.cx(0, 1)
    found = Estimator().run([(circuit, SparsePauliOp("ZI"), [[0.3], [0.8], [1.1]])]).result()[0].data.evs
    np.testing.assert_allclose(found, np.cos([0.3, 0.8, 1.1]), atol=1e-12)
    assert len(planned) == 1
