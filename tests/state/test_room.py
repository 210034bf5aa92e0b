"""Memory is asked for before it is taken, also where every rank of a node takes some; batches may have no rows."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from qdist import Circuit, Parameter, ParameterVector, PauliSum, compile, noise
from qdist.backends import memory
from qdist.backends.errors import StateError
from qdist.circuit import GATES, CircuitError
from qdist.circuit.data_gates import diagonal_gate, permutation_gate
from qdist.comm import counting_communicator
from qdist.native import memory as native_memory
from qdist.nn import QuantumLayer
from qdist.state import Overlap, Probabilities, State, Variance, reference
from qdist.state.statevector import StateVector
from qdist.tensor import Tensor

MIB = 1 << 20


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """free(bytes): so much is free, and so little counts as small."""

    def pretend(nbytes: int) -> None:
        for module in (native_memory, memory):
            monkeypatch.setattr(module, "free_memory", lambda: nbytes)
            monkeypatch.setattr(module, "SMALL", 1 << 10)
        monkeypatch.setattr("qdist.state.shards.SMALL", 1 << 10)

    return pretend


def rotations(num_qubits: int = 10) -> tuple[Circuit, int]:
    theta = ParameterVector("theta", 3)
    circuit = Circuit(num_qubits)
    for q in range(num_qubits):
        circuit.ry(theta[q % 3], q)
    return circuit, 3


class TestMemory:
    def test_amplitudes_of_a_state(self, free, device: str) -> None:
        state = StateVector(16, "complex128")
        free(MIB - 1)
        with pytest.raises(
            MemoryError, match=r"all amplitudes of 16 qubits need .* GiB; .* are free; amplitudes\(indices\) takes only"
        ):
            state.amplitudes()
        with pytest.raises(MemoryError):
            state.gather()
        assert state.amplitudes([0]).tolist() == [1]
        free(2 * MIB)
        assert len(state.amplitudes()) == 1 << 16

    def test_amplitudes_on_every_rank_of_a_node_are_counted_together(self, free, monkeypatch, device: str) -> None:
        if device != "cpu":
            pytest.skip("counting communicators carry no GPU arrays")
        comm = counting_communicator(4)
        monkeypatch.setattr(type(comm), "local_size", property(lambda self: 4))
        free(6 * MIB)  # Room for each rank's share, and for one copy of all of it, but not for four.
        state = StateVector(18, comm=comm)  # 2 MiB in all
        with pytest.raises(MemoryError, match=r"on each rank; .*, gather\(root\) takes them on one rank"):
            state.amplitudes()
        assert state.gather() is not None
        free(2 * MIB - 1)
        with pytest.raises(MemoryError, match="on rank 0; "):
            state.gather()
        # The ranks agree on what is free before anything else travels.
        assert comm.messages[-1].op == "all_reduce"
        monkeypatch.setattr(type(comm), "local_size", property(lambda self: 1))
        free(2 * MIB)
        assert len(state.amplitudes()) == 1 << 18

    def test_probabilities(self, free) -> None:
        state = StateVector(16)
        free(MIB // 2 - 1)
        with pytest.raises(
            MemoryError, match=r"the probabilities of 16 qubits need .* ask for fewer qubits, or sample"
        ):
            state.probabilities()
        assert state.probabilities([0, 3]).tolist() == [1, 0, 0, 0]

    def test_samples(self, free) -> None:
        state = StateVector(5)
        free(MIB)
        with pytest.raises(MemoryError, match=r"20000 shots need .* draw fewer at a time"):
            state.sample(20000)
        with pytest.raises(MemoryError):
            state.counts(1 << 70)
        assert len(state.sample(2000, seed=1)) == 2000

    def test_batches_of_states(self, free) -> None:
        circuit, count = rotations()
        program = compile(circuit)
        free(MIB)
        with pytest.raises(MemoryError, match=r"the states of 129 rows of 10 qubits need .* give fewer rows at a time"):
            program.run_batch(np.zeros((129, count)))
        assert program.run_batch(np.zeros((100, count))).shape == (100, 1 << 10)

    def test_expectation_values_of_batches_do_not_take_all_states_at_once(self, free) -> None:
        circuit, count = rotations(17)
        free(600 * MIB)
        theta = np.zeros((70, count))  # 70 MiB of states; what is kept of them at a time is less.
        taken = []
        program = compile(circuit, device="cpu")
        run_rows = program.run_rows
        program.run_rows = lambda rows: taken.append(len(rows)) or run_rows(rows)
        assert np.allclose(program.expectation("Z0", theta), 1)
        assert max(taken) < 70
        assert sum(taken) == 70

    def test_gradients_of_batches(self, free) -> None:
        circuit, count = rotations()
        program = compile(circuit)
        free(MIB)
        with pytest.raises(MemoryError, match=r"the outputs and gradients of 100 rows need .* give fewer rows"):
            program.vjp([State()], np.zeros((100, count)), [np.zeros((100, 1 << 10))])
        with pytest.raises(MemoryError):
            program.vjp([Probabilities()], np.zeros((200, count)), [np.zeros((200, 1 << 10))])
        values, gradient = program.vjp([Probabilities([0])], np.zeros((100, count)), [np.zeros((100, 2))])
        assert values[0].shape == (100, 2)
        assert gradient.shape == (100, count)

    def test_second_states(self, free, monkeypatch: pytest.MonkeyPatch) -> None:
        state = StateVector(16, "complex128")
        free(MIB - 1)
        monkeypatch.setattr(type(state.backend), "free_memory", lambda *_: MIB - 1)
        for use in (state.copy, lambda: state.apply_pauli_sum("X0"), lambda: state.variance("X0")):
            with pytest.raises(MemoryError, match="16 qubits need"):
                use()

    def test_dense_matrices(self, free) -> None:
        free(MIB - 1)
        uses: list[Callable[[], Any]] = [
            lambda: PauliSum("Z7 Z0").to_matrix(),
            lambda: PauliSum.from_matrix(np.eye(128)),
            lambda: GATES["x"].controlled(7).matrix(),
            lambda: diagonal_gate(np.ones(256)).matrix(),
            lambda: permutation_gate(np.arange(256)).matrix(),
            lambda: reference.unitary(Circuit(8).h(0)),
        ]
        for use in uses:
            with pytest.raises(MemoryError, match=r"dense matrices of [78] qubits, .* keep to fewer qubits"):
                use()
        with pytest.raises(MemoryError, match="dense matrices of 41 qubits"):
            GATES["x"].controlled(40).matrix()
        assert PauliSum("Z4 Z0").to_matrix().shape == (32, 32)


class TestShots:
    @pytest.mark.parametrize("shots", [-1, 1.5, "3", None])
    def test_what_is_no_number_of_shots(self, shots: Any) -> None:
        with pytest.raises(StateError, match="shots must be an int >= 0"):
            StateVector(3).sample(shots)
        with pytest.raises(StateError, match="shots"):
            StateVector(3).counts(shots)
        with pytest.raises(StateError, match="shots must be an int >= 0"):
            compile(Circuit(2, 2).h(0)).counts(shots)

    @pytest.mark.parametrize("shots", [1 << 62, 10**30])
    def test_more_than_memory_holds(self, shots: int) -> None:
        sv, program = StateVector(3), compile(Circuit(2, 2).h(0).measure(0, 0).x(0))
        noisy = noise.compile(Circuit(2).h(0).bit_flip(0.1, 0))
        exact = noise.compile(Circuit(2).h(0).bit_flip(0.1, 0), method="density_matrix")
        asked = [
            lambda: sv.sample(shots),
            lambda: sv.shadow(shots),
            lambda: sv.expectation("Z0", shots=shots),
            lambda: program.counts(shots),
            lambda: program.expectation("Z0", shots=shots),
            lambda: noisy.counts(shots),
            lambda: noisy.expectation("Z0", shots=shots),
            lambda: exact.sample(shots),
        ]
        for ask in asked:
            with pytest.raises(MemoryError, match=rf"{shots} shots need .* draw fewer at a time"):
                ask()

    def test_none(self) -> None:
        assert StateVector(3).counts(0) == {}
        assert StateVector(3).sample(0).dtype == np.int64
        assert compile(Circuit(2, 2).h(0).measure(0, 0)).counts(0) == {}


OBSERVABLES = ["Z0", PauliSum({"X0": 0.5, "Z1": 2.0})]


@pytest.fixture(params=[2, 10], ids=["by rows", "in batches"])
def program(request: pytest.FixtureRequest) -> Any:
    """Too small for the kernels' batches, and not."""
    return compile(rotations(request.param)[0].rz(Parameter("last"), 0))


