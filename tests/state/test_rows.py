"""Row programs: batches of small circuits give what single runs give, whatever the gates, outputs and sizes."""

import os
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from excitations import DOUBLE
from hypothesis import given, settings
from hypothesis import strategies as st
from repeated_turns import repeated_turns
from states import DTYPES, random_sum
from strategies import TABLE_GATES, circuits, random_unitary

import qdist as qd
from qdist.backends.cuda.target import cuda_target
from qdist.circuit.gates import NAMED
from qdist.native import kernels
from qdist.plan.operations import gate_operation, operations
from qdist.plan.planner import make_plan
from qdist.plan.rows import lowered
from qdist.plan.rows.records import DIAGONAL, GROUP
from qdist.plan.rows.steps import steps
from qdist.program import adjoint
from qdist.program import rows as program_rows
from qdist.program.runner import Runner
from qdist.state import StateError, reference
from qdist.state.outputs import Output, as_output

TOLERANCE = {"complex64": 3e-6, "complex128": 1e-12}


def of_rows(circuit: qd.Circuit, dtype: str = "complex128") -> qd.Program:
    program = qd.compile(circuit, device="cpu", dtype=dtype)
    assert program.row_programs.unfit == ""
    return program


def unfit(circuit: qd.Circuit) -> str:
    return qd.compile(circuit, device="cpu").row_programs.unfit


def trainable(circuit: qd.Circuit) -> qd.Circuit:
    """The same with a parameter, or two, in every angle."""
    p = qd.ParameterVector("p", 3)
    made = qd.Circuit(circuit.num_qubits)
    for k, (gate, qubits, params, *_) in enumerate(circuit):
        if gate.is_unitary:
            angles = [p[(k + j) % 3] * (0.5 + j) - 0.25 * p[k % 3] + float(a) for j, a in enumerate(params)]
            made.append(gate, qubits, angles)
    return made


def outputs_of(n: int, seed: int) -> list:
    rng = np.random.default_rng(seed)
    qubits = rng.permutation(n)[: 1 + seed % n].tolist()
    return [random_sum(n, 6, seed), "Z0", qd.Probabilities(qubits), qd.Variance(random_sum(n, 3, seed + 1)), {"": 2.0}]


def cotangents_of(outputs: list, n: int, rows: int, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.normal(size=(rows, *o.shape(n)) if isinstance(o, Output) else rows) for o in outputs]


def check(circuit: qd.Circuit, dtype: str, rows: int, seed: int) -> None:
    """States, outputs and gradients of a batch against single runs, which take another path."""
    n, program = circuit.num_qubits, of_rows(circuit, dtype)
    theta = np.random.default_rng(seed).normal(size=(rows, circuit.num_parameters))
    atol = TOLERANCE[dtype]
    states = program.run_batch(theta)
    assert states.dtype == dtype
    for state, row in zip(states, theta):
        np.testing.assert_allclose(state, program.run(row).amplitudes(), atol=atol)
    outputs = outputs_of(n, seed)
    cotangents = cotangents_of(outputs, n, rows, seed)
    values, gradient = program.vjp(outputs, theta, cotangents)
    wanted = [as_output(output, n) for output in outputs]
    np.testing.assert_allclose(program.expectation(outputs[0], theta), values[0], atol=atol)
    for b, row in enumerate(theta):
        want, slopes = adjoint._vjp(program, wanted, row, [g[b] for g in cotangents])
        for value, one in zip(values, want):
            np.testing.assert_allclose(value[b], one, atol=20 * atol)
        np.testing.assert_allclose(gradient[b], slopes, atol=50 * atol)


P = qd.ParameterVector("p", 3)


@given(circuits(max_qubits=5, max_gates=16, parameters=list(P)), st.integers(0, 2**16), st.integers(1, 20))
@settings(max_examples=60, deadline=None)
def test_random_circuits_of_all_gates(circuit: qd.Circuit, seed: int, rows: int) -> None:
    check(circuit, "complex128", rows, seed)


