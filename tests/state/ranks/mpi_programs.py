"""Programs whose shards are on several ranks give what one process gives; run on every rank at once."""

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import qdist as qd
from qdist.backends.errors import StateError
from qdist.circuit import GATES
from qdist.native import kernels
from qdist.plan import Layout
from qdist.plan.levels import Level
from qdist.state import reference

sys.path.append(str(Path(__file__).parents[1]))
from odd_gates import angles, odd_gates
from states import random_ket


@pytest.fixture(scope="session")
def comm() -> qd.comm.Communicator:
    return qd.comm.init(os.environ.get("QDIST_TEST_BACKEND", "auto"), timeout=120)


# Of each number of qubits some in both precisions.
SEEDS = [(seed, dtype) for seed in range(9) for dtype in ("complex64", "complex128")]
OTHERS = [pytest.param(*case, marks=pytest.mark.thorough) for case in SEEDS[1::4] + SEEDS[2::4]]


@pytest.mark.parametrize(("seed", "dtype"), [*SEEDS[::4], *SEEDS[3::4], *OTHERS])
def test_random_circuits(comm: qd.comm.Communicator, device: str, seed: int, dtype: str) -> None:
    n = 9 + seed % 3
    circuit = qd.library.random_circuit(n, 6, seed=seed)
    want = reference.state(circuit)
    lanes = kernels.lane_bits[dtype == "complex128"]
    # A GPU has the tiles of its kernel.
    for levels in (None, [Level("cache", lanes + 1, lanes)]) if device == "cpu" else (None,):
        program = qd.Program(circuit, comm=comm, dtype=dtype, levels=levels)
        state = program.run()
        np.testing.assert_allclose(state.amplitudes(), want, atol=2e-6 if dtype == "complex64" else 1e-13)
        # Again in the same memory: nothing is left over from the first run.
        np.testing.assert_array_equal(program.run(out=state).amplitudes(), program.run().amplitudes())


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_every_gate_on_close_and_far_qubits_from_any_layout(comm: qd.comm.Communicator, dtype: str) -> None:
    n = 9
    rng = np.random.default_rng(dtype == "complex64")
    gates = [*{id(g): g for g in GATES.values() if g.is_unitary}.values(), *(gate for _, gate in odd_gates())]
    for start in range(0, len(gates), 8):
        circuit = qd.Circuit(n)
        for gate in gates[start : start + 8]:
            circuit.append(gate, rng.permutation(n)[: gate.num_qubits].tolist(), angles(gate))
        ket = random_ket(n, seed=start)
        initial = qd.StateVector.from_amplitudes(ket, dtype, comm, Layout(rng.permutation(n)))
        state = qd.compile(circuit, comm=comm, dtype=dtype).run(initial=initial)
        want = reference.state(circuit, initial=ket)
        np.testing.assert_allclose(state.amplitudes(), want, atol=2e-6 if dtype == "complex64" else 1e-13)


def what_is_not_unitary(n: int, rng: np.random.Generator) -> qd.Circuit:
    """Random gates between measurements, resets, initialisations and conditions, wherever the qubits may be."""
    circuit = qd.Circuit(n, 3)
    for _ in range(5):
        circuit.compose(qd.library.random_circuit(n, 1, seed=rng))
        qubits = rng.permutation(n).tolist()
        kind = rng.integers(6)
        if kind == 0:
            circuit.measure(qubits[0], int(rng.integers(3)))
        elif kind == 1:
            circuit.reset(qubits[0]).reset(qubits[1])
        elif kind == 2:
            circuit.initialize(int(rng.integers(8)), qubits[:3])
        elif kind == 3:
            circuit.initialize([random_ket(1, int(rng.integers(100))) for _ in range(2)], qubits[:2])
        elif kind == 4:
            amplitudes = random_ket(n - 1, int(rng.integers(100)))
            circuit.initialize(amplitudes, qubits[: n - 1])
        else:
            with circuit.if_(int(rng.integers(3)), 1):
                circuit.ry(0.7, qubits[0]).cx(qubits[0], qubits[1])
    return circuit


