"""Density matrices and trajectories against Qiskit Aer, where it is installed."""

import numpy as np
import pytest
from kraus_reference import noisy_circuit

import qdist as qd

aer = pytest.importorskip("qiskit_aer")
qiskit = pytest.importorskip("qiskit")

from qiskit_aer.noise import (  # noqa: E402
    amplitude_damping_error,
    depolarizing_error,
    pauli_error,
    phase_damping_error,
    thermal_relaxation_error,
)

from qdist.interop.qiskit import to_qiskit  # noqa: E402


def aer_error(gate):
    """Aer's own channel of the same name; from Kraus operators where it names it otherwise."""
    if gate.name == "depolarizing":
        return depolarizing_error(float(gate.values), gate.num_qubits)
    if gate.name == "amplitude_damping":
        return amplitude_damping_error(float(gate.values))
    if gate.name == "phase_damping":
        return phase_damping_error(float(gate.values))
    if gate.name == "thermal_relaxation":
        t1, t2, time, *excited = map(float, gate.values.split(","))
        return thermal_relaxation_error(t1, t2, time, *excited)
    pairs = [part.split(":") for part in gate.values.split(",")]
    rest = 1 - sum(float(p) for _, p in pairs)
    return pauli_error([("I" * gate.num_qubits, rest), *((label, float(p)) for label, p in pairs)])


def in_aer(circuit: qd.Circuit):
    result = qiskit.QuantumCircuit(circuit.num_qubits)
    for instruction in circuit:
        if instruction.gate.kind == "channel":
            result.append(aer_error(instruction.gate).to_instruction(), list(instruction.qubits))
        else:
            result.compose(to_qiskit(circuit.with_instructions([instruction])), inplace=True)
    result.save_density_matrix()
    backend = aer.AerSimulator(method="density_matrix")
    return np.asarray(
        backend.run(qiskit.transpile(result, backend, optimization_level=0)).result().data()["density_matrix"]
    )


@pytest.mark.parametrize("kind", ["pauli", "kraus"])
def test_aer_finds_the_same(kind: str) -> None:
    circuit, observable, values = noisy_circuit(kind, 4)
    rho = in_aer(circuit.bind(values))
    exact = qd.noise.compile(circuit, method="density_matrix", dtype="complex128")
    np.testing.assert_allclose(exact.density_matrix(values), rho, atol=1e-12)
    found = qd.noise.compile(circuit).expectation(observable, values, shots=4000, seed=1)
    assert abs(found - exact.expectation(observable, values)) < 4 * found.standard_error
    counts = np.bincount(qd.noise.compile(circuit).sample(4000, values, seed=1), minlength=16)
    expected = 4000 * rho.diagonal().real
    # Chi squared of 15 degrees of freedom is below 44.3 for all but 1 in 10,000 seeds.
    assert ((counts - expected) ** 2 / expected).sum() < 44.3