@pytest.mark.parametrize("gate", TABLE_GATES, ids=lambda gate: gate.name)
def test_every_gate_of_the_table_with_and_without_controls(gate: qd.circuit.Gate) -> None:
    for controls in (0, 1, 2):
        whole = gate.controlled(controls, 1 if controls == 2 else None) if controls else gate
        n = max(2, whole.num_qubits)
        circuit = qd.Circuit(n)
        for q in range(n):
            circuit.ry(0.3 + q, q).rz(0.7 * q, q).cx(q, (q + 1) % n)
        circuit.append(
            whole, list(range(n))[::-1][: whole.num_qubits], [0.3 + 0.4 * k for k in range(whole.num_params)]
        )
        circuit.rx(0.4, 0).cx(0, 1)
        check(trainable(circuit), "complex128", 3, seed=controls)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_size_and_ragged_batches(dtype: str) -> None:
    lanes = 1 << kernels.lane_bits[dtype == "complex128"]
    n = 1
    while not unfit(circuit := qd.library.hardware_efficient(n, 2)):
        check(circuit, dtype, {1: 2 * lanes + 1, 2: lanes, 3: lanes - 1}.get(n, 2), n)
        n += 1
    assert n > 10


def test_every_size_up_to_sixteen_in_batches() -> None:
    """Beyond what a row program takes, too: the same values as single runs."""
    for n in range(1, 17):
        circuit = qd.library.hardware_efficient(n, 1)
        program = qd.compile(circuit, device="cpu")
        theta = np.random.default_rng(n).normal(size=(3, circuit.num_parameters))
        value, gradient = program.value_and_grad("Z0", theta)
        for b in range(3):
            want, slopes = program.value_and_grad("Z0", theta[b])
            np.testing.assert_allclose(value[b], want, atol=1e-5)
            np.testing.assert_allclose(gradient[b], slopes, atol=1e-5)


def test_gradients_are_finite_differences() -> None:
    circuit = qd.library.hardware_efficient(4, 2).ryy(0.3, 0, 2).crz(0.4, 1, 3)
    program = of_rows(circuit)
    theta = np.random.default_rng(1).normal(size=(3, circuit.num_parameters))
    observable = random_sum(4, 8, 5)
    value, gradient = program.value_and_grad(observable, theta)
    _, differences = program.value_and_grad(observable, theta, method="finite-difference")
    np.testing.assert_allclose(gradient, differences, atol=1e-9)
    for b, row in enumerate(theta):
        assert value[b] == pytest.approx(reference.expectation(circuit, observable, row), abs=1e-12)


def test_a_row_does_not_depend_on_the_others_nor_on_threads(threads: int) -> None:
    circuit = qd.library.hardware_efficient(7, 3)
    program = of_rows(circuit, "complex64")
    theta = np.random.default_rng(0).normal(size=(75, circuit.num_parameters))
    value, gradient = program.value_and_grad("X0 Z1", theta)
    order = np.random.default_rng(1).permutation(75)
    for rows in (order, order[:5], order[:1]):
        again, slopes = program.value_and_grad("X0 Z1", theta[rows])
        np.testing.assert_array_equal(again, value[rows])
        np.testing.assert_array_equal(slopes, gradient[rows])


