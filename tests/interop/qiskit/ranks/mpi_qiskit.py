"""Qiskit's primitives on several ranks; run on every rank at once. The same script and the same results on all."""

from pathlib import Path

import numpy as np
import pytest
from qiskit.circuit import Parameter, QuantumCircuit
from qiskit.circuit.library import efficient_su2
from qiskit.primitives import StatevectorEstimator, StatevectorSampler
from qiskit.quantum_info import SparsePauliOp

import qdist
from qdist.circuit import CircuitError
from qdist.interop.qiskit import Backend, Estimator, Sampler
from qdist.interop.qiskit.gradients import gradients, programs_of
from qdist.state.alone import alone


def same_everywhere(numbers):
    table = qdist.comm.world().all_gather(np.ascontiguousarray(numbers))
    assert (table == table[0]).all()


def test_estimates_and_samples_are_those_of_one_process_on_every_rank():
    circuit = efficient_su2(8, reps=1)
    theta = np.random.default_rng(1).uniform(-2, 2, (2, circuit.num_parameters))
    observables = [SparsePauliOp(["ZIIIIIIZ", "XXIIIIII"], [1.0, 0.5]), SparsePauliOp("IIIIYYII")]
    pub = (circuit, [[one] for one in observables], theta)
    estimator = Estimator(seed=3, device="cpu")
    found = estimator.run([pub], precision=0.1).result()[0].data.evs
    expected = StatevectorEstimator(seed=3).run([pub], precision=0.1).result()[0].data.evs
    np.testing.assert_allclose(found, expected, atol=1e-9)
    assert estimator._programs.read(circuit).program.comm is not None, "the state is split"
    circuit.measure_all()
    samples = Sampler(seed=3, device="cpu").run([(circuit, theta)], shots=200).result()[0].data.meas
    assert samples == StatevectorSampler(seed=3).run([(circuit, theta)], shots=200).result()[0].data.meas


def test_without_a_seed_all_ranks_draw_the_same():
    circuit = QuantumCircuit(8, 8)
    circuit.h(range(8))
    circuit.measure(0, 0)
    branching = circuit.copy()
    branching.x(0)
    for one in (circuit, branching):
        one.measure(range(1, 8), range(1, 8))
        same_everywhere(Sampler(device="cpu").run([one], shots=20).result()[0].data.c.array)
    values = Estimator(device="cpu").run([(QuantumCircuit(8), "Z" * 8)], precision=0.5).result()[0].data.evs
    same_everywhere(np.atleast_1d(values))


def test_gradients_are_those_of_one_process_on_every_rank():
    circuit = efficient_su2(8, reps=1)
    theta = np.random.default_rng(2).uniform(-1, 1, (2, circuit.num_parameters))
    observable = SparsePauliOp(["ZIIIIIIZ", "XXIIIIII"], [1.0, 0.5])
    estimator = Estimator(device="cpu")
    arguments = [circuit] * 2, [observable] * 2, list(theta), [circuit.parameters] * 2
    found = gradients(programs_of(estimator), *arguments)
    expected = gradients(programs_of(Estimator(device="cpu", comm=alone())), *arguments)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    same_everywhere(np.array(found))


def test_a_backend_and_dynamic_circuits_give_every_rank_the_same():
    circuit = QuantumCircuit(8, 8)
    circuit.h(range(8))
    circuit.measure(7, 7)
    with circuit.if_test((circuit.clbits[7], 1)):
        circuit.cx(0, 7)
    circuit.reset(6)
    circuit.cx(1, 6)
    backend = Backend(device="cpu")
    result = backend.run(circuit, shots=1, statevector=True).result()
    same_everywhere(np.asarray(result.get_statevector().data))
    circuit.measure(range(7), range(7))
    memory = backend.run(circuit, shots=30, memory=True).result().get_memory()
    same_everywhere(np.array([int(text, 2) for text in memory]))
    values = Estimator(seed=4, device="cpu").run([(circuit, ["Z" + "I" * 7] * 6)]).result()[0].data.evs
    same_everywhere(values)


def test_jobs_run_in_the_order_of_their_calls():
    """Threads of two jobs would make ranks wait for each other."""
    circuit = efficient_su2(8, reps=1)
    theta = np.random.default_rng(2).uniform(-1, 1, (3, circuit.num_parameters))
    estimator = Estimator(device="cpu")
    jobs = [estimator.run([(circuit, "Z" * 8, row)]) for row in theta for _ in range(4)]
    assert all(job.done() for job in jobs)
    found = np.array([job.result()[0].data.evs for job in reversed(jobs)])
    same_everywhere(found)
    refused = QuantumCircuit(8)
    refused.rx(Parameter("x").abs(), 0)
    wrong = estimator.run([(refused, "Z" * 8, [0.5])])
    with pytest.raises(CircuitError, match="no counterpart"):
        wrong.result()


def test_the_vqe_program_gives_every_rank_the_energy(monkeypatch):
    pytest.importorskip("qiskit_algorithms")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[4] / "circuits"))
    import qiskit_vqe

    energy = qiskit_vqe.main(["--spins", "8", "--layers", "2", "--steps", "5"])
    assert energy < -1.6
    same_everywhere(np.array([energy]))
