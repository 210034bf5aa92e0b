"""Circuit: building and reading. What is made of a circuit is in test_circuit_transformations.py."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import TABLE_GATES, circuits, random_unitary

from qdist.circuit import (
    GATES,
    Circuit,
    CircuitError,
    Condition,
    Instruction,
    Parameter,
    ParameterVector,
    diagonal_gate,
)
from qdist.circuit.gate_methods import GateMethods

few = settings(max_examples=40, deadline=None, derandomize=True)
PARAMETERS = (Parameter("a"), *ParameterVector("v", 3))


# Building.


@pytest.mark.parametrize("gate", TABLE_GATES, ids=lambda gate: gate.name)
def test_every_gate_has_a_method_with_parameters_first(gate: object) -> None:
    qubits = [4, 2, 0, 1, 3][: gate.num_qubits]
    angles = [0.1 * (k + 1) for k in range(gate.num_params)]
    circuit = Circuit(5)
    assert getattr(circuit, gate.name)(*angles, *qubits) is circuit
    assert circuit[0] == Instruction(gate, tuple(qubits), tuple(angles))
    assert len(circuit) == 1


def test_no_gate_method_is_left_untested() -> None:
    methods = {name for name, _ in inspect.getmembers(GateMethods, inspect.isfunction) if name[0] != "_"}
    # mcz and rot are in test_own_gates.py.
    others = {"mcx", "mcp", "mcz", "rot", "unitary", "diagonal", "permutation", "pauli_rotation"}
    assert methods == {gate.name for gate in TABLE_GATES} | others


def test_gates_with_data_and_many_controls() -> None:
    unitary, diagonal = random_unitary(4, 1), np.exp(1j * np.arange(4))
    circuit = Circuit(4)
    circuit.unitary(unitary, [2, 0]).diagonal(diagonal, [1, 3]).permutation([1, 0], 2)
    circuit.pauli_rotation(0.3, "XZY", [3, 1, 0]).mcx([0, 1, 2], 3).mcx([0, 1], 2, "01").mcp(0.2, [3, 1], 0, 2)
    assert np.array_equal(circuit[0].gate.matrix(), unitary)
    assert circuit[0].qubits == (2, 0)
    assert circuit[1].gate == diagonal_gate(diagonal)
    assert circuit[2].gate.is_permutation
    assert circuit[3].gate.data == "XZY"
    assert circuit[4].gate is GATES["c3x"]
    assert circuit[5].gate is GATES["x"].controlled(2, 1)
    assert Circuit(2).mcx(0, 1) == Circuit(2).cx(0, 1)
    assert circuit[6] == Instruction(GATES["p"].controlled(2, 2), (3, 1, 0), (0.2,))


def test_sequences_of_qubits_apply_the_gate_to_each() -> None:
    assert Circuit(3).h(range(3)) == Circuit(3).h(0).h(1).h(2)
    assert Circuit(3).h([2, 0]) == Circuit(3).h(2).h(0)
    assert Circuit(3).cx(0, [1, 2]) == Circuit(3).cx(0, 1).cx(0, 2)
    assert Circuit(4).cx([0, 1], [2, 3]) == Circuit(4).cx(0, 2).cx(1, 3)
    assert Circuit(3).rx(0.1, (0, 2)) == Circuit(3).rx(0.1, 0).rx(0.1, 2)
    assert Circuit(3).h(np.arange(2)) == Circuit(3).h(0).h(1)
    assert Circuit(3).h([]) == Circuit(3)
    assert Circuit(3, 3).measure(range(2), range(1, 3)) == Circuit(3, 3).measure(0, 1).measure(1, 2)


def test_numpy_numbers_become_plain_ones() -> None:
    circuit = Circuit(2).rx(np.float32(0.5), np.int64(1)).rz(1, 0).ry(np.array(0.5), 0)
    assert circuit[0] == Instruction(GATES["rx"], (1,), (0.5,))
    assert {type(i.params[0]) for i in circuit} == {float}
    assert {type(i.qubits[0]) for i in circuit} == {int}


circuit_errors = [
    (lambda c: c.h(3), "qubit 3 of h is out of range: the circuit has qubits 0 to 2"),
    (lambda c: c.h(-1), "qubit -1 of h is out of range"),
    (lambda c: c.h([0, 5]), "qubit 5 of h"),
    (lambda c: c.cx(1, 1), r"qubits of cx must be different; got \[1, 1\]"),
    (lambda c: c.cx([0, 1], [1, 1]), r"must be different; got \[1, 1\]"),
    (lambda c: c.cx([0, 1], [0, 1, 2]), r"equally long; got lengths \[2, 3\]"),
    (lambda c: c.h("0"), "must be an int; got '0'"),
    (lambda c: c.h(1.0), "must be an int; got 1.0"),
    (lambda c: c.h(None), "must be an int; got None"),
    (lambda c: c.rx(math.nan, 0), "angle of rx must be a finite real number .* got nan"),
    (lambda c: c.rx(math.inf, 0), "got inf"),
    (lambda c: c.rx("t", 0), "got 't'"),
    (lambda c: c.rx(1j, 0), "got 1j"),
    (lambda c: c.unitary([[1, 1], [0, 1]], 0), "not unitary"),
    (lambda c: c.unitary(np.eye(4), [0]), r"acts on 2 qubits; got 1: \[0\]"),
    (lambda c: c.unitary(np.eye(4), [0, 0]), "must be different"),
    (lambda c: c.pauli_rotation(0.1, "XX", [0, 1, 2]), "acts on 2 qubits; got 3"),
    (lambda c: c.mcx([0, 1], 1), "must be different"),
    (lambda c: c.mcx([0, 1], 2, 4), "ctrl_state 4 must be an int from 0 to 3"),
    (lambda c: c.append(GATES["rx"], [0]), "rx takes 1 parameters; got 0"),
    (lambda c: c.append(GATES["cx"], [0]), "cx acts on 2 qubits; got 1"),
    (lambda c: c.append(GATES["x"], [0], clbits=[0]), "x takes 0 classical bits; got 1"),
    (lambda c: c.append("x", [0]), "append takes a Gate, such as GATES"),
    (
        lambda c: c.measure(0, 2),
        "classical bit 2 of measure is out of range: the circuit has classical bits 0 to 1",
    ),
    (lambda c: c.measure([0, 1], [0]), "equally long"),
    (lambda c: c.measure([0, 5], [0, 1]), "qubit 5 of measure"),
    (lambda c: c.u(Parameter("t"), 0.1, math.nan, 0), "angle of u"),
    (lambda c: c.rx(Parameter("t"), 7), "qubit 7 of rx"),
    (lambda c: c.u(Parameter("t"), Parameter("t"), 0.1, 0), "another Parameter named 't'"),
    (lambda c: c.if_(5, 1), "classical bit 5 of a condition"),
    (lambda c: c.if_(0, "1"), "compared with 0 to 1; got '1'"),
    (lambda c: c.if_([0, 1], 4), "2 classical bits can be compared with 0 to 3; got 4"),
    (lambda c: c.append(GATES["x"], [0], condition=Condition((7,), 1)), "classical bit 7"),
    (lambda c: c.append(GATES["x"], [0], condition=Condition(7, 1)), "classical bit 7"),
    (lambda c: c.append(GATES["x"], [0], condition=(0, 1)), r"a condition is a Condition, .* got \(0, 1\)"),
    (lambda c: c.append(GATES["x"], [0], condition=1), "a condition is a Condition, .* got 1"),
    (lambda c: c.append(GATES["rx"], [0], 0.3), r"the angles of rx are a list, append\(.*; got 0.3"),
    (lambda c: c.append(GATES["rx"], [0], Parameter("t")), "the angles of rx are a list, .* got Parameter"),
    (lambda c: c.append(GATES["rx"], [0], None), "the angles of rx are a list, .* got None"),
    (lambda c: c.initialize(8), "basis state 8 is out of range"),
    (lambda c: c.barrier(0, 0), "must be different"),
    (lambda c: c.compose(Circuit(4)), "has 4 qubits, more than the 3"),
    (lambda c: c.compose(Circuit(2), [0]), "has 2 qubits; 1 were given"),
    (lambda c: c.compose(Circuit(2), [0, 3]), "qubit 3 of compose is out of range"),
    (lambda c: c.compose(Circuit(2), 1), "has 2 qubits; 1 were given"),
    (lambda c: c.compose(Circuit(1), 1.5), "qubit of compose must be an int; got 1.5"),
    (lambda c: c.h(np.array(1.0)), r"qubit of h must be an int; got array\(1\.\)"),
    (lambda c: c.compose(Circuit(1, 3)), "3 classical bits, more than the 2"),
    (lambda c: c.repeat(-1), "int >= 0 times; got -1"),
    (lambda c: c.power(0.5), "int power; got 0.5"),
    (lambda c: c.controlled(-1), "number of controls"),
    (lambda c: Circuit(-1), "number of qubits must be an int >= 0; got -1"),
    (lambda c: Circuit(2.0), "got 2.0"),
    (lambda c: Circuit(1, "1"), "number of classical bits"),
]


@pytest.mark.parametrize(("call", "message"), circuit_errors)
def test_wrong_calls_raise_at_once_and_add_nothing(call: object, message: str) -> None:
    circuit = Circuit(3, 2).h(0)
    with pytest.raises(CircuitError, match=message):
        call(circuit)  # type: ignore[operator]
    assert circuit == Circuit(3, 2).h(0)
    assert circuit.num_parameters == 0


@pytest.mark.parametrize("number", [np.array(1), np.array(1, ">i8"), np.int8(1), np.uint64(1)], ids=repr)
def test_numbers_of_wires_may_be_arrays_without_axes(number: Any) -> None:
    def built(q: Any) -> Circuit:
        circuit = Circuit(3, 2).h(q).cx(q, 2).cx([0, 2], q).measure(q, q).reset(q).barrier(q).initialize(1, q)
        circuit.unitary(np.eye(2), q).mcx(q, 2).pauli_rotation(0.3, "X", q).depolarizing(0.1, q)
        with circuit.if_(q, 1):
            circuit.x(q)
        return circuit.compose(Circuit(1).h(0), q)

    assert built(number) == built(1)


def test_errors_of_empty_circuits_say_so() -> None:
    with pytest.raises(CircuitError, match="the circuit has no qubits"):
        Circuit(0).h(0)
    with pytest.raises(CircuitError, match="the circuit has no classical bits"):
        Circuit(1).measure(0, 0)


def test_two_parameters_of_one_name_are_refused() -> None:
    circuit = Circuit(1).rx(Parameter("t"), 0)
    with pytest.raises(CircuitError, match="another Parameter named 't'"):
        circuit.rx(Parameter("t"), 0)
    with pytest.raises(CircuitError, match="another Parameter named 't'"):
        circuit.compose(Circuit(1).ry(2 * Parameter("t"), 0))
    assert len(circuit) == 1


def test_parameters_come_in_the_order_that_is_given_or_it_is_refused() -> None:
    a, b, v = Parameter("a"), Parameter("b"), ParameterVector("v", 2)
    circuit = Circuit(1).rx(a, 0).rz(v[0], 0).ry(b, 0).rz(v[1], 0)
    wanted = (v[0], v[1], Parameter("c"), b, a)
    ordered = circuit.with_order(wanted)
    assert ordered.parameters == wanted
    values = {"a": 0.1, "b": 0.2, "v": [0.3, 0.4]}
    np.testing.assert_allclose(ordered.to_matrix([0.3, 0.4, 9.0, 0.2, 0.1]), circuit.to_matrix(values), atol=1e-15)
    with pytest.raises(CircuitError, match=r"the circuit uses b, v\[1\], which the order lacks"):
        circuit.with_order([a, v[0]])
    for order in ([v[1], v[0], a, b], [v[0], a, v[1], b], [a, a, b, *v]):
        with pytest.raises(CircuitError, match="each parameter comes once, and the elements of a ParameterVector"):
            circuit.with_order(order)


def test_measure_all_uses_equal_numbers_and_overwrites_nothing() -> None:
    assert Circuit(2).measure_all() == Circuit(2, 2).measure(0, 0).measure(1, 1)
    assert Circuit(2, 3).measure_all() == Circuit(2, 3).measure(0, 0).measure(1, 1)
    mid = Circuit(2, 1).measure(0, 0).measure_all()
    assert mid.num_clbits == 3
    assert [instruction.clbits for instruction in mid] == [(0,), (1,), (2,)]


def test_barriers_cover_all_qubits_by_default() -> None:
    assert Circuit(3).barrier()[0].qubits == (0, 1, 2)
    assert Circuit(3).barrier(2, 0)[0].qubits == (2, 0)
    assert Circuit(3).barrier(range(2))[0].qubits == (0, 1)


def test_initialize_takes_basis_product_and_amplitudes() -> None:
    plus = np.array([1, 1]) / math.sqrt(2)
    circuit = Circuit(2).initialize("10").initialize(2).initialize([plus, [0, 1]]).initialize(plus, 1)
    assert circuit[0] == circuit[1]
    assert circuit[2].gate.data.shape == (2, 2)
    assert circuit[3].qubits == (1,)


# Conditions.


def test_if_and_else_blocks_set_conditions() -> None:
    circuit = Circuit(2, 2)
    with circuit.if_([1, 0], 2) as else_:
        circuit.x(0).rx(0.1, [0, 1])
        with circuit.if_(0, 1):
            circuit.z(1)
    with else_:
        circuit.h(0)
    circuit.h(1)
    outer, inner = Condition((1, 0), 2), Condition((0,), 1)
    conditions = [instruction.condition for instruction in circuit]
    assert conditions == [(outer,)] * 3 + [(outer, inner), (outer._replace(equal=False),), ()]


def test_append_takes_one_or_more_conditions() -> None:
    first, second = Condition((0,), 1), Condition((1,), 0, equal=False)
    circuit = Circuit(1, 2).append(GATES["x"], 0, condition=first)
    circuit.append(GATES["x"], 0, condition=[first, second])
    assert circuit[0].condition == (first,)
    assert circuit[1].condition == (first, second)


def test_condition_reads_its_first_bit_as_the_lowest() -> None:
    condition = Condition((2, 0), 1)
    assert condition.holds((0, 1, 1))
    assert not condition.holds((1, 1, 0))
    assert condition._replace(equal=False).holds((1, 1, 0))


def test_a_block_cannot_change_its_own_test() -> None:
    circuit = Circuit(2, 2)
    with circuit.if_(0, 1) as else_:
        circuit.measure(0, 1).measure(0, 0)
        with pytest.raises(CircuitError, match="x depends on classical bit 0"):
            circuit.x(0)
    with pytest.raises(CircuitError, match="the else block depends on classical bit 0"), else_:
        pass
    circuit.x(0)
    assert [len(instruction.condition) for instruction in circuit] == [1, 1, 0]


def test_else_must_follow_its_if() -> None:
    circuit = Circuit(1, 1)
    with circuit.if_(0, 1) as else_:
        circuit.x(0)
    circuit.h(0)
    with pytest.raises(CircuitError, match="right after its if"), else_:
        pass


def test_an_exception_in_a_block_closes_it() -> None:
    circuit = Circuit(1, 1)
    with pytest.raises(RuntimeError), circuit.if_(0, 1):
        raise RuntimeError
    assert circuit.x(0)[0].condition == ()


def test_composing_inside_a_block_adds_its_condition() -> None:
    circuit, part = Circuit(2, 1), Circuit(1).h(0).x(0)
    with circuit.if_(0, 1):
        circuit.compose(part, [1], inplace=True)
    assert [i.condition for i in circuit] == [(Condition((0,), 1),)] * 2
    assert [i.qubits for i in circuit] == [(1,), (1,)]


# Reading.


@few
@given(circuits(parameters=PARAMETERS, num_clbits=2), st.integers(0, 12), st.integers(0, 12))
def test_slices_are_circuits_that_join_to_the_whole(circuit: Circuit, i: int, j: int) -> None:
    i, j = sorted((i, j))
    parts = circuit[:i], circuit[i:j], circuit[j:]
    assert parts[0].compose(parts[1]).compose(parts[2]) == circuit
    assert list(parts[1]) == list(circuit)[i:j]
    used = {p for k in parts[1] for q in k.params if not isinstance(q, float) for p in q.terms}
    assert set(parts[1].parameters) == used
    assert circuit[::-1][::-1] == circuit


def test_indexing_gives_instructions() -> None:
    circuit = Circuit(2).h(0).cx(0, 1)
    assert circuit[-1] == Instruction(GATES["cx"], (0, 1))
    assert list(circuit.instructions) == [circuit[0], circuit[1]]
    with pytest.raises(IndexError):
        circuit[2]


@few
@given(circuits(parameters=PARAMETERS, num_clbits=2))
def test_pickling_and_copying_give_equal_circuits(circuit: Circuit) -> None:
    for again in (pickle.loads(pickle.dumps(circuit)), circuit.copy(), copy.deepcopy(circuit)):
        assert again == circuit
        assert again.parameters == circuit.parameters
        again.h(0)
        assert again != circuit


def test_equality_sees_every_difference() -> None:
    circuit = Circuit(2, 1).rx(0.1, 0)
    assert circuit == Circuit(2, 1, name="other").rx(0.1, 0)
    for other in (
        Circuit(3, 1).rx(0.1, 0),
        Circuit(2, 2).rx(0.1, 0),
        Circuit(2, 1).rx(0.2, 0),
        Circuit(2, 1).rx(0.1, 1),
        Circuit(2, 1).ry(0.1, 0),
        Circuit(2, 1),
    ):
        assert circuit != other
    assert circuit != "circuit"
    with pytest.raises(TypeError, match="unhashable"):
        hash(circuit)


def test_depth_counts_the_longest_chain() -> None:
    assert Circuit(3).depth() == 0
    assert Circuit(3).h(range(3)).depth() == 1
    assert Circuit(3).h(0).cx(0, 1).cx(1, 2).depth() == 3
    assert Circuit(3).h(0).barrier().h(1).depth() == 2
    assert Circuit(3).h(0).h(1).gphase(0.3).depth() == 1
    assert Circuit(2, 1).measure(0, 0).append(GATES["x"], 1, condition=Condition((0,), 1)).depth() == 2


def test_depth_equals_qiskits_on_unitary_circuits() -> None:
    qiskit = pytest.importorskip("qiskit")
    rng = np.random.default_rng(5)
    circuit, theirs = Circuit(5), qiskit.QuantumCircuit(5)
    for _ in range(60):
        first, second = map(int, rng.permutation(5)[:2])
        for target in (circuit, theirs):
            target.cx(first, second)
            target.h(first)
    assert circuit.depth() == theirs.depth()


def test_counts_and_size() -> None:
    circuit = Circuit(2).h(0).h(1).barrier().cx(0, 1)
    assert circuit.count_ops() == {"h": 2, "barrier": 1, "cx": 1}
    assert circuit.size == 3
    assert len(circuit) == 4


def test_global_phase_adds_up() -> None:
    a = Parameter("a")
    assert Circuit(1).gphase(0.1).h(0).gphase(a).global_phase == a + 0.1
    assert Circuit(1).global_phase == 0.0


def test_repr_says_how_big() -> None:
    circuit = Circuit(2, 1, name="bell").h(0).rx(Parameter("a"), 1)
    assert repr(circuit) == "<Circuit 'bell': 2 qubits, 1 classical bits, 2 instructions, 1 parameters>"


def test_what_is_no_circuit_is_named() -> None:
    circuit: Any = Circuit(2, 1)
    for take in (circuit.compose, circuit.tensor):
        with pytest.raises(TypeError, match=r"takes a qdist\.Circuit, not int$"):
            take(3)
    qiskit = pytest.importorskip("qiskit")
    with pytest.raises(TypeError, match=r"not QuantumCircuit: qdist\.interop\.qiskit\.from_qiskit"):
        circuit.compose(qiskit.QuantumCircuit(2))


def test_gates_go_inside_of_a_block_not_on_it() -> None:
    block: Any = Circuit(2, 1).if_(0, 1)
    with pytest.raises(AttributeError, match=r"has no 'x': .*`with circuit\.if_"):
        block.x(0)


def test_a_path_is_no_program() -> None:
    given: Any = Path("bell.qasm")
    with pytest.raises(TypeError, match="not PosixPath; from_file takes a path"):
        Circuit.from_qasm(given)
