"""Random circuits of Qiskit's generator, with all its gates and with conditions, against quantum_info and Aer."""

from collections import Counter

import numpy as np
import pytest

pytest.importorskip("qiskit")
pytest.importorskip("qiskit_aer")

from qiskit import transpile
from qiskit.circuit import ClassicalRegister, QuantumCircuit, QuantumRegister
from qiskit.circuit.random import random_circuit
from qiskit.quantum_info import Statevector
from qiskit_aer import AerSimulator

import qdist as qd
from qdist.interop.qiskit import Backend, Sampler, from_qiskit, to_qiskit

SHOTS = 3000


def amplitudes(circuit):
    return qd.simulate(from_qiskit(circuit), dtype="complex128").amplitudes()


@pytest.mark.parametrize("seed", range(12))
def test_amplitudes_are_those_of_quantum_info_and_aer_and_survive_a_round_trip(seed):
    circuit = random_circuit(7, 10, max_operands=4, seed=seed)
    found = amplitudes(circuit)
    np.testing.assert_allclose(found, Statevector(circuit).data, atol=1e-10)
    again = to_qiskit(from_qiskit(circuit), like=circuit)
    np.testing.assert_allclose(amplitudes(again), found, atol=1e-10)
    simulator = AerSimulator(method="statevector")
    run = transpile(circuit, simulator, optimization_level=0)
    run.save_statevector()
    np.testing.assert_allclose(found, np.asarray(simulator.run(run).result().get_statevector()), atol=1e-10)


def distance(first, second):
    """Half the sum of differences of the frequencies: 0 for equal ones, 1 where nothing is shared."""
    return sum(abs(first.get(key, 0) - second.get(key, 0)) for key in {*first, *second}) / (2 * SHOTS)


@pytest.mark.parametrize("seed", [0, 1, 2, 5, 6, 7])
def test_counts_with_conditions_measurements_and_resets_are_those_of_aer(seed):
    circuit = random_circuit(4, 8, max_operands=3, measure=True, conditional=True, reset=True, seed=seed)
    assert any(item.operation.name == "if_else" for item in circuit)
    simulator = AerSimulator(method="statevector", seed_simulator=seed)
    theirs = simulator.run(transpile(circuit, simulator, optimization_level=0), shots=SHOTS).result().get_counts()
    again = to_qiskit(from_qiskit(circuit), like=circuit)
    for one in (circuit, again):
        ours = Backend(device="cpu").run(one, shots=SHOTS, seed_simulator=seed).result().get_counts()
        # 16 outcomes of 3000 shots each way: about 0.03.
        assert distance(ours, theirs) < 0.09
    (register,) = Sampler(seed=seed, device="cpu").run([circuit], shots=SHOTS).result()[0].data.values()
    assert distance(register.get_counts(), theirs) < 0.09


def dynamic(seed):
    """Nested control flow over registers and bits, with switches, loops and measurements inside of blocks."""
    rng = np.random.default_rng(seed)
    bits, flags = ClassicalRegister(2, "bits"), ClassicalRegister(2, "flags")
    circuit = QuantumCircuit(QuantumRegister(3, "q"), bits, flags)

    def gates():
        for _ in range(2):
            circuit.u(*rng.uniform(0, 3, 3), int(rng.integers(3)))
            circuit.cx(*(int(q) for q in rng.permutation(3)[:2]))

    for _ in range(2):
        gates()
        circuit.measure([0, 1], bits)
        with circuit.if_test((bits, int(rng.integers(4)))) as other:
            gates()
            with circuit.for_loop(range(2)):
                gates()
        with other:
            circuit.measure(2, flags[0])
            with circuit.if_test((flags[0], 1)):
                circuit.reset(2)
        with circuit.switch(bits) as case:
            with case(0):
                gates()
            with case(1, 2):
                circuit.measure(2, flags[1])
            with case(case.DEFAULT):
                circuit.x(int(rng.integers(3)))
    circuit.measure([0, 1], bits)
    return circuit


@pytest.mark.parametrize("seed", range(4))
def test_nested_control_flow_gives_the_counts_of_aer(seed):
    circuit = dynamic(seed)
    theirs = AerSimulator(seed_simulator=1).run(circuit, shots=SHOTS).result().get_counts()
    for one in (circuit, to_qiskit(from_qiskit(circuit), like=circuit)):
        ours = Backend(device="cpu").run(one, shots=SHOTS, seed_simulator=2).result().get_counts()
        assert distance(ours, theirs) < 0.09


def reusing(seed):
    """Few classical bits, each measured into, tested and measured into again, also under conditions."""
    rng = np.random.default_rng(seed)
    circuit = QuantumCircuit(QuantumRegister(4, "q"), ClassicalRegister(2, "c"))
    for qubit in range(4):
        circuit.ry(rng.uniform(0.5, 2.5), qubit)

    def measure():
        circuit.measure(int(rng.integers(4)), int(rng.integers(2)))

    for _ in range(6):
        chosen, test = rng.integers(5), (circuit.clbits[int(rng.integers(2))], int(rng.integers(2)))
        if chosen < 2:
            measure()
        elif chosen < 4:
            with circuit.if_test(test):
                circuit.x(int(rng.integers(4)))
        else:
            with circuit.if_test(test):
                measure()
    measure()
    measure()
    return circuit


@pytest.mark.parametrize("seed", range(20))
def test_bits_that_are_tested_and_measured_into_again_give_the_counts_of_aer(seed):
    circuit = reusing(seed)
    # Aer fails where a qubit is only used under a condition and never measured.
    longer = circuit.copy()
    longer.measure_all()
    theirs = Counter()
    for key, count in AerSimulator(seed_simulator=1).run(longer, shots=SHOTS).result().get_counts().items():
        theirs[key.split()[1]] += count
    ours = Backend(device="cpu").run(circuit, shots=SHOTS, seed_simulator=2).result().get_counts()
    assert distance(ours, theirs) < 0.06
    sampled = Sampler(seed=3, device="cpu").run([circuit], shots=SHOTS).result()[0].data.c.get_counts()
    assert distance(sampled, theirs) < 0.06