def test_shared_parameters_get_the_sum_over_rows() -> None:
    """Parameters of rows and of all rows in one angle, and gates without any."""
    x, w = qd.ParameterVector("x", 3), qd.ParameterVector("w", 4)
    circuit = qd.Circuit(3).h(0).rx(x[0] + 0.5 * w[0], 0).ry(w[1], 1).cx(0, 1).rzz(w[2] - x[1], 1, 2)
    circuit.rz(w[3], 2).rx(w[0], 2).rzz(w[2], 0, 1).rz(x[2], 1).ry(2 * w[3] + 0.1, 0).cp(w[1], 0, 2).h(2)
    program = of_rows(circuit)
    place = {p: k for k, p in enumerate(circuit.parameters)}
    own, shared = [place[p] for p in x][::-1], [place[p] for p in (w[2], w[0], w[3], w[1])]
    rows = program.row_programs.of(own, shared)
    theta = np.tile(np.random.default_rng(3).normal(size=7), (21, 1))
    theta[:, own] = np.random.default_rng(4).normal(size=(21, 3))
    outputs = outputs_of(3, 1)
    cotangents = cotangents_of(outputs, 3, 21, 2)
    want, gradient = program.vjp(outputs, theta, cotangents)
    reading = rows.reading([as_output(output, 3) for output in outputs])
    flat = np.concatenate([g.reshape(21, -1) for g in cotangents], axis=1)
    for kept in (False, True):
        args = theta[:, own].copy(), theta[0, shared]
        found = rows.values(*args, reading, keep=True) if kept else (None, None)
        values, by_row, by_shared = rows.vjp(*args, reading, flat, True, True, *found)
        for value, one in zip(reading.columns.values(values), want):
            np.testing.assert_allclose(value, one, atol=1e-13)
        np.testing.assert_allclose(by_row, gradient[:, own], atol=1e-12)
        np.testing.assert_allclose(by_shared, gradient[:, shared].sum(axis=0), atol=1e-11)
    assert rows.vjp(*args, reading, flat, False, False)[1:] == (None, None)


def test_long_circuits_are_as_exact_as_short_ones() -> None:
    """What a plan computes in double (plan/precision.py) is so in batches too."""
    circuit = qd.library.hardware_efficient(5, 60)
    program = of_rows(circuit, "complex64")
    assert program.plan.in_double
    theta = np.random.default_rng(2).normal(size=(4, circuit.num_parameters))
    H = qd.library.heisenberg_xxz(5)
    value, gradient = program.value_and_grad(H, theta)
    want, slopes = of_rows(circuit).value_and_grad(H, theta)
    np.testing.assert_allclose(value, want, atol=1e-9)
    np.testing.assert_allclose(gradient, slopes, atol=1e-9)


def test_large_angles_lose_nothing() -> None:
    t = qd.Parameter("t")
    program = of_rows(qd.Circuit(1).rx(t, 0))
    turns = np.array([[0.3], [0.3 + 4e6 * np.pi], [-0.3]])
    np.testing.assert_allclose(program.expectation("Z0", turns), np.cos(0.3), atol=1e-9)


def test_batches_of_no_rows_have_shapes() -> None:
    circuit = qd.library.hardware_efficient(4, 1)
    program = of_rows(circuit)
    theta = np.zeros((0, circuit.num_parameters))
    outputs = ["Z0", qd.Probabilities([1, 2]), qd.Variance("X1")]
    values, gradient = program.vjp(outputs, theta, cotangents_of(outputs, 4, 0, 0))
    assert [value.shape for value in values] == [(0,), (0, 4), (0,)]
    assert gradient.shape == theta.shape
    assert program.run_batch(theta).shape == (0, 16)
    assert program.expectation("Z0", theta).shape == (0,)
    with pytest.raises(StateError, match="not Hermitian"):
        program.expectation({"Z0": 1j}, np.zeros((2, circuit.num_parameters)))


