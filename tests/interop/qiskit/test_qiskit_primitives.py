"""Estimator and Sampler against Qiskit's own state-vector primitives, their seeded numbers included."""

import numpy as np
import pytest

pytest.importorskip("qiskit")

from qiskit.circuit import ClassicalRegister, Parameter, QuantumCircuit, QuantumRegister
from qiskit.circuit.library import RXGate, efficient_su2, zz_feature_map
from qiskit.primitives import BitArray, StatevectorEstimator, StatevectorSampler
from qiskit.quantum_info import SparseObservable, SparsePauliOp

import qdist.interop.qiskit.programs as programs
from qdist.interop.qiskit import Backend, Estimator, Sampler
from qdist.program.rows import RowProgram


def ansatz(qubits=4, reps=2):
    return efficient_su2(qubits, reps=reps)


def values(circuit, *shape, seed=0):
    return np.random.default_rng(seed).uniform(-2, 2, (*shape, circuit.num_parameters))


HAMILTONIANS = [SparsePauliOp(["ZZII", "IXXI", "YIIY", "IIIZ"], [0.5, -1.0, 0.3, 2.0]), SparsePauliOp("XXXX")]


def pubs():
    circuit = ansatz()
    plain = QuantumCircuit(2)
    plain.h(0)
    plain.cx(0, 1)
    theta = Parameter("a")
    one = QuantumCircuit(1)
    one.rx(theta, 0)
    return {
        "one value": (circuit, HAMILTONIANS[0], values(circuit)),
        "bindings": (circuit, HAMILTONIANS[0], values(circuit, 5)),
        "observables": (circuit, HAMILTONIANS, values(circuit)),
        "outer": (circuit, [[one] for one in HAMILTONIANS], values(circuit, 3)),
        "elementwise": (circuit, HAMILTONIANS, values(circuit, 2)),
        "grid": (circuit, [[[one]] for one in HAMILTONIANS], values(circuit, 3, 2)),
        "no parameters": (plain, ["ZZ", "XX", {"YY": 2.0, "IZ": 1.0}]),
        "products": (zz_feature_map(4), HAMILTONIANS[0], np.random.default_rng(2).uniform(0, 2, (3, 4))),
        "products of one qubit's width": (zz_feature_map(2), "ZZ", [0.3, 0.8]),
        "one parameter": (one, "Z", {theta: np.linspace(0, 3, 7)}),
    }


@pytest.mark.parametrize("name", pubs())
def test_values_and_seeded_noise_are_those_of_qiskits_estimator(name):
    pub = pubs()[name]
    for precision in (None, 0.1):
        found = Estimator(seed=12).run([pub, pub], precision=precision).result()
        expected = StatevectorEstimator(seed=12).run([pub, pub], precision=precision).result()
        assert found.metadata == expected.metadata
        for one, other in zip(found, expected):
            assert one.data.evs.shape == other.data.evs.shape
            np.testing.assert_allclose(one.data.evs, other.data.evs, atol=1e-10)
            np.testing.assert_allclose(one.data.stds, other.data.stds)
            assert one.metadata == other.metadata


def test_projectors_are_observables():
    circuit = ansatz(3)
    theta = values(circuit, 2)
    labels = {"0+r": 1.5, "1-l": -2.0, "I0Z": 0.5}
    observable = SparseObservable.from_list(list(labels.items()))
    expected = Estimator().run([(circuit, observable.as_paulis().simplify(), theta)]).result()[0].data.evs
    reference = (
        StatevectorEstimator()
        .run([(circuit, SparsePauliOp.from_sparse_observable(observable), theta)])
        .result()[0]
        .data.evs
    )
    np.testing.assert_allclose(expected, reference, atol=1e-10)
    np.testing.assert_allclose(Estimator().run([(circuit, labels, theta)]).result()[0].data.evs, reference, atol=1e-10)


def test_operators_that_are_not_hermitian_are_refused():
    with pytest.raises(ValueError, match="Hermitian"):
        Estimator().run([(QuantumCircuit(1), {"Z": 1j})]).result()


