"""AdjointEstimatorGradient in qiskit-algorithms and in qiskit-machine-learning, against their own gradients."""

import numpy as np
import pytest

pytest.importorskip("qiskit")

from qiskit.circuit import Parameter, QuantumCircuit
from qiskit.circuit.library import efficient_su2, real_amplitudes, zz_feature_map
from qiskit.primitives import StatevectorEstimator
from qiskit.quantum_info import SparsePauliOp

from qdist.interop.qiskit import Estimator
from qdist.interop.qiskit.gradients import gradients, programs_of
from qdist.program.program import Program

OBSERVABLES = [SparsePauliOp(["ZZI", "IXX", "YIY"], [0.5, -1.0, 0.3]), SparsePauliOp("XXX"), SparsePauliOp("IIZ")]


def differences(circuit, observable, values):
    """Central differences of Qiskit's own expectation values."""
    estimator, step = StatevectorEstimator(), 1e-5
    shifted = values + step * np.vstack([np.eye(len(values)), -np.eye(len(values))])
    up, down = estimator.run([(circuit, observable, shifted)]).result()[0].data.evs.reshape(2, -1)
    return (up - down) / (2 * step)


def featured():
    """Products of inputs, shared and affine parameters."""
    inputs, weight = zz_feature_map(3, reps=1), Parameter("w")
    circuit = QuantumCircuit(3)
    circuit.compose(inputs, inplace=True)
    circuit.compose(real_amplitudes(3, reps=1), inplace=True)
    circuit.crx(2 * weight + 0.3, 0, 2)
    circuit.rxx(weight, 1, 2)
    return circuit


def counted(monkeypatch):
    calls, inner = [], Program.vjp
    monkeypatch.setattr(
        Program,
        "vjp",
        lambda self, outputs, theta, *args: calls.append(len(theta)) or inner(self, outputs, theta, *args),
    )
    return calls


def test_circuits_observables_and_values_are_one_batch_a_circuit(monkeypatch):
    rng = np.random.default_rng(4)
    twins, other = [efficient_su2(3, reps=1), efficient_su2(3, reps=1, parameter_prefix="x")], featured()
    circuits = [twins[0], other, twins[1], twins[0], other]
    observables = [OBSERVABLES[k] for k in (0, 1, 1, 2, 0)]
    values = [rng.uniform(-1, 1, circuit.num_parameters) for circuit in circuits]
    parameters = [circuit.parameters for circuit in circuits]
    parameters[3] = [twins[0].parameters[5], twins[0].parameters[2]]
    calls = counted(monkeypatch)
    found = gradients(programs_of(None), circuits, observables, values, parameters)
    assert sorted(calls) == [2, 3], "equal circuits are one batch, whatever their parameters are called"
    for k, gradient in enumerate(found):
        expected = differences(circuits[k], observables[k], values[k])
        np.testing.assert_allclose(gradient, expected[[5, 2]] if k == 3 else expected, atol=1e-8)


def test_many_strings_are_computed_for_their_own_rows_alone(monkeypatch):
    circuit, rng = efficient_su2(3, reps=1), np.random.default_rng(2)
    labels = ["".join(rng.choice(list("IXYZ"), 3)) for _ in range(50)]
    long = [SparsePauliOp(labels, rng.normal(size=50)), SparsePauliOp(labels, rng.normal(size=50))]
    values = list(rng.uniform(-1, 1, (3, circuit.num_parameters)))
    calls = counted(monkeypatch)
    chosen = [long[0], long[1], long[0]]
    found = gradients(programs_of(None), [circuit] * 3, chosen, values, [circuit.parameters] * 3)
    assert calls == [2, 1]
    for observable, value, gradient in zip(chosen, values, found):
        np.testing.assert_allclose(gradient, differences(circuit, observable, value), atol=1e-7)


def test_an_estimator_of_another_kind_is_refused():
    with pytest.raises(TypeError, match=r"StatevectorEstimator.*takes a qdist"):
        programs_of(StatevectorEstimator())


def test_operators_that_are_not_hermitian_are_refused():
    circuit = efficient_su2(1, reps=0)
    with pytest.raises(ValueError, match="not Hermitian"):
        gradients(programs_of(None), [circuit], [SparsePauliOp("X", [1j])], [np.zeros(2)], [circuit.parameters])


