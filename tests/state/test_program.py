"""Programs against the dense reference: every gate at every position, across the borders of vectors and tiles."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from odd_gates import angles, odd_gates
from states import address, random_ket
from strategies import circuits

import qdist as qd
from qdist.backends import on_host
from qdist.backends.errors import StateError
from qdist.circuit import GATES, CircuitError
from qdist.circuit.gate import Gate
from qdist.native import kernels
from qdist.plan.layout import Layout
from qdist.plan.levels import Level
from qdist.program import source as program_module
from qdist.program.runner import MAX_STARTS
from qdist.program.source import _inside_bits
from qdist.state import reference

DTYPES = ["complex64", "complex128"]
both = pytest.mark.parametrize("dtype", DTYPES)
N = 7


def small_tiles(dtype: str, more: int = 1) -> list[Level]:
    """Tiles of one vector and ``more`` bits: at 7 qubits many gates then reach outside of them."""
    lanes = kernels.lane_bits[dtype == "complex128"]
    return [Level("cache", min(N, lanes + more), min(N, lanes))]


def check(circuit: qd.Circuit, dtype: str, levels: list[Level] | None = None, params: object = None) -> None:
    """The program's state equals the reference's, from a random state, which it leaves alone."""
    start = random_ket(circuit.num_qubits, seed=len(circuit))
    initial = qd.StateVector.from_amplitudes(start, dtype)
    before = initial.amplitudes()
    # A GPU has the tiles of its kernel.
    levels = levels if initial.device == "cpu" else None
    state = qd.Program(circuit, dtype=dtype, levels=levels).run(params, initial=initial)
    assert state.dtype == dtype
    want = reference.state(circuit, params, initial=start)
    np.testing.assert_allclose(state.amplitudes(), want, atol=2e-6 if dtype == "complex64" else 1e-13)
    np.testing.assert_array_equal(initial.amplitudes(), before)


def names_by_width(width: int) -> list[str]:
    return sorted({g.name for g in GATES.values() if g.num_qubits == width})


@both
@pytest.mark.parametrize("name", names_by_width(1))
def test_one_qubit_gates_everywhere(name: str, dtype: str) -> None:
    for q in range(N):
        # Something on the neighbour keeps plans from being trivial.
        circuit = qd.Circuit(N).h((q + 1) % N).append(GATES[name], q, angles(GATES[name])).cx(q, (q + 3) % N)
        check(circuit, dtype)
        check(circuit, dtype, small_tiles(dtype))


@both
@pytest.mark.parametrize("name", names_by_width(2))
def test_two_qubit_gates_everywhere(name: str, dtype: str) -> None:
    for a, b in itertools.permutations(range(N), 2):
        circuit = qd.Circuit(N).append(GATES[name], (a, b), angles(GATES[name]))
        check(circuit, dtype, small_tiles(dtype, 2))


@both
@pytest.mark.parametrize("name", [*names_by_width(3), *names_by_width(4), *names_by_width(5)])
def test_wider_gates_in_many_places(name: str, dtype: str) -> None:
    gate = GATES[name]
    rng = np.random.default_rng(5)
    for _ in range(12):
        qubits = rng.permutation(N)[: gate.num_qubits].tolist()
        check(qd.Circuit(N).append(gate, qubits, angles(gate)), dtype, small_tiles(dtype))


@both
@pytest.mark.parametrize(("name", "gate"), odd_gates(), ids=[name for name, _ in odd_gates()])
def test_gates_with_data_controls_and_strings(name: str, gate: Gate, dtype: str) -> None:
    rng = np.random.default_rng(6)
    for more in (1, 3):
        for _ in range(6):
            qubits = rng.permutation(N)[: gate.num_qubits].tolist()
            circuit = qd.Circuit(N).h(range(N)).append(gate, qubits, angles(gate)).rx(0.4, 0)
            check(circuit, dtype, small_tiles(dtype, more))


@both
@given(circuits(max_qubits=10), st.integers(0, 3))
@settings(max_examples=120)
def test_any_circuit(dtype: str, circuit: qd.Circuit, more: int) -> None:
    if circuit.num_qubits == 0 or any(not i.gate.is_unitary and not i.gate.is_directive for i in circuit):
        return
    params = np.linspace(-2, 2, circuit.num_parameters)
    lanes = kernels.lane_bits[dtype == "complex128"]
    n = circuit.num_qubits
    check(circuit, dtype, [Level("cache", min(n, lanes + more), min(n, lanes))], params)
    check(circuit, dtype, None, params)


@both
@pytest.mark.parametrize("n", [13, 14])
def test_circuits_of_several_default_tiles(n: int, dtype: str) -> None:
    for circuit in (
        qd.library.random_circuit(n, 10, seed=n),
        qd.library.quantum_volume(n, 4, seed=n),
        qd.library.qft(n),
    ):
        check(circuit, dtype)


@both
def test_the_same_bits_from_run_to_run_and_for_any_number_of_threads(dtype: str) -> None:
    circuit = qd.library.random_circuit(15, 8, seed=1)
    before = kernels.max_threads()
    results = set()
    for threads in (1, 2, 2, 3):
        kernels.set_threads(threads)
        results.add(qd.compile(circuit, dtype=dtype).run().local.tobytes())
    kernels.set_threads(before)
    assert len(results) == 1


@both
def test_from_zero_is_the_same_as_from_the_zero_state(dtype: str) -> None:
    gates = qd.library.random_circuit(14, 6, seed=2)
    # SWAP gates have other qubits' names in one of the two, and numbers are rounded in another order.
    circuit = gates.with_instructions([i for i in gates if "swap" not in i.gate.base.name])
    program = qd.compile(circuit, dtype=dtype)
    zero = program.run(initial=qd.StateVector(14, dtype))
    np.testing.assert_array_equal(on_host(program.run().local), on_host(zero.local))


def test_plans_for_given_states_are_kept_for_the_layouts_used_last(monkeypatch: pytest.MonkeyPatch) -> None:
    planned: list[Layout] = []
    make_plan = program_module.make_plan
    monkeypatch.setattr(program_module, "make_plan", lambda *a, **k: planned.append(k["start"]) or make_plan(*a, **k))
    circuit = qd.library.hardware_efficient(5, 2)
    program = qd.compile(circuit, dtype="complex128")
    layouts = [Layout(places) for places in itertools.islice(itertools.permutations(range(5)), 1, 2 + MAX_STARTS)]
    start = random_ket(5, seed=1)

    def run(layout: Layout, params: np.ndarray) -> None:
        initial = qd.StateVector.from_amplitudes(start, "complex128", layout=layout)
        want = reference.state(circuit, params, initial=start)
        np.testing.assert_allclose(program.run(params, initial=initial).amplitudes(), want, atol=1e-13)

    one, other = np.random.default_rng(0).normal(size=(2, circuit.num_parameters))
    for layout in layouts:
        run(layout, one)
    assert planned == [None, *layouts]
    # The first had to go; the others are there, bound to what is bound now, and stay in the order of their last use.
    for layout in [layouts[1], *layouts[3:], layouts[0], layouts[1]]:
        run(layout, other)
    assert planned == [None, *layouts, layouts[0]]
    run(layouts[2], other)
    assert planned == [None, *layouts, layouts[0], layouts[2]]
    assert len(program._from._values) == MAX_STARTS


@pytest.mark.parametrize(
    "circuit",
    [qd.library.hardware_efficient(18, 3), qd.library.qft(17), qd.library.quantum_volume(16, 6, seed=3)],
    ids=["ansatz", "qft", "volume"],
)
def test_equals_qiskit_aer(circuit: qd.Circuit) -> None:
    qiskit = pytest.importorskip("qiskit")
    aer = pytest.importorskip("qiskit_aer")
    bound = circuit.bind(np.random.default_rng(0).normal(size=circuit.num_parameters))
    text = bound.to_qasm(version=2)
    theirs = qiskit.QuantumCircuit.from_qasm_str(text)
    theirs.save_statevector()
    simulator = aer.AerSimulator(method="statevector")
    want = np.asarray(simulator.run(qiskit.transpile(theirs, simulator)).result().get_statevector())
    got = qd.simulate(bound, dtype="complex128").amplitudes()
    # QASM 2 has no global phase.
    assert abs(np.vdot(want, got)) == pytest.approx(1, abs=1e-10)


def test_binding_again_changes_everything_that_depends_on_it() -> None:
    theta = qd.ParameterVector("t", 3)
    circuit = qd.Circuit(3).ry(theta[0], 0).rzz(2 * theta[1] + 0.3, 0, 1).pauli_rotation(theta[2], "XYZ", [0, 1, 2])
    circuit.u(theta[0], theta[1] - theta[2], 0.1, 2).cx(0, 1).ry(theta[0], 0)
    program = qd.compile(circuit, dtype="complex128")
    for seed in range(3):
        params = np.random.default_rng(seed).normal(size=3)
        np.testing.assert_allclose(program.run(params).amplitudes(), reference.state(circuit, params), atol=1e-14)
    np.testing.assert_allclose(program.run().amplitudes(), reference.state(circuit, params), atol=1e-14)
    by_name = program.run({theta: params}).amplitudes()
    np.testing.assert_allclose(by_name, reference.state(circuit, params), atol=1e-14)


@both
def test_matrices_of_an_earlier_binding_are_never_used(dtype: str) -> None:
    """Rotations by nearly half a turn run by other kernels than the rest, alone or together with the next."""
    theta = qd.ParameterVector("t", 5)
    circuit = qd.Circuit(9)
    for k in range(5):
        circuit.ry(theta[k], 4 + k)
    program = qd.compile(circuit, dtype=dtype)
    for halves in itertools.product([0, 1], repeat=5):
        for others in (0.4, 1.1):
            params = np.where(halves, np.pi, others) + 0.1 * np.arange(5) * (1 - np.array(halves))
            state = program.run(params).amplitudes()
            np.testing.assert_allclose(state, reference.state(circuit, params), atol=1e-6)


def test_missing_parameters_and_wrong_arguments_are_refused() -> None:
    circuit = qd.Circuit(2).rx(qd.Parameter("a"), 0)
    program = qd.compile(circuit)
    with pytest.raises(CircuitError, match="1 parameters take as many values; got 0"):
        program.run()
    with pytest.raises(CircuitError, match="a must be a finite number; got nan"):
        program.run(np.array([np.nan]))
    with pytest.raises(StateError, match="device='tpu'"):
        qd.compile(circuit, device="tpu")
    with pytest.raises(StateError, match="float32"):
        qd.compile(circuit, dtype="float32")
    with pytest.raises(StateError, match="initial is a state of 3 qubits in complex64; the program needs 2"):
        program.run([0.1], initial=qd.StateVector(3))
    with pytest.raises(StateError, match=r"in complex64; initial\.astype\('complex64'\) is one"):
        program.run([0.1], initial=qd.StateVector(2, "complex128"))
    with pytest.raises(StateError, match=r"amplitudes of one; got an array of shape \(2, 2\)"):
        program.run([0.1], initial=np.eye(2))
    with pytest.raises(StateError, match="fewer than 5: leave comm out"):
        qd.compile(circuit, comm=qd.comm.counting_communicator(4))


def test_a_program_says_what_it_is() -> None:
    a = qd.Parameter("a")
    assert repr(qd.compile(qd.Circuit(1).rx(a, 0), device="cpu")) == "<Program of 1 qubit, 1 parameter, complex64, cpu>"
    shared = qd.compile(qd.Circuit(8), dtype="complex128", comm=qd.comm.counting_communicator(2), device="cpu")
    assert repr(shared) == "<Program of 8 qubits, 0 parameters, complex128, on 2 ranks, cpu>"


def test_states_too_large_are_refused_with_what_would_do() -> None:
    with pytest.raises(MemoryError, match="ranks would do"):
        qd.simulate(qd.Circuit(45).h(0))


def test_out_re_uses_memory() -> None:
    program = qd.compile(qd.library.qft(6))
    state = program.run()
    memory = address(state.local)
    again = program.run(out=state)
    assert again is state
    assert address(again.local) == memory
    np.testing.assert_allclose(again.amplitudes(), reference.state(program.circuit), atol=1e-6)


@both
def test_a_batch_equals_a_loop(dtype: str) -> None:
    circuit = qd.library.hardware_efficient(6, 2)
    program = qd.compile(circuit, dtype=dtype)
    params = np.random.default_rng(0).normal(size=(9, circuit.num_parameters))
    states = program.run_batch(params)
    assert states.shape == (9, 64)
    assert states.dtype == dtype
    for row, theta in zip(states, params):
        np.testing.assert_allclose(row, program.run(theta).amplitudes(), atol=4 * np.finfo(dtype).eps)
    H = qd.library.heisenberg_xxz(6)
    want = [reference.expectation(circuit, H, theta) for theta in params]
    np.testing.assert_allclose(program.expectation(H, params), want, atol=1e-5)
    with pytest.raises(StateError, match="one row a parameter set"):
        program.run_batch(params[0])


# What is not unitary --------------------------------------------------------------------------------------------------


def teleport() -> qd.Circuit:
    circuit = qd.Circuit(3, 2).ry(0.8, 0).rz(0.3, 0).h(1).cx(1, 2).cx(0, 1).h(0)
    circuit.measure(0, 0).measure(1, 1)
    with circuit.if_(1, 1):
        circuit.x(2)
    with circuit.if_(0, 1) as otherwise:
        circuit.z(2)
    with otherwise:
        circuit.rz(0.0, 2)
    return circuit


def test_teleportation_ends_in_the_right_state_whatever_is_measured() -> None:
    want = reference.state(qd.Circuit(1).ry(0.8, 0).rz(0.3, 0))
    program = qd.compile(teleport(), dtype="complex128")
    seen = set()
    for seed in range(30):
        state = program.run(seed=seed)
        seen.add(program.bits)
        where = program.bits[0] + 2 * program.bits[1]
        got = state.amplitudes([where, where + 4])
        assert abs(np.vdot(want, got)) == pytest.approx(1, abs=1e-12)
    assert len(seen) == 4


def test_measuring_and_resetting_follow_the_exact_probabilities() -> None:
    circuit = qd.Circuit(3, 3).ry(0.9, 0).cx(0, 1).measure(0, 0).reset(1).h(1).measure(1, 1)
    with circuit.if_([0, 1], 3):
        circuit.ry(0.5, 2)
    circuit.measure(2, 2)
    exact: dict[str, float] = {}
    for probability, bits, _ in reference.branches(circuit):
        key = "".join(str(b) for b in reversed(bits))
        exact[key] = exact.get(key, 0) + probability
    shots = 4000
    counts = qd.compile(circuit).counts(shots, seed=5)
    assert sum(counts.values()) == shots
    for key, probability in exact.items():
        spread = np.sqrt(shots * probability * (1 - probability))
        assert abs(counts.get(key, 0) - shots * probability) < 5 * spread + 1


def test_final_measurements_are_sampled_from_one_run() -> None:
    circuit = qd.Circuit(3, 3).h(0).cx(0, 1).x(2).measure(0, 2).measure(1, 1).measure(2, 0)
    counts = qd.compile(circuit).counts(2000, seed=3)
    assert set(counts) == {"001", "111"}
    assert abs(counts["001"] - 1000) < 150
    assert counts == qd.compile(circuit).counts(2000, seed=3)
    assert qd.compile(qd.Circuit(2).x(1)).counts(7) == {"10": 7}
    with pytest.raises(StateError, match="shots must be an int >= 0; got -1"):
        qd.compile(circuit).counts(-1)


@pytest.mark.parametrize(
    ("state", "qubits"),
    [
        (5, [0, 1, 2, 3]),
        ("01", [3, 1]),
        ([[0.6, 0.8j], [0, 1]], [2, 0]),
        (np.arange(1, 9) / np.linalg.norm(np.arange(1, 9)), [3, 0, 1]),
        (0, []),
        ("", []),
        ([1j], []),
        (np.zeros((0, 2)), []),
    ],
)
def test_initialize_puts_qubits_into_given_states(state: object, qubits: list[int]) -> None:
    circuit = qd.Circuit(4).h(0).x(1).initialize(state, qubits).cx(0, 2)  # type: ignore[arg-type]
    found = reference.branches(circuit)
    got = qd.simulate(circuit, dtype="complex128", seed=1).amplitudes()
    assert any(abs(np.vdot(branch, got)) == pytest.approx(1, abs=1e-12) for _, _, branch in found)


def test_circuits_that_measure_on_the_way_do_not_run_as_a_batch() -> None:
    with pytest.raises(StateError, match="cannot run as a batch"):
        qd.compile(qd.Circuit(1, 1).measure(0, 0).h(0)).run_batch(np.zeros((2, 0)))


def test_progress_counts_sweeps_and_changes_nothing() -> None:
    circuit = qd.library.random_circuit(14, 6, seed=4)
    program = qd.compile(circuit)
    done = []
    state = qd.StateVector(14)
    program.bind()
    program._from_zero.parts[0][1][0].run(state.local, 0, 0, lambda: done.append(1))
    assert len(done) == program.plan.sweeps > 1
    np.testing.assert_array_equal(on_host(program.run(progress=True).local), on_host(state.local))
    np.testing.assert_array_equal(on_host(program.run().local), on_host(state.local))


def test_the_empty_circuit_is_the_zero_state() -> None:
    np.testing.assert_array_equal(qd.simulate(qd.Circuit(2)).amplitudes(), [1, 0, 0, 0])


@pytest.mark.parametrize(("nodes", "inside"), [([0, 0, 0, 0, 1, 1, 1, 1], 2), ([0, 1] * 4, 0), ([0] * 8, 3)])
def test_nodes_of_the_ranks_tell_which_far_positions_are_inside(nodes: list[int], inside: int) -> None:
    class Ranks:
        size, num_nodes, node = 8, len(set(nodes)), 0

        def all_gather_object(self, node: int) -> list[int]:
            return nodes

    assert _inside_bits(Ranks()) == inside


@both
def test_sweeps_pass_over_tiles_on_which_no_gate_works(dtype: str) -> None:
    """Gates under conditions on qubits outside a tile alone, of one stage and of several; other gates end that."""
    n = 10
    conditional = qd.circuit.GATES["ry"].controlled(2, 0b01)
    for also in (None, 0, 9):
        circuit = qd.Circuit(n).h(range(n)).rz(0.3, range(n)).barrier()
        for target in range(4):
            circuit.append(conditional, [8, 7, target], [0.3 + target]).crx(0.7, 9, target).mcx([6, 7, 8, 9], target)
            circuit.append(qd.circuit.GATES["u"].controlled(1), [6, target], [0.1, 0.2, 0.3])
        if also is not None:
            circuit.ry(0.4, also)
        for target in range(4, 7):
            circuit.ccx(0, 9, target).cry(0.2, 8, target)
        program = qd.Program(circuit, dtype=dtype, device="cpu", levels=[Level("cache", 6, 4)])
        tolerance = {"complex64": 1e-6, "complex128": 1e-14}[dtype]
        np.testing.assert_allclose(program.run().amplitudes(), reference.state(circuit), atol=tolerance)