def test_bindings_are_one_batch_and_equal_circuits_are_planned_once(monkeypatch):
    batches, compiled = [], []
    inner, made = RowProgram.values, programs.Program
    monkeypatch.setattr(
        RowProgram, "values", lambda self, rows, *args: batches.append(len(rows)) or inner(self, rows, *args)
    )
    monkeypatch.setattr(programs, "Program", lambda *args, **kwargs: compiled.append(1) or made(*args, **kwargs))
    estimator, circuit = Estimator(), ansatz()
    theta = values(circuit, 9)
    estimator.run([(circuit, [[one] for one in HAMILTONIANS], theta)]).result()
    assert batches == [9]
    estimator.run([(ansatz(), HAMILTONIANS[0], theta), (ansatz(), HAMILTONIANS[1], theta[0])]).result()
    assert len(compiled) == 1


def test_circuits_that_were_changed_are_read_again():
    estimator, circuit = Estimator(), QuantumCircuit(1)
    circuit.rx(0.3, 0)
    assert estimator.run([(circuit, "Z")]).result()[0].data.evs == pytest.approx(np.cos(0.3))
    circuit.data[0] = circuit.data[0].replace(operation=RXGate(0.3 + 1e-9))
    found = estimator.run([(circuit, "Y")]).result()[0].data.evs
    assert float(found) == pytest.approx(-np.sin(0.3 + 1e-9), abs=1e-12)
    circuit.x(0)
    assert estimator.run([(circuit, "Z")]).result()[0].data.evs == pytest.approx(-np.cos(0.3))


def test_circuits_that_got_bits_are_read_again():
    """Qiskit's own comparison of instructions says nothing of bits that none of them is on."""
    sampler, backend, estimator = Sampler(seed=1), Backend(), Estimator()
    circuit = QuantumCircuit(QuantumRegister(1), ClassicalRegister(1, "first"))
    circuit.x(0)
    circuit.measure(0, 0)
    for size in (1, 2, 3):
        data = sampler.run([circuit], shots=5).result()[0].data
        expected = StatevectorSampler(seed=1).run([circuit], shots=5).result()[0].data
        assert {name: one.get_counts() for name, one in data.items()} == {
            name: one.get_counts() for name, one in expected.items()
        }
        result = backend.run(circuit, shots=5, statevector=True).result()
        assert result.get_counts() == {" ".join(["00"] * (len(circuit.cregs) - 1) + ["1"]): 5}
        assert len(result.get_statevector()) == 1 << circuit.num_qubits
        body = circuit.remove_final_measurements(inplace=False)
        for observable in ("Z" * circuit.num_qubits, "I" * (circuit.num_qubits - 1) + "Z"):
            assert estimator.run([(body, observable)]).result()[0].data.evs == pytest.approx(-1)
            assert estimator.run([(circuit, observable)]).result()[0].data.evs == pytest.approx(-1)
        circuit.add_register(ClassicalRegister(2, f"bits {size}"))
        circuit.add_register(QuantumRegister(size, f"qubits {size}"))


def test_circuits_without_bits_that_got_some_are_read_again():
    sampler, circuit = Sampler(), QuantumCircuit(2)
    circuit.h(0)
    with pytest.warns(UserWarning, match="no output classical registers"):
        sampler.run([circuit]).result()
    circuit.add_register(ClassicalRegister(2, "c"))
    assert sampler.run([circuit], shots=7).result()[0].data.c.get_counts() == {"00": 7}


def test_idle_qubits_of_a_device_take_no_memory():
    """A transpiled circuit has all qubits of its device: 40 of them would not fit."""
    small, theta = ansatz(3, 1), np.random.default_rng(2).uniform(-1, 1, (2, 12))
    wide = QuantumCircuit(40, 3)
    wide.compose(small, [7, 38, 20], inplace=True)
    labels = {"ZIXY": 0.5, "0Z1+": 2.0, "XZII": 3.0, "1ZIZ": 1.0, "rIZI": -0.7}

    def widened(label):
        letters = ["I"] * 40
        for qubit, letter in zip((7, 38, 20, 11), reversed(label)):
            letters[39 - qubit] = letter
        return "".join(letters)

    four = QuantumCircuit(4)
    four.compose(small, range(3), inplace=True)
    found = Estimator().run([(wide, {widened(label): c for label, c in labels.items()}, theta)]).result()[0].data.evs
    expected = (
        StatevectorEstimator()
        .run([(four, SparsePauliOp.from_sparse_observable(SparseObservable.from_list(list(labels.items()))), theta)])
        .result()[0]
        .data.evs
    )
    np.testing.assert_allclose(found, expected, atol=1e-12)
    wide.measure([20, 7, 11], [0, 1, 2])
    counts = Sampler(seed=2).run([(wide, theta[0])], shots=50).result()[0].data.c.get_counts()
    assert {key[0] for key in counts} == {"0"}
    # The same probabilities of the same labels, whose order is that of the qubits.
    swapped = QuantumCircuit(4, 3)
    swapped.compose(small, [0, 2, 1], inplace=True)
    swapped.measure([1, 0, 3], [0, 1, 2])
    assert counts == StatevectorSampler(seed=2).run([(swapped, theta[0])], shots=50).result()[0].data.c.get_counts()


