"""Gates of last sweeps that only move amplitudes are left to the observables, and nothing else changes."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from states import random_sum

import qdist as qd
from qdist.plan import fastest
from qdist.plan.levels import Level
from qdist.plan.observables.strings import Strings
from qdist.plan.operations import Operation, operations
from qdist.plan.stages.cpu_target import CpuTarget
from qdist.plan.tail import Tail
from qdist.program.shortened import Shortened
from qdist.state import reference
from qdist.state.outputs import State

N = 9


def moves(n: int, seed: int) -> qd.Circuit:
    """X, CX with either control, and SWAP, anywhere."""
    rng, circuit = np.random.default_rng(seed), qd.Circuit(n)
    for _ in range(8):
        a, b = (int(q) for q in rng.permutation(n)[:2])
        match rng.integers(4):
            case 0:
                circuit.x(a)
            case 1:
                circuit.cx(a, b)
            case 2:
                circuit.append(qd.circuit.GATES["x"].controlled(1, 0), [a, b])
            case _:
                circuit.swap(a, b)
    return circuit


def program_of(circuit: qd.Circuit) -> qd.Program:
    """With small tiles, so that few gates make several sweeps; as large as the widest vectors need."""
    return qd.Program(circuit, dtype="complex128", device="cpu", levels=[Level("cache", 5, 3)])


def ansatz(seed: int) -> qd.Circuit:
    return qd.library.hardware_efficient(N, 2).compose(moves(N, seed))


@given(st.integers(0, 10**6))
def test_strings_before_gates_are_matrices_multiplied(seed: int) -> None:
    n = 4
    circuit, observable = moves(n, seed), random_sum(n, 6, seed)
    gates: list[Operation] = list(operations(circuit))
    strings = Strings.of([observable], real=True).before(gates)
    moved = qd.PauliSum.from_masks(strings.x, strings.z, strings.coefficients)
    unitary = reference.unitary(circuit)
    np.testing.assert_allclose(moved.to_matrix(n), unitary.conj().T @ observable.to_matrix(n) @ unitary, atol=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_values_and_gradients_are_those_of_the_whole_circuit(seed: int) -> None:
    circuit, observable = ansatz(seed), qd.library.heisenberg_xxz(N)
    program, params = program_of(circuit), np.random.default_rng(seed).uniform(-3, 3, 4 * N)
    short, gates = program.bind_for([qd.Expectation(observable)], params)
    assert gates
    assert (short.plan.sweeps, len(short.plan.blocks)) < (program.plan.sweeps, len(program.plan.blocks))
    value, gradient = program.value_and_grad(observable, params)
    assert abs(value - reference.expectation(circuit, observable, params)) < 1e-12
    np.testing.assert_allclose(gradient, reference.gradient(circuit, observable, params), atol=1e-12)
    assert abs(program.expectation(observable, params) - value) < 1e-12


def test_parameters_bound_before_count() -> None:
    program, observable = program_of(ansatz(0)), qd.library.heisenberg_xxz(N)
    first, second = np.random.default_rng(0).uniform(-3, 3, (2, 4 * N))
    for params in (first, second):
        value, gradient = program.value_and_grad(observable, params)
        assert abs(program.run().expectation(observable) - value) < 1e-12
        assert abs(program.expectation(observable) - value) < 1e-12
    np.testing.assert_array_equal(program.value_and_grad(observable)[1], gradient)
    program.bind(first)
    assert program.value_and_grad(observable)[0] != value


def test_other_outputs_see_the_whole_circuit() -> None:
    circuit, observable = ansatz(1), qd.library.heisenberg_xxz(N)
    program, params = program_of(circuit), np.random.default_rng(1).uniform(-3, 3, 4 * N)
    cotangent = np.zeros(1 << N, np.complex128)
    (_, state), gradient = program.vjp([observable, State()], params, [1.0, cotangent])
    np.testing.assert_allclose(state, reference.state(circuit, params), atol=1e-12)
    np.testing.assert_allclose(gradient, program.value_and_grad(observable, params)[1], atol=1e-12)


def test_observables_that_would_need_more_passes_keep_the_gates(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 20
    # A search, and larger tiles, find as many sweeps for both.
    monkeypatch.setattr(fastest, "_AMPLITUDES_A_TRY", math.inf)
    monkeypatch.setattr(CpuTarget, "forward", lambda *_: ())
    circuit = qd.library.hardware_efficient(n, 1).cx(0, 19).cx(19, 8)
    program = qd.compile(circuit, device="cpu")
    assert program._short is not None
    runner, short = program._short
    assert program.plan.sweeps - short.plan.sweeps == 1
    far_apart = qd.Circuit(n)
    for q in range(8):
        far_apart.cx(12 + q, 4 + q)
    many = Shortened(short.plan, Tail(operations(far_apart)), program.plan, program.backend)
    # Each flips four qubits instead of two, and a tile holds few such fours.
    pairs = qd.PauliSum({f"X{12 + a} X{12 + b}": 1.0 for a in range(8) for b in range(a)})
    assert many.gains(["X12 X13"])
    assert not many.gains([pairs])
    program._short = runner, many
    assert program.bind_for([qd.Expectation(pairs)], np.zeros(2 * n)) == (program, ())