def test_what_a_row_program_does_not_take_goes_the_general_way_and_says_why() -> None:
    wide = qd.Circuit(5).unitary(random_unitary(32, 0), range(5))
    reset = qd.Circuit(2).h(0).reset(0)
    many = qd.Circuit(8).append(qd.circuit.GATES["p"].controlled(7), list(range(8)), [0.3])
    for circuit, why in ((wide, "a matrix of 5 qubits"), (reset, "not unitary"), (many, "under 8 conditions")):
        program = qd.compile(circuit, device="cpu")
        assert why in program.row_programs.unfit
        assert why in program.plan.summary()
    program = qd.compile(wide, device="cpu")
    found = program.expectation("Z0", np.zeros((2, 0)))
    np.testing.assert_allclose(found, [program.expectation("Z0")] * 2, atol=1e-6)
    large = qd.compile(qd.library.hardware_efficient(16, 1), device="cpu")
    assert "do not fit the cache" in large.row_programs.unfit
    assert "batches: rows of one kernel" in qd.compile(qd.Circuit(2).h(0), device="cpu").plan.summary()


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_parameter_set_goes_as_one_row(dtype: str) -> None:
    """The same values as from the kernels of single circuits, and what is bound stays bound."""
    circuit = qd.library.hardware_efficient(5, 2)
    program = of_rows(circuit, dtype)
    theta = np.random.default_rng(5).normal(size=circuit.num_parameters)
    outputs = outputs_of(5, 3)
    cotangents = [g[0] for g in cotangents_of(outputs, 5, 1, 0)]
    values, gradient = program.vjp(outputs, theta, cotangents)
    want, slopes = adjoint._vjp(program, [as_output(output, 5) for output in outputs], theta, cotangents)
    for value, one in zip(values, want):
        assert type(value) is type(one)
        np.testing.assert_allclose(value, one, atol=20 * TOLERANCE[dtype])
    np.testing.assert_allclose(gradient, slopes, atol=50 * TOLERANCE[dtype])
    sums = [random_sum(5, 4, seed) for seed in range(3)]
    want = [adjoint._vjp(program, [as_output(one, 5)], theta, [1.0])[1] for one in sums]
    np.testing.assert_allclose(program.jacobian(sums, theta), want, atol=50 * TOLERANCE[dtype])
    assert program.value_and_grad("Z0")[0] == pytest.approx(program.expectation("Z0", theta), abs=1e-5)
    np.testing.assert_allclose(program.run().amplitudes(), program.run(theta).amplitudes())
    with pytest.raises(qd.CircuitError, match="finite"):
        program.value_and_grad("Z0", np.full(circuit.num_parameters, np.nan))