def measured(circuit):
    circuit = circuit.copy()
    circuit.measure_all()
    return circuit


def registers():
    circuit = QuantumCircuit(QuantumRegister(4), ClassicalRegister(9, "wide"), ClassicalRegister(2, "low"))
    circuit.h(0)
    circuit.cx(0, 2)
    circuit.ry(0.7, 3)
    circuit.measure([2, 3, 0], [8, 1, 9])
    circuit.measure(0, 3)
    return circuit


@pytest.mark.parametrize("seed", [3, 11])
def test_samples_are_those_of_qiskits_sampler(seed):
    circuit = measured(ansatz(3))
    some = [(circuit, values(circuit)), (circuit, values(circuit, 2, 3), 40), (registers(), None, 300)]
    found = Sampler(seed=seed).run(some, shots=100).result()
    expected = StatevectorSampler(seed=seed).run(some, shots=100).result()
    assert found.metadata == expected.metadata
    for one, other in zip(found, expected):
        assert list(one.data) == list(other.data)
        assert one.metadata == other.metadata
        for name in one.data:
            assert isinstance(one.data[name], BitArray)
            assert one.data[name].num_bits == other.data[name].num_bits
            np.testing.assert_array_equal(one.data[name].array, other.data[name].array)


def test_a_generator_goes_on_from_binding_to_binding():
    circuit = measured(ansatz(2))
    runs = [
        kind(seed=np.random.default_rng(4)).run([(circuit, values(circuit, 3))], shots=50).result()[0].data.meas
        for kind in (Sampler, StatevectorSampler)
    ]
    assert runs[0] == runs[1]


def test_defaults_and_what_is_empty():
    assert Sampler().default_shots == 1024
    assert Estimator().default_precision == 0.0
    circuit = measured(ansatz(1))
    assert Sampler().run([(circuit, values(circuit))]).result()[0].data.meas.num_shots == 1024
    with pytest.warns(UserWarning, match="no output classical registers"):
        assert len(Sampler().run([QuantumCircuit(1)]).result()[0].data) == 0


def test_circuits_that_measure_and_branch_in_their_middle():
    circuit = QuantumCircuit(QuantumRegister(3), ClassicalRegister(1, "first"), ClassicalRegister(2, "rest"))
    circuit.h(0)
    circuit.measure(0, 0)
    with circuit.if_test((circuit.clbits[0], 1)) as other:
        circuit.x(1)
    with other:
        circuit.x(2)
    circuit.reset(0)
    circuit.measure([1, 2], [1, 2])
    data = Sampler(seed=5).run([circuit], shots=400).result()[0].data
    joined = list(zip(data.first.get_bitstrings(), data.rest.get_bitstrings()))
    assert set(joined) == {("0", "10"), ("1", "01")}
    assert 120 < sum(first == "1" for first, _ in joined) < 280


@pytest.mark.parametrize("meaning", [{"a": 0.7}, {"a": "2a"}, {"a": "b"}, {"a": "c", "b": "a"}])
def test_values_of_controlled_gates_whose_parameters_were_assigned(meaning):
    a, b = Parameter("a"), Parameter("b")
    inner = QuantumCircuit(2)
    inner.rx(a, 0)
    inner.rzz(2 * a + b, 0, 1)
    inner.h(1)
    circuit = QuantumCircuit(4)
    circuit.h(range(4))
    circuit.rx(0.3, 1)
    for state in (0, 1, 3):
        circuit.append(inner.to_gate().control(2, ctrl_state=state), [state, *(q for q in range(4) if q != state)])
    symbols = {"a": a, "b": b, "c": Parameter("c"), "2a": 2 * a}
    circuit = circuit.assign_parameters({symbols[one]: symbols.get(other, other) for one, other in meaning.items()})
    pub = (circuit, ["ZZXZ", "XIIY"], np.random.default_rng(1).uniform(-2, 2, circuit.num_parameters))
    expected = StatevectorEstimator().run([pub]).result()[0].data.evs
    np.testing.assert_allclose(Estimator().run([pub]).result()[0].data.evs, expected, atol=1e-10)
