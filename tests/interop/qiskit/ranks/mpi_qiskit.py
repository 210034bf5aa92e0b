"""Qiskit's primitives on several ranks; run on every rank at once. The same script and the same results on all."""

import numpy as np
from qiskit.circuit import QuantumCircuit
from qiskit.circuit.library import efficient_su2
from qiskit.primitives import StatevectorEstimator, StatevectorSampler
from qiskit.quantum_info import SparsePauliOp

import qdist
from qdist.interop.qiskit import Estimator, Sampler


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