@pytest.mark.parametrize("dtype", DTYPES)
def test_expectation_values_of_one_parameter_set_go_as_one_row(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    circuit = qd.library.hardware_efficient(5, 2)
    program = of_rows(circuit, dtype)
    theta = np.random.default_rng(5).normal(size=circuit.num_parameters)
    sums = [random_sum(5, 4, seed) for seed in range(3)]
    state = program.run(theta)
    want = [state.expectation(one) for one in sums]
    monkeypatch.setattr(Runner, "run_with", None)
    program.bind(np.zeros(circuit.num_parameters))
    found = [program.expectation(one, theta) for one in sums]
    assert all(type(value) is float for value in found)
    np.testing.assert_allclose(found, want, atol=20 * TOLERANCE[dtype])
    # What was given last is bound.
    np.testing.assert_allclose(program.expectations(sums), want, atol=20 * TOLERANCE[dtype])
    with pytest.raises(qd.CircuitError, match="finite"):
        program.expectation("Z0", np.full(circuit.num_parameters, np.inf))
    with pytest.raises(StateError, match="not Hermitian"):
        program.expectation({"Z0": 1j}, theta)


def test_phases_of_one_parameter_set_are_one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a batch, phases that rows have for themselves are a rotation each; one set shares all of them with itself."""
    circuit, t = qd.Circuit(6).h(range(6)), qd.ParameterVector("t", 4)
    for layer in range(2):
        for q in range(5):
            circuit.rzz(t[2 * layer], q, q + 1)
        circuit.rx(t[2 * layer + 1], range(6))
    program = of_rows(circuit)
    theta = np.random.default_rng(2).normal(size=4)
    made = []
    monkeypatch.setattr(program_rows, "lowered", lambda *args: made.append(lowered(*args)) or made[-1])
    value, gradient = program.value_and_grad("Z0 Z1", theta)
    values, gradients = program.value_and_grad("Z0 Z1", theta[None])
    assert value == pytest.approx(values[0], abs=1e-12)
    np.testing.assert_allclose(gradient, gradients[0], atol=1e-12)
    single, batch = (Counter(records.operations[:, 0].tolist()) for records in made)
    assert single == {DIAGONAL: 2, GROUP: 4}
    assert DIAGONAL not in batch
    assert batch[GROUP] > 6


def test_strings_that_cancel_have_no_angle() -> None:
    """Phases are given as products of qubits. As strings of Z, RZZ is one and CRZ two; the others add up to nothing."""
    p = qd.ParameterVector("p", 3)
    circuit = qd.Circuit(4).h(range(4)).rzz(p[0], 0, 1).rzz(p[1], 1, 2).rzz(p[1], 2, 3).crz(p[2], 0, 2)
    source = qd.compile(circuit, device="cpu").source
    records = lowered(4, operations(source.circuit), source.affine, ())
    assert sorted(records.terms[:, 0].tolist()) == [0b0011, 0b0100, 0b0101, 0b0110, 0b1100]
    assert sorted(records.entries[:, 0].tolist()) == sorted(records.terms[:, 1].tolist())
    assert sorted(np.abs(records.coefficients).tolist()) == [0.5, 0.5, 1, 1, 1]


def test_many_threads_at_once_and_a_forked_child_find_the_pool_at_work() -> None:
    circuit = qd.library.hardware_efficient(8, 3)
    program = of_rows(circuit, "complex64")
    theta = np.random.default_rng(0).normal(size=(200, circuit.num_parameters))
    before = kernels.max_threads()
    kernels.set_threads(3)
    try:
        value, gradient = program.value_and_grad("Z0", theta)
        with ThreadPoolExecutor(4) as callers:
            for again, slopes in callers.map(lambda _: program.value_and_grad("Z0", theta), range(12)):
                np.testing.assert_array_equal(again, value)
                np.testing.assert_array_equal(slopes, gradient)
        child = os.fork()
        if child == 0:
            again, slopes = program.value_and_grad("Z0", theta)
            os._exit(0 if np.array_equal(again, value) and np.array_equal(slopes, gradient) else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        kernels.set_threads(before)


def test_every_gate_with_a_formula_has_steps_for_rows() -> None:
    """Else a batch of it would be refused, where one circuit runs."""
    for gate in NAMED.values():
        if gate.formula:
            assert list(steps(gate_operation(gate, range(gate.num_qubits), range(gate.num_params)))), gate.name


def test_repeated_turns_do_not_change_the_norm() -> None:
    circuit = repeated_turns()
    program = of_rows(circuit, "complex64")
    assert not program.plan.rows_in_double
    exact = of_rows(circuit, "complex128")
    theta = np.random.default_rng(1).uniform(-3, 3, (5, 4))
    observable = {"": 3.0, "Z0": 0.5, "X1 Z2": 0.25}
    value, gradient = program.value_and_grad(observable, theta)
    expected, derivatives = exact.value_and_grad(observable, theta)
    np.testing.assert_allclose(np.linalg.norm(program.run_batch(theta), axis=1), 1.0, atol=3e-7)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    np.testing.assert_allclose(gradient, derivatives, atol=1e-6)


def test_phases_of_many_constant_gates_do_not_add_up() -> None:
    """Their sum has no digits to lose: amplitudes were off by 1e-9."""
    first, then = qd.Circuit(2).ry(qd.Parameter("t"), 0).ry(0.3, 1), qd.Circuit(2)
    for _ in range(3000):
        then.h(0).t(0).cx(0, 1).h(1).t(1)
    theta = np.array([[0.4], [1.1]])
    found = of_rows(first.compose(then)).run_batch(theta)
    matrix = reference.unitary(then)
    for row, angle in zip(found, theta):
        np.testing.assert_allclose(row, matrix @ reference.state(first, angle), rtol=0, atol=2e-11)


def excitations(n: int) -> qd.Circuit:
    """Double excitations, each of 8 strings that flip the same qubits."""
    circuit = qd.Circuit(n).x(range(n // 2))
    for k, angle in enumerate(qd.ParameterVector("t", 6)):
        qubits = np.random.default_rng(k).permutation(n)[:4].tolist()
        for letters, sign in DOUBLE.items():
            circuit.pauli_rotation(angle * (sign / 4), letters, qubits)
    return circuit


def test_blocks_of_several_strings_run_state_by_state_where_rows_would_take_a_pass_for_each() -> None:
    assert qd.compile(excitations(9), device="cpu").plan.groups_strings
    assert unfit(excitations(9)) == ""
    assert "several strings" in unfit(excitations(10))
    assert unfit(qd.library.hardware_efficient(10, 2)) == ""
    on_a_gpu = make_plan(excitations(12), np.dtype("complex64"), target=cuda_target(np.dtype("complex64")))
    assert on_a_gpu.rows_unfit == ""
    # One parameter set is a row of up to 7 qubits, and of up to 8 where strings stand alone.
    assert [
        qd.compile(c, device="cpu").row_programs.one_row for c in (excitations(8), trainable(qd.Circuit(8).h(0)))
    ] == [7, 8]


@pytest.mark.parametrize("n", [8, 10])
def test_batches_of_excitations_are_their_rows(n: int) -> None:
    circuit, observable = excitations(n), {"Z0 Z1": 1.0, "X2 Y3 Z5": 0.5, "Y1": 0.25}
    theta = np.random.default_rng(1).uniform(-2, 2, (5, circuit.num_parameters))
    program = qd.compile(circuit, dtype="complex128", device="cpu")
    value, gradient = program.value_and_grad(observable, theta)
    for k, row in enumerate(theta):
        want, slope = program.value_and_grad(observable, row)
        np.testing.assert_allclose(value[k], want, atol=1e-13)
        np.testing.assert_allclose(gradient[k], slope, atol=1e-13)
    np.testing.assert_allclose(program.run_batch(theta)[0], reference.state(circuit.bind(theta[0])), atol=1e-13)


def test_what_one_row_was_given_is_bound_and_what_is_not_finite_is_not() -> None:
    circuit = qd.library.hardware_efficient(3, 1)
    program = of_rows(circuit)
    rng = np.random.default_rng(3)
    first, second = rng.normal(size=(2, circuit.num_parameters))
    for call in (program.expectation, lambda *args: program.value_and_grad(*args)[0]):
        program.bind(first)
        want = program.expectation("Z0", second)
        assert call("Z0", second) == pytest.approx(want)
        second_kept = second.copy()
        second[:] = 0  # A copy is bound.
        assert program.expectation("Z0") == pytest.approx(want)
        np.testing.assert_allclose(program.run().expectation("Z0"), want, atol=1e-6)
        with pytest.raises(qd.CircuitError, match="finite"):
            call("Z0", np.full(circuit.num_parameters, np.nan))
        assert program.expectation("Z0") == pytest.approx(want)
        second[:] = second_kept


def test_the_observable_that_was_read_last_is_found_by_what_it_is() -> None:
    program = of_rows(qd.library.hardware_efficient(3, 1))
    theta = np.random.default_rng(4).normal(size=program.circuit.num_parameters)
    state = program.run(theta)
    given = {"Z0": 1.0}
    for observable in ("Z0", "X1", qd.PauliSum({"Z2": 2.0}), given, "Z0"):
        assert program.expectation(observable, theta) == pytest.approx(state.expectation(observable), abs=1e-5)
    given["X2"] = 0.5
    assert program.expectation(given, theta) == pytest.approx(state.expectation(given), abs=1e-5)


def test_states_of_few_qubits_are_apart_and_aligned() -> None:
    """Several share an array, of which none sees the others'."""
    for num_qubits in (1, 2, 5):
        program = qd.compile(qd.Circuit(num_qubits).rx(qd.Parameter("t"), 0), device="cpu")
        states = [program.run([0.1 * k]) for k in range(40)]
        for k, state in enumerate(states):
            assert state.local.ctypes.data % 64 == 0
            assert state.expectation("Z0") == pytest.approx(np.cos(0.1 * k), abs=1e-6)
        states[0].local[:] = 0
        assert states[1].norm() == pytest.approx(1)