def test_measurements_resets_initialisations_and_conditions_on_any_qubits(comm: qd.comm.Communicator) -> None:
    for seed in range(6):
        rng = np.random.default_rng(seed)
        circuit = what_is_not_unitary(8 + seed % 2, rng)
        program, alone = (qd.compile(circuit, comm=c, dtype="complex128") for c in (comm, None))
        state, want = program.run(seed=seed), alone.run(seed=seed)
        assert program.bits == alone.bits
        np.testing.assert_allclose(state.amplitudes(), want.amplitudes(), atol=1e-13)


def test_the_whole_state_can_be_initialised(comm: qd.comm.Communicator) -> None:
    n = 9
    ket = random_ket(n, 1)
    order = np.random.default_rng(2).permutation(n).tolist()
    circuit = qd.library.random_circuit(n, 1, seed=3).initialize(ket, order).cx(0, 8)
    index = np.arange(1 << n)
    start = ket[sum((index >> qubit & 1) << k for k, qubit in enumerate(order))]
    got = qd.simulate(circuit, comm=comm, dtype="complex128").amplitudes()
    np.testing.assert_allclose(got, reference.state(qd.Circuit(n).cx(0, 8), initial=start), atol=1e-13)
    assert qd.simulate(qd.Circuit(n).h(0).initialize(300, range(n)), comm=comm).amplitude(300) == 1