def test_in_qiskit_algorithms_with_all_derivative_types():
    module = pytest.importorskip("qiskit_algorithms.gradients")
    from qdist.interop.qiskit.algorithms import AdjointEstimatorGradient

    circuit = QuantumCircuit(3)
    a, b, c, d = (Parameter(name) for name in "abcd")
    circuit.h(range(3))
    circuit.rx(a, 0)
    circuit.rz(b, 1)
    circuit.cx(0, 2)
    circuit.rx(c, 2)
    circuit.ry(d, 2)
    values = [[0.4, -1.1, 0.6, 0.3], [1.3, 0.2, -0.5, 2.0]]
    for kind in module.DerivativeType:
        ours = AdjointEstimatorGradient(Estimator(device="cpu"), derivative_type=kind)
        theirs = module.ReverseEstimatorGradient(derivative_type=kind)
        found, expected = (one.run([circuit] * 2, OBSERVABLES[:2], values).result() for one in (ours, theirs))
        np.testing.assert_allclose(found.gradients, expected.gradients, atol=1e-10)
        assert [one["parameters"] for one in found.metadata] == [one["parameters"] for one in expected.metadata]
    with pytest.raises(ValueError, match="does not match"):
        ours.run([circuit], OBSERVABLES[:2], values)


@pytest.mark.parametrize("phase_fix", [True, False])
def test_geometric_tensors_are_those_of_the_reverse_mode(phase_fix):
    module = pytest.importorskip("qiskit_algorithms.gradients")
    from qdist.interop.qiskit.algorithms import AdjointQGT

    circuit = QuantumCircuit(3)
    a, b, c, d = (Parameter(name) for name in "abcd")
    circuit.h(range(3))
    circuit.rx(a, 0)
    circuit.rz(b, 1)
    circuit.cx(0, 2)
    circuit.ry(c, 2)
    circuit.rz(d, 2)
    values = [[0.4, -1.1, 0.6, 0.3], [1.3, 0.2, -0.5, 2.0]]
    for kind in module.DerivativeType:
        ours = AdjointQGT(phase_fix, kind, Estimator(device="cpu")).run([circuit] * 2, values).result()
        theirs = module.ReverseQGT(phase_fix, kind).run([circuit] * 2, values).result()
        np.testing.assert_allclose(ours.qgts, theirs.qgts, atol=1e-7)
        assert ours.derivative_type == theirs.derivative_type
    (some,) = AdjointQGT(phase_fix, kind).run([circuit], values[:1], [[d, a]]).result().qgts
    np.testing.assert_allclose(some, ours.qgts[0][np.ix_([3, 0], [3, 0])], atol=1e-7)


def test_vqe_of_qiskit_algorithms():
    algorithms = pytest.importorskip("qiskit_algorithms")
    from qiskit_algorithms.optimizers import L_BFGS_B

    from qdist.interop.qiskit.algorithms import AdjointEstimatorGradient

    hamiltonian = SparsePauliOp(["ZZI", "IZZ", "XII", "IXI", "IIX"], [-1, -1, -0.5, -0.5, -0.5])
    estimator = Estimator(device="cpu")
    ansatz = efficient_su2(3, reps=2)
    vqe = algorithms.VQE(
        estimator,
        ansatz,
        L_BFGS_B(maxiter=200),
        gradient=AdjointEstimatorGradient(estimator),
        initial_point=np.random.default_rng(0).uniform(-1, 1, ansatz.num_parameters),
    )
    energy = vqe.compute_minimum_eigenvalue(hamiltonian).eigenvalue
    assert energy == pytest.approx(np.linalg.eigvalsh(hamiltonian.to_matrix())[0], abs=1e-5)


def test_estimator_qnn_of_qiskit_machine_learning(monkeypatch):
    networks = pytest.importorskip("qiskit_machine_learning.neural_networks")
    from qdist.interop.qiskit.machine_learning import AdjointEstimatorGradient

    circuit = featured()
    inputs = [p for p in circuit.parameters if p.name.startswith("x")]
    weights = [p for p in circuit.parameters if p not in inputs]
    rng = np.random.default_rng(3)
    data, theta = rng.uniform(0, 1, (4, 3)), rng.uniform(-1, 1, len(weights))
    calls = counted(monkeypatch)
    for by_inputs in (False, True):
        results = []
        for estimator in (Estimator(device="cpu"), StatevectorEstimator()):
            ours = isinstance(estimator, Estimator)
            network = networks.EstimatorQNN(
                circuit=circuit,
                estimator=estimator,
                observables=OBSERVABLES[1:],
                input_params=inputs,
                weight_params=weights,
                input_gradients=by_inputs,
                gradient=AdjointEstimatorGradient(estimator) if ours else None,
                default_precision=0.0,
            )
            results.append((network.forward(data, theta), *network.backward(data, theta)))
        for found, expected in zip(*results):
            assert (found is None) == (expected is None)
            if found is not None:
                np.testing.assert_allclose(found, expected, atol=1e-8)
    assert calls == [8, 8], "4 rows of 2 observables are one batch"