class TestNoRows:
    def test_states(self, program) -> None:
        states = program.run_batch(np.zeros((0, program.circuit.num_parameters)))
        assert states.shape == (0, 1 << program.num_qubits)
        assert states.dtype == program.dtype

    def test_values_and_gradients(self, program) -> None:
        theta = np.zeros((0, program.circuit.num_parameters))
        value = program.expectation(OBSERVABLES[0], theta)
        assert (value.shape, value.dtype) == ((0,), np.float64)
        for method in ("adjoint", "parameter-shift", "finite-difference"):
            value, gradient = program.value_and_grad(OBSERVABLES[1], theta, method=method)
            assert (value.shape, value.dtype) == ((0,), np.float64)
            assert (gradient.shape, gradient.dtype) == (theta.shape, np.float64)
        *_, coefficients = program.value_and_grad(OBSERVABLES[1], theta, coefficients=True)
        assert coefficients.shape == (0, 2)
        jacobian = program.jacobian(OBSERVABLES, theta)
        assert jacobian.shape == (0, 2, theta.shape[1])

    @pytest.mark.parametrize("wrong", ["Z99", "rubbish", 3, {"Z0": 1j}])
    def test_what_is_no_observable_is_refused_as_with_rows(self, program, wrong: Any) -> None:
        for count in (0, 2):
            theta = np.zeros((count, program.circuit.num_parameters))
            for use in (
                lambda: program.expectation(wrong, theta),  # noqa: B023
                lambda: program.value_and_grad(wrong, theta),  # noqa: B023
                lambda: program.value_and_grad(wrong, theta, method="parameter-shift"),  # noqa: B023
                lambda: program.jacobian([wrong], theta),  # noqa: B023
                lambda: program.vjp([Variance(wrong)], theta, [np.zeros(count)]),  # noqa: B023
            ):
                with pytest.raises((StateError, CircuitError)):
                    use()

    def test_all_outputs(self, program) -> None:
        theta, size = np.zeros((0, program.circuit.num_parameters)), 1 << program.num_qubits
        outputs = ["Z0", Variance("X0"), Probabilities([1]), Overlap(StateVector(program.num_qubits)), State()]
        shapes = [(), (), (2,), (), (size,)]
        dtypes = [np.float64, np.float64, np.float64, np.complex128, np.complex128]
        values, gradient = program.vjp(outputs, theta, [np.zeros((0, *shape)) for shape in shapes])
        assert [value.shape for value in values] == [(0, *shape) for shape in shapes]
        assert [value.dtype for value in values] == dtypes
        assert gradient.shape == theta.shape
        only, gradient = program.vjp(["Z0"], theta, [np.zeros(0)])
        assert only[0].shape == (0,)
        assert gradient.shape == theta.shape

    @pytest.mark.parametrize("num_qubits", [2, 10])
    @pytest.mark.parametrize("observables", [["Z0", "X1"], [Probabilities([0]), "Z1"]], ids=["values", "mixed"])
    def test_layers(self, num_qubits: int, observables: list[Any], device: str) -> None:
        x, w = ParameterVector("x", 2), ParameterVector("w", 2)
        circuit = Circuit(num_qubits).ry(x[0], 0).ry(x[1], 1).rz(w[0], 0).ry(w[1], 1)
        layer = QuantumLayer(circuit, observables, inputs=x, weights=w, device=device)
        rows = Tensor(np.zeros((0, 2), np.float32), device=layer.program.device, requires_grad=True)
        out = layer(rows)
        assert out.shape == (0, sum(2 if isinstance(o, Probabilities) else 1 for o in observables))
        assert out.dtype == np.float32
        out.sum().backward()
        assert rows.grad.shape == (0, 2)
        assert layer.weights.grad.shape == (2,)
        assert not np.asarray(layer.weights.grad.data if device == "cpu" else layer.weights.grad.data.get()).any()
