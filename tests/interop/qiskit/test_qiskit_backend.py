"""Backend: transpile, results with counts, memory and states, and Qiskit's Backend primitives."""

import numpy as np
import pytest

pytest.importorskip("qiskit")

from qiskit import QiskitError, QuantumCircuit, transpile
from qiskit.circuit import ClassicalRegister, Parameter, QuantumRegister
from qiskit.circuit.library import PauliEvolutionGate, QFTGate, efficient_su2
from qiskit.primitives import BackendEstimatorV2, BackendSamplerV2, StatevectorEstimator
from qiskit.providers import JobStatus
from qiskit.quantum_info import SparsePauliOp, Statevector

import qdist.interop.qiskit.programs as programs
from qdist.interop.qiskit import Backend


def branching():
    circuit = QuantumCircuit(QuantumRegister(3), ClassicalRegister(1, "a"), ClassicalRegister(9, "b"), name="two")
    circuit.h(0)
    circuit.measure(0, 0)
    with circuit.if_test((circuit.clbits[0], 1)) as other:
        circuit.x(1)
    with other:
        circuit.append(PauliEvolutionGate(SparsePauliOp("X"), np.pi / 2), [2])
    circuit.measure([1, 2], [1, 9])
    return circuit


@pytest.mark.parametrize("level", range(4))
def test_transpiled_circuits_run_with_control_flow_and_native_gates(level):
    backend = Backend(device="cpu", seed_simulator=4)
    circuit = transpile(branching(), backend, optimization_level=level)
    assert "if_else" in circuit.count_ops()
    result = backend.run(circuit, shots=300, memory=True).result()
    counts = result.get_counts()
    assert set(counts) == {"000000001 1", "100000000 0"}
    assert sum(counts.values()) == 300
    assert min(counts.values()) > 100
    memory = result.get_memory()
    assert {text: memory.count(text) for text in counts} == counts


def test_transpile_leaves_what_is_native():
    circuit = QuantumCircuit(4)
    circuit.append(PauliEvolutionGate(SparsePauliOp(["XYZI", "IZZI"]), 0.3), range(4))
    circuit.append(QFTGate(3), [0, 2, 3])
    circuit.mcx([0, 1, 2], 3)
    circuit.unitary(np.eye(8), [0, 1, 2])
    circuit.initialize("0+", [2, 3])
    counted = transpile(circuit, Backend(device="cpu"), optimization_level=0).count_ops()
    assert counted["PauliEvolution"] == counted["unitary"] == counted["initialize"] == 1
    assert "u" not in counted


def test_states_on_request_and_seeds():
    circuit = QuantumCircuit(3, 3)
    circuit.h(0)
    circuit.cx(0, 2)
    circuit.rz(0.3, 2)
    expected = Statevector(circuit).data
    circuit.measure(range(3), range(3))
    backend = Backend(device="cpu")
    result = backend.run([circuit, circuit], shots=50, seed_simulator=9, statevector=True).result()
    np.testing.assert_allclose(result.get_statevector(0).data, expected, atol=1e-12)
    assert result.results[0].header["creg_sizes"] == [["c", 3]]
    again = backend.run([circuit, circuit], shots=50, seed_simulator=9).result()
    assert again.get_counts() == result.get_counts()
    assert "statevector" not in again.data(0)
    assert "memory" not in again.data(0)
    both = backend.run([circuit, circuit], shots=50, seed_simulator=9, memory=True).result()
    assert both.get_memory(0) != both.get_memory(1), "random numbers go on"
    job = backend.run(circuit, shots=0, statevector=True)
    assert job.status() is JobStatus.DONE
    assert "counts" not in job.result().data(0)
    np.testing.assert_allclose(job.result().get_statevector().data, expected, atol=1e-12)


def test_states_of_circuits_with_idle_qubits_have_all_qubits():
    circuit = QuantumCircuit(6)
    circuit.ry(0.7, 4)
    circuit.cx(4, 1)
    found = Backend(device="cpu").run(circuit, shots=0, statevector=True).result().get_statevector()
    np.testing.assert_allclose(found.data, Statevector(circuit).data, atol=1e-12)


def test_wrong_options_are_named():
    backend = Backend(device="cpu")
    circuit = QuantumCircuit(1, 1)
    circuit.measure(0, 0)
    with pytest.raises(QiskitError, match=r"noise=1: the options of a run are shots, seed_simulator"):
        backend.run(circuit, noise=1)
    for shots in (-1, 2.5, True):
        with pytest.raises(QiskitError, match="not a number of shots"):
            backend.run(circuit, shots=shots)
    circuit.rx(Parameter("t"), 0)
    with pytest.raises(QiskitError, match=r"without values \(t\)"):
        backend.run(circuit)


def test_the_backend_primitives_of_qiskit():
    backend = Backend(device="cpu")
    circuit = efficient_su2(3, reps=1)
    theta = np.random.default_rng(1).uniform(-1, 1, (2, circuit.num_parameters))
    pub = (circuit, [[SparsePauliOp(["ZZI", "IXX"], [1.0, 0.5])]], theta)
    estimator = BackendEstimatorV2(backend=backend, options={"seed_simulator": 3})
    found = estimator.run([pub], precision=0.02).result()[0].data
    expected = StatevectorEstimator().run([pub]).result()[0].data.evs
    assert (np.abs(found.evs - expected) < 5 * found.stds).all()
    sampled = branching()
    data = BackendSamplerV2(backend=backend, options={"seed_simulator": 3}).run([sampled], shots=200).result()[0].data
    assert set(zip(data.a.get_bitstrings(), data.b.get_bitstrings())) == {("1", "000000001"), ("0", "100000000")}


def test_equal_circuits_are_planned_once(monkeypatch):
    compiled, made = [], programs.Program
    monkeypatch.setattr(programs, "Program", lambda *args, **kwargs: compiled.append(1) or made(*args, **kwargs))
    backend = Backend(device="cpu")
    backend.run(branching(), shots=2)
    pieces = len(compiled)
    backend.run([branching(), branching()], shots=2)
    assert len(compiled) == pieces > 1
    plain = QuantumCircuit(2)
    plain.h(0)
    plain.measure_all()
    backend.run([plain, plain.copy()], shots=2)
    assert len(compiled) == pieces + 1