def test_a_mesh_runs_independent_circuits(comm: qd.comm.Communicator) -> None:
    if comm.size % 2:
        return
    mesh = qd.comm.Mesh(comm, dp=2, state=comm.size // 2)
    seed = mesh.coordinates["dp"]
    circuit = qd.library.random_circuit(9, 4, seed=seed)
    state = qd.simulate(circuit, comm=mesh["state"], dtype="complex128")
    assert sum(mesh["state"].all_gather_object(len(state.local))) == 1 << 9
    np.testing.assert_allclose(state.amplitudes(), reference.state(circuit), atol=1e-13)
    energy = state.expectation({"X8 Y0": 1.0, "Z3": 0.5})
    assert energy == pytest.approx(reference.expectation(circuit, qd.PauliSum({"X8 Y0": 1.0, "Z3": 0.5})), abs=1e-12)


def test_a_batch_equals_a_loop(comm: qd.comm.Communicator) -> None:
    circuit = qd.library.hardware_efficient(8, 1)
    params = np.random.default_rng(0).normal(size=(3, circuit.num_parameters))
    program = qd.compile(circuit, comm=comm, dtype="complex128")
    want = np.array([reference.state(circuit, row) for row in params])
    np.testing.assert_allclose(program.run_batch(params), want, atol=1e-13)
    energies = [reference.expectation(circuit, qd.library.heisenberg_xxz(8), row) for row in params]
    np.testing.assert_allclose(program.expectation(qd.library.heisenberg_xxz(8), params), energies, atol=1e-11)


def test_what_travels_is_what_the_plan_says(comm: qd.comm.Communicator) -> None:
    for schedule in ("lazy", "in-order"):
        program = qd.compile(qd.library.hardware_efficient(10, 3), comm=comm, schedule=schedule)
        state = program.run(np.ones(program.circuit.num_parameters))
        assert state.traffic.exchanges == program.plan.exchanges
        assert program.plan.exchanges > 0 or comm.size == 1
        # The plan counts what a shard sends; a rank with two of them keeps what they send each other.
        if comm.size & comm.size - 1 == 0:
            assert state.traffic.bytes_sent == program.plan.bytes_sent


def test_numbers_read_through_any_layout(comm: qd.comm.Communicator) -> None:
    circuit = qd.library.hardware_efficient(10, 3)
    params = np.random.default_rng(0).normal(size=circuit.num_parameters)
    alone = qd.simulate(circuit, params, dtype="complex128")
    state = qd.simulate(circuit, params, comm=comm, dtype="complex128")
    assert state.norm() == pytest.approx(1, abs=1e-12)
    np.testing.assert_allclose(state.probabilities([9, 0, 4]), alone.probabilities([9, 0, 4]), atol=1e-14)
    np.testing.assert_array_equal(state.sample(500, seed=3), alone.sample(500, seed=3))
    for observable in ("Z0 Z9", {"Z4": 0.5, "Z1 Z2 Z3": -1.0}):
        assert state.expectation(observable) == pytest.approx(alone.expectation(observable), abs=1e-12)


def test_all_ranks_measure_the_same_and_go_on_from_it(comm: qd.comm.Communicator) -> None:
    circuit = qd.Circuit(9, 2).h(0).cx(0, 8).ry(0.7, 4).measure(8, 0).measure(4, 1)
    with circuit.if_(0, 1):
        circuit.x(3)
    with circuit.if_(1, 1) as otherwise:
        circuit.cx(3, 7)
    with otherwise:
        circuit.h(7)
    program = qd.compile(circuit, comm=comm, dtype="complex128")
    alone = qd.compile(circuit, dtype="complex128")
    for seed in range(8):
        state, want = program.run(seed=seed), alone.run(seed=seed)
        assert program.bits == alone.bits
        np.testing.assert_allclose(state.amplitudes(), want.amplitudes(), atol=1e-13)


def test_measurements_at_the_end_disturb_nothing_and_are_drawn_alike(comm: qd.comm.Communicator) -> None:
    circuit = qd.library.hardware_efficient(9, 2)
    measured = qd.Circuit(9, 70).compose(circuit)
    for q in range(9):
        measured.measure(q, 69 - q)
    program, alone = (qd.compile(measured, comm=c, dtype="complex128") for c in (comm, None))
    params = np.random.default_rng(0).normal(size=circuit.num_parameters)
    assert not program.is_random
    for seed in range(3):
        state = program.run(params, seed=seed)
        alone.run(params, seed=seed)
        assert program.bits == alone.bits
    np.testing.assert_allclose(state.amplitudes(), reference.state(circuit, params), atol=1e-13)
    assert state.counts(200, seed=4) == alone.run(params).counts(200, seed=4) == program.counts(200, params, seed=4)
    value, gradient = program.value_and_grad("Z0 Z8", params)
    want, by_parameter = qd.compile(circuit, dtype="complex128").value_and_grad("Z0 Z8", params)
    assert abs(value - want) < 1e-12
    np.testing.assert_allclose(gradient, by_parameter, atol=1e-12)


def test_values_of_random_circuits_are_means_that_all_ranks_share(comm: qd.comm.Communicator) -> None:
    circuit = qd.Circuit(9, 1).h(0).cx(0, 8).measure(8, 0).h(8).cx(0, 4)
    program, alone = (qd.compile(circuit, comm=c, dtype="complex128") for c in (comm, None))
    with pytest.raises(StateError, match="shots=1000"):
        program.expectation("Z0")
    got = program.expectation("Z0", shots=40, seed=2)
    assert abs(got - alone.expectation("Z0", shots=40, seed=2)) < 1e-12
    assert program.run(seed=1).is_random
    assert program.counts(50, seed=1) == alone.counts(50, seed=1)


@pytest.mark.parametrize("schedule", ["lazy", "in-order", "paper"])
@pytest.mark.parametrize("seed", range(3))
def test_all_schedules_give_the_same(comm: qd.comm.Communicator, schedule: str, seed: int) -> None:
    circuit = qd.library.random_circuit(9, 6, seed=seed)
    state = qd.simulate(circuit, comm=comm, dtype="complex128", schedule=schedule)
    np.testing.assert_allclose(state.amplitudes(), reference.state(circuit), atol=1e-13)


@pytest.mark.parametrize("schedule", ["lazy", "in-order", "paper"])
def test_last_gates_that_observables_take_over_under_all_schedules(comm: qd.comm.Communicator, schedule: str) -> None:
    """Between the others far qubits come close for one gate and go back again."""
    theta = qd.ParameterVector("theta", 9)
    circuit = qd.Circuit(9)
    for q in range(9):
        circuit.ry(theta[q], q)
    for q in (7, 8, 7):
        circuit.h(q).cz(0, q)
    circuit.rx(theta[3], 7).ry(theta[4], 8).cx(7, 8).cx(8, 6)
    values, observable = np.linspace(0.2, 1.9, 9), qd.PauliSum({"Z0 Z8": 0.7, "Z6": -1.2, "X0": 0.4})
    program = qd.compile(circuit, comm=comm, dtype="complex128", schedule=schedule)
    want = reference.expectation(circuit, observable, values)
    assert abs(program.expectation(observable, values) - want) < 1e-12
    value, gradient = program.value_and_grad(observable, values)
    assert abs(value - want) < 1e-12
    np.testing.assert_allclose(gradient, reference.gradient(circuit, observable, values), atol=1e-12)


def test_first_gates_with_parameters_are_bound_anew(comm: qd.comm.Communicator) -> None:
    circuit = qd.library.hardware_efficient(9, 2)
    program = qd.compile(circuit, comm=comm, dtype="complex128")
    assert bool(program.plan.folded) == (comm.size > 1)
    state = None
    for seed in range(3):
        params = np.random.default_rng(seed).normal(size=circuit.num_parameters)
        state = program.run(params, out=state)
        np.testing.assert_allclose(state.amplitudes(), reference.state(circuit, params), atol=1e-13)


def test_first_gates_of_one_qubit_that_are_phases_alone(comm: qd.comm.Communicator) -> None:
    """They act on no qubit, wherever theirs is."""
    theta = qd.ParameterVector("theta", 2)
    for qubit in (0, 4, 8):
        circuit = qd.Circuit(9).pauli_rotation(theta[0], "I", qubit).unitary(np.exp(0.7j) * np.eye(2), qubit)
        circuit.diagonal([1j, 1j], qubit).h(range(9)).ry(theta[1], 8).cx(8, 0)
        program = qd.compile(circuit, comm=comm, dtype="complex128")
        want = reference.state(circuit, [0.8, 0.3])
        np.testing.assert_allclose(program.run([0.8, 0.3]).amplitudes(), want, atol=1e-13)
        other = random_ket(9, seed=qubit)
        overlap = qd.Overlap(qd.StateVector.from_amplitudes(other, "complex128", comm))
        (value,), gradient = program.vjp([overlap], [0.8, 0.3], [1 - 2j])
        np.testing.assert_allclose(value, np.vdot(other, want), atol=1e-13)
        changes = other.conj() @ reference.state_jacobian(circuit, [0.8, 0.3])
        np.testing.assert_allclose(gradient, ((1 + 2j) * changes).real, atol=1e-12)


def test_a_thread_keeps_its_values_also_in_the_start_of_first_gates(comm: qd.comm.Communicator) -> None:
    circuit = qd.library.hardware_efficient(9, 2)
    program = qd.compile(circuit, comm=comm, dtype="complex128")
    mine, others = np.random.default_rng(1).normal(size=(2, circuit.num_parameters))
    first = program.run(mine)
    with ThreadPoolExecutor(1) as pool:
        value, gradient = pool.submit(program.value_and_grad, "Z0 X8", others).result()
        np.testing.assert_array_equal(program.run().amplitudes(), first.amplitudes())
        np.testing.assert_array_equal(pool.submit(program.value_and_grad, "Z0 X8").result()[1], gradient)
    np.testing.assert_allclose(gradient, reference.gradient(circuit, qd.PauliSum("Z0 X8"), others), atol=1e-12)
    assert abs(value - reference.expectation(circuit, qd.PauliSum("Z0 X8"), others)) < 1e-12


def test_a_given_start_may_have_any_layout_and_stays_as_it_is(comm: qd.comm.Communicator) -> None:
    circuit = qd.library.hardware_efficient(9, 2)
    program = qd.compile(circuit, comm=comm, dtype="complex128")
    rng = np.random.default_rng(4)
    start = rng.normal(size=512) + 1j * rng.normal(size=512)
    start /= np.linalg.norm(start)
    for layout in (program.plan.layout, None, Layout(range(9)[::-1]), Layout(rng.permutation(9).tolist())):
        initial = qd.StateVector.from_amplitudes(start, comm=comm, layout=layout)
        # The second run binds other values to a plan that is there already.
        for out in (None, qd.StateVector(9, "complex128", comm)):
            params = rng.normal(size=circuit.num_parameters)
            got = program.run(params, initial=initial, out=out).amplitudes()
            np.testing.assert_allclose(got, reference.state(circuit, params, initial=start), atol=1e-13)
        np.testing.assert_array_equal(initial.amplitudes(), start)


def test_every_rank_holds_its_share_and_no_more(comm: qd.comm.Communicator) -> None:
    state = qd.simulate(qd.library.qft(12), comm=comm)
    sizes = comm.all_gather_object(len(state.local))
    assert sum(sizes) == 1 << 12
    assert max(sizes) <= 2 * min(sizes)


def test_more_ranks_than_shards_can_be_made_are_refused(comm: qd.comm.Communicator) -> None:
    if comm.size > 1:
        with pytest.raises(StateError, match=f"4 qubits on {comm.size} ranks"):
            qd.simulate(qd.Circuit(4).h(0), comm=comm)
