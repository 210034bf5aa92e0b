"""The random streams of Qiskit's state-vector primitives where circuits reset, initialise, measure and branch."""

import numpy as np
import pytest

pytest.importorskip("qiskit")

from qiskit import QiskitError
from qiskit.circuit import ClassicalRegister, Parameter, QuantumCircuit, QuantumRegister
from qiskit.primitives import StatevectorEstimator

from qdist.interop.qiskit import Estimator, Sampler
from qdist.interop.qiskit.trajectory import Trajectory
from qdist.program.program import Program


def resetting():
    """Resets of an idle, an entangled and a certain qubit, and an initialisation of two that are entangled."""
    angle = Parameter("a")
    circuit = QuantumCircuit(4)
    circuit.reset(3)
    circuit.ry(angle, 0)
    circuit.cx(0, 1)
    circuit.cx(1, 2)
    circuit.reset(0)
    circuit.h(0)
    circuit.cx(0, 3)
    circuit.initialize([0.6, 0, 0, 0.8j], [3, 0])
    circuit.rx(0.4, 2)
    circuit.reset(1)
    circuit.reset(1)
    return circuit


@pytest.mark.parametrize("precision", [0.0, 0.05])
def test_resets_draw_the_numbers_that_qiskit_draws(precision):
    pub = (resetting(), [["ZIII"], ["IZII"], [{"XIIY": 0.5, "IZIZ": 1.0}]], np.linspace(0.3, 2.5, 20)[:, None])
    found = Estimator(seed=7).run([pub], precision=precision).result()[0].data.evs
    expected = StatevectorEstimator(seed=7).run([pub], precision=precision).result()[0].data.evs
    assert len(np.unique(np.round(found[1], 3))) > 1, "outcomes differ"
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_certain_resets_take_a_number_each_before_the_noise():
    circuit = QuantumCircuit(3)
    circuit.initialize([0.6, 0.8], [1])
    circuit.reset(0)
    circuit.h(0)
    pub = (circuit, ["IIX", "IZI", "ZZZ"])
    found = Estimator(seed=3).run([pub], precision=0.2).result()[0].data.evs
    expected = StatevectorEstimator(seed=3).run([pub], precision=0.2).result()[0].data.evs
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_estimates_of_circuits_that_measure_and_branch_are_of_one_run_each():
    circuit = QuantumCircuit(2, 1)
    circuit.h(0)
    circuit.measure(0, 0)
    with circuit.if_test((circuit.clbits[0], 1)):
        circuit.x(1)
    evs = Estimator(seed=5).run([(circuit, [["ZI"]] * 40 + [["ZZ"]] * 40)]).result()[0].data.evs[:, 0]
    assert set(np.round(evs[:40], 12)) == {-1.0, 1.0}
    np.testing.assert_allclose(evs[40:], 1.0)


def test_samples_of_resets_are_of_one_run_each():
    circuit = QuantumCircuit(QuantumRegister(2), ClassicalRegister(2, "c"))
    circuit.h(0)
    circuit.cx(0, 1)
    circuit.reset(0)
    circuit.measure([0, 1], [0, 1])
    counts = Sampler(seed=1).run([circuit], shots=200).result()[0].data.c.get_counts()
    assert set(counts) == {"00", "10"}
    assert min(counts.values()) > 60


def test_shots_with_equal_outcomes_run_as_one(monkeypatch):
    circuit = QuantumCircuit(2, 3)
    circuit.h(0)
    circuit.measure(0, 0)
    with circuit.if_test((circuit.clbits[0], 1)):
        circuit.ry(0.4, 1)
        circuit.h(0)
    circuit.measure(0, 1)
    circuit.h(1)
    circuit.measure(1, 2)
    runs, inner = [], Program.run_with
    monkeypatch.setattr(Program, "run_with", lambda self, *args: runs.append(1) or inner(self, *args))
    data = Sampler(seed=4, device="cpu").run([circuit], shots=4000).result()[0].data.c
    assert len(runs) < 12, "three paths, not 4000"
    counts = data.get_counts()
    chance = (1 + np.sin(0.4)) / 2
    expected = {
        "000": 0.25, "100": 0.25,
        "001": chance / 4, "101": (1 - chance) / 4, "011": chance / 4, "111": (1 - chance) / 4,
    }  # fmt: skip
    assert set(counts) <= set(expected)
    for key, probability in expected.items():
        assert abs(counts.get(key, 0) / 4000 - probability) < 0.04
    early = data.get_bitstrings()[:40]
    assert len(set(early)) > 3, "shots come in a random order"


def test_control_flow_without_a_measurement_has_nothing_to_sample():
    circuit = QuantumCircuit(1, 1)
    with circuit.for_loop(range(3)):
        circuit.h(0)
    with pytest.raises(QiskitError, match="measures nothing"):
        Sampler().run([circuit]).result()


@pytest.mark.parametrize("value", [0, 1])
def test_a_bit_that_is_tested_and_then_measured_into_again_keeps_its_first_outcome_until_then(value):
    """The second qubit is turned where the first outcome says so, and only its outcome is left."""
    angle = 0.9
    circuit = QuantumCircuit(QuantumRegister(2), ClassicalRegister(1, "c"))
    circuit.ry(angle, 0)
    circuit.measure(0, 0)
    with circuit.if_test((circuit.clbits[0], value)):
        circuit.x(1)
    circuit.measure(1, 0)
    one = np.sin(angle / 2) ** 2
    counts = Sampler(seed=6, device="cpu").run([circuit], shots=4000).result()[0].data.c.get_counts()
    assert abs(counts["1"] / 4000 - (one if value else 1 - one)) < 0.04


def test_outcomes_that_nothing_reads_are_not_drawn(monkeypatch):
    """A bit that is measured into again before anything tests it: one run serves all shots."""
    circuit = QuantumCircuit(QuantumRegister(2), ClassicalRegister(1, "c"))
    circuit.h(0)
    circuit.measure(0, 0)
    circuit.x(1)
    circuit.measure(1, 0)
    monkeypatch.setattr(Trajectory, "leaves", lambda *args: pytest.fail("a tree of runs"))
    assert Sampler(device="cpu").run([circuit], shots=50).result()[0].data.c.get_counts() == {"1": 50}
