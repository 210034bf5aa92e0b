"""from_qiskit and to_qiskit against Qiskit's own matrices: gates, parameters, control flow, registers, round trips."""

import numpy as np
import pytest

pytest.importorskip("qiskit")

from own_gate import OnlyItsMatrix
from qiskit import transpile
from qiskit.circuit import ClassicalRegister, Parameter, ParameterVector, QuantumCircuit, QuantumRegister
from qiskit.circuit.classical import expr, types
from qiskit.circuit.library import (
    CUGate,
    DiagonalGate,
    GlobalPhaseGate,
    HalfAdderGate,
    HGate,
    MCMTGate,
    MCPhaseGate,
    MCXGate,
    ModularAdderGate,
    PauliEvolutionGate,
    PauliGate,
    PermutationGate,
    QFTGate,
    RXGate,
    StatePreparation,
    UnitaryGate,
    XGate,
    YGate,
    ZGate,
    get_standard_gate_name_mapping,
)
from qiskit.circuit.random import random_circuit
from qiskit.quantum_info import Operator, SparsePauliOp, Statevector, random_unitary
from qiskit.synthesis import LieTrotter, SuzukiTrotter
from qiskit.transpiler import CouplingMap

import qdist as qd
from qdist.circuit import CircuitError
from qdist.circuit.gates import diagonal_gate, unitary_gate
from qdist.interop.qiskit import Backend, from_qiskit, to_qiskit
from qdist.interop.qiskit.conversion.reading import Reader
from qdist.state import reference

GATES = {
    name: gate for name, gate in get_standard_gate_name_mapping().items() if name not in ("measure", "reset", "delay")
}

MCMT_BASES = [XGate(), YGate(), ZGate(), HGate(), RXGate(0.3)]


def check(circuit):
    """Both ways give Qiskit's matrix with its phase."""
    ours = from_qiskit(circuit)
    expected = Operator(circuit).data
    np.testing.assert_allclose(reference.unitary(ours), expected, atol=1e-10)
    np.testing.assert_allclose(Operator(to_qiskit(ours)).data, expected, atol=1e-10)
    return ours


@pytest.mark.parametrize("name", GATES)
def test_every_standard_gate_and_its_controlled_and_inverse_forms(name):
    kind = GATES[name]
    rng = np.random.default_rng(3)
    gate = type(kind)(*rng.uniform(-3, 3, len(kind.params)))
    # On qubits out of order, after gates that make a wrong order or phase visible.
    circuit = QuantumCircuit(gate.num_qubits + 2)
    order = [int(q) for q in rng.permutation(gate.num_qubits + 2)]
    circuit.append(gate, order[: gate.num_qubits])
    ours = check(circuit)
    if name != "xx_minus_yy":
        assert len(ours) == 1, "it is in our table"
    circuit.append(gate.inverse(), order[: gate.num_qubits][::-1])
    if gate.num_qubits <= 3 and name != "global_phase":
        circuit.append(gate.control(1, ctrl_state=0), order[: gate.num_qubits + 1])
        circuit.append(gate.control(2, annotated=True), order[: gate.num_qubits + 2])
    check(circuit)


def test_gates_of_the_library_with_data():
    rng = np.random.default_rng(1)
    circuit = QuantumCircuit(4, global_phase=0.7)
    circuit.append(UnitaryGate(random_unitary(8, seed=1)), [2, 0, 3])
    circuit.append(UnitaryGate(random_unitary(2, seed=2)).control(2, ctrl_state=1), [3, 1, 0])
    circuit.append(PermutationGate([2, 3, 1, 0]), [0, 2, 1, 3])
    circuit.append(DiagonalGate(list(np.exp(1j * rng.uniform(0, 6, 4)))), [3, 1])
    circuit.append(PauliGate("XZY"), [1, 3, 0])
    circuit.append(MCPhaseGate(0.4, 3), [2, 0, 1, 3])
    circuit.append(StatePreparation([0.6, 0.8j]), [2])
    circuit.append(QFTGate(3), [0, 3, 2])
    circuit.append(QFTGate(2).power(3, annotated=True), [1, 2])
    circuit.mcx([0, 1, 2], 3, ctrl_state=5)
    circuit.append(circuit.copy_empty_like().to_gate(), range(4))
    check(circuit)


@pytest.mark.parametrize("state", [0, 1])
def test_the_controlled_u_of_four_angles_in_all_its_forms(state):
    gate = CUGate(0.3, -0.4, 1.5, 0.6, ctrl_state=state)
    forms = [gate, gate.inverse(), gate.to_mutable(), gate.power(2, annotated=True), gate.inverse().to_mutable()]
    forms += [gate.control(1, ctrl_state=other, annotated=kind) for other in (0, 1) for kind in (False, True)]
    for form in forms:
        circuit = QuantumCircuit(4)
        circuit.append(form, [3, 0, 2][: form.num_qubits])
        ours = check(circuit)
        assert len(ours) <= 2, "not taken apart"
    angles = ParameterVector("t", 4)
    circuit = QuantumCircuit(2)
    circuit.append(CUGate(*angles, ctrl_state=state), [1, 0])
    bound = from_qiskit(circuit).bind([0.3, -0.4, 1.5, 0.6])
    np.testing.assert_allclose(
        reference.unitary(bound), Operator(circuit.assign_parameters([0.3, -0.4, 1.5, 0.6])).data, atol=1e-10
    )


@pytest.mark.parametrize("state", [None, 0, 2])
def test_controlled_gates_on_more_qubits_than_their_base_gate_has(state):
    """One base gate for each of several targets, and qubits that are there to help."""
    gates = [MCMTGate(kind, 2, targets, ctrl_state=state) for kind in MCMT_BASES for targets in (1, 2, 3)]
    gates += [gate.control(1, ctrl_state=0) for gate in gates[:3]] + [gate.inverse() for gate in gates]
    gates += [ModularAdderGate(1), ModularAdderGate(2), ModularAdderGate(3), HalfAdderGate(2)]
    for gate in gates:
        circuit = QuantumCircuit(gate.num_qubits)
        circuit.append(gate, np.random.default_rng(5).permutation(gate.num_qubits).tolist())
        check(circuit)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("mode", "controls"), [("v-chain", 3), ("v-chain", 4), ("recursion", 5)])
def test_controlled_gates_with_ancillas(mode, controls):
    """They undo what they do to ancillas, which begin with |0>."""
    ancillas = MCXGate.get_num_ancilla_qubits(controls, mode)
    circuit = QuantumCircuit(controls + 1 + ancillas)
    for qubit in range(controls + 1):
        circuit.ry(0.4 + 0.3 * qubit, qubit)
    expected = circuit.copy()
    expected.append(XGate().control(controls), range(controls + 1))
    circuit.mcx(list(range(controls)), controls, list(range(controls + 1, circuit.num_qubits)), mode=mode)
    found = qd.simulate(from_qiskit(circuit), dtype="complex128").amplitudes()
    np.testing.assert_allclose(found, Statevector(expected).data, atol=1e-10)


def test_phases_in_all_their_forms():
    phase = GlobalPhaseGate(0.4)
    for gate in (phase, phase.power(0.5), phase.power(-1), phase.power(2), phase.inverse(), phase.power(0.5).inverse()):
        forms = [gate, gate.power(0.5, annotated=True), gate.power(2, annotated=True)]
        forms += [gate.control(count, ctrl_state=0) for count in (1, 2)] + [gate.control(2, ctrl_state=2)]
        forms += [gate.control(2, annotated=True), gate.power(0.3, annotated=True).control(1, annotated=True)]
        for form in forms:
            circuit = QuantumCircuit(3)
            circuit.h(1)
            circuit.append(form, [2, 0][: form.num_qubits])
            check(circuit)


def test_our_gates_on_no_qubits_become_phases():
    circuit = qd.Circuit(2)
    phase = np.exp(0.4j)
    for gate in (unitary_gate(np.array([[phase]])), diagonal_gate(np.array([phase]))):
        circuit.append(gate, ())
        circuit.append(gate.controlled(1, 0), (1,))
        circuit.append(gate.controlled(2, 1), (1, 0))
    np.testing.assert_allclose(Operator(to_qiskit(circuit)).data, reference.unitary(circuit), atol=1e-12)


@pytest.mark.parametrize("synthesis", [LieTrotter(reps=3), SuzukiTrotter(order=2), LieTrotter()])
def test_pauli_evolutions(synthesis):
    operator = SparsePauliOp(["XIZ", "YYI", "III", "ZZZ"], [0.3, -0.7, 0.2, 1.1])
    gate = PauliEvolutionGate(operator, time=0.37, synthesis=synthesis)
    circuit = QuantumCircuit(3)
    circuit.append(gate, [2, 0, 1])
    decomposed = QuantumCircuit(3)
    decomposed.append(gate.definition.to_gate(), [2, 0, 1])
    ours = from_qiskit(circuit)
    np.testing.assert_allclose(reference.unitary(ours), Operator(decomposed).data, atol=1e-10)
    if type(synthesis) is LieTrotter:
        assert len(ours) == 4 * synthesis.reps, "each term is one rotation"


def test_parameters_keep_names_and_vectors_and_affine_expressions():
    theta, phi = ParameterVector("θ", 3), Parameter("phi")
    circuit = QuantumCircuit(2, global_phase=phi / 2)
    circuit.ry(theta[2], 0)
    circuit.crz(2 * theta[0] - 0.5 * phi + 0.25, 0, 1)
    circuit.append(PauliEvolutionGate(SparsePauliOp(["XY"], [0.5]), time=theta[1]), [0, 1])
    ours = from_qiskit(circuit)
    assert [one.name for one in ours.parameters] == ["phi", "θ[0]", "θ[1]", "θ[2]"]
    values = {"phi": 0.3, "θ[0]": -0.4, "θ[1]": 1.2, "θ[2]": 0.9}
    bound = circuit.assign_parameters({one: values[one.name] for one in circuit.parameters})
    found = reference.unitary(ours.bind([values[one.name] for one in ours.parameters]))
    np.testing.assert_allclose(found, Operator(bound).data, atol=1e-12)
    back = to_qiskit(ours)
    assert {one.name for one in back.parameters} == set(values)
    again = back.assign_parameters({one: values[one.name] for one in back.parameters})
    np.testing.assert_allclose(Operator(again).data, found, atol=1e-12)


def blocks(a, b):
    """Gates of two parameters: a plain one, one of a gate in a gate, one with a phase, one that maps parameters."""
    plain = QuantumCircuit(2)
    plain.rx(a, 0)
    plain.crz(2 * b - a, 0, 1)
    plain.h(1)
    nested = QuantumCircuit(2)
    nested.append(plain.to_gate(), [1, 0])
    nested.ry(b, 0)
    one = QuantumCircuit(1, global_phase=a)
    one.rx(b, 0)
    controlled = QuantumCircuit(2)
    controlled.append(one.to_gate().control(1, ctrl_state=0), [1, 0])
    controlled.cp(a * b, 0, 1)
    mapped = plain.to_gate({a: a - 0.3, b: 2 * b})
    return [plain.to_gate(), nested.to_gate(), one.to_gate(), controlled.to_gate(), mapped]


ASSIGNED = {
    "values": lambda a, b: [{a: 0.7, b: -1.2}],
    "one value": lambda a, b: [{b: 0.7}],
    "scaled": lambda a, b: [{a: 2 * a}],
    "in another order": lambda a, b: [dict(zip([b, a], ParameterVector("c", 2)))],
    "to one": lambda a, b: [{a: 3 * b}],
    "in steps": lambda a, b: [{a: 2 * a}, {b: a - 1}, {a: 0.3}],
    "there and back": lambda a, b: [{a: 2 * a}, {a: a / 2}],
    "nothing": lambda a, b: [],
}


@pytest.mark.parametrize("steps", ASSIGNED)
@pytest.mark.parametrize("block", range(5))
def test_parameters_of_controlled_gates_are_those_that_were_assigned(block, steps):
    """Qiskit assigns them to the definition of a controlled gate and not to that of its base gate."""
    a, b = Parameter("a"), Parameter("b")
    gate = blocks(a, b)[block]
    for controls, state in ((1, 1), (1, 0), (2, 1)):
        controlled = gate.control(controls, ctrl_state=state)
        qubits = range(controlled.num_qubits)
        inner, circuit = QuantumCircuit(len(qubits)), QuantumCircuit(len(qubits))
        inner.append(controlled, qubits)
        circuit.append(controlled, qubits[::-1])
        circuit.append(controlled.inverse(), qubits)
        circuit.append(inner.to_gate(), qubits[::-1])
        circuit.append(gate.control(controls, annotated=True), qubits)
        for step in ASSIGNED[steps](a, b):
            circuit = circuit.assign_parameters({p: value for p, value in step.items() if p in circuit.parameters})
        ours = from_qiskit(circuit)
        assert {p.name for p in ours.parameters} == {p.name for p in circuit.parameters}
        values = dict(zip([p.name for p in circuit.parameters], [0.4, -0.9]))
        bound = circuit.assign_parameters(values)
        for one in (ours.bind(values), from_qiskit(bound)):
            np.testing.assert_allclose(reference.unitary(one), Operator(bound).data, atol=1e-10)


def test_controlled_gates_of_whose_parameters_none_was_assigned_stay_few():
    a, b = Parameter("a"), Parameter("b")
    circuit = QuantumCircuit(5)
    circuit.append(blocks(a, b)[0].control(3), range(5))
    assert len(from_qiskit(circuit)) == 3


def test_products_and_functions_of_parameters_become_ours_and_come_back():
    x, y = Parameter("x"), ParameterVector("y", 2)
    circuit = QuantumCircuit(2)
    for k, angle in enumerate(
        (
            2 * (np.pi - x) * (np.pi - y[1]),
            1.5 / x - y[0] / x,
            x.sin() * y[1].cos() - (x * y[0]).tan(),
            (x / 3).arcsin() + (x / 4).arccos() - y[0].arctan(),
            y[0].exp() - x.log(),
            (x - y[0]) ** 2 + y[1] ** 0.5,
        )
    ):
        circuit.rx(angle, k % 2)
        circuit.cp(angle / 2, 0, 1)
    ours = from_qiskit(circuit)
    values = {"x": 0.7, "y[0]": 0.4, "y[1]": 1.3}
    bound = circuit.assign_parameters({one: values[one.name] for one in circuit.parameters})
    found = reference.unitary(ours.bind([values[one.name] for one in ours.parameters]))
    np.testing.assert_allclose(found, Operator(bound).data, atol=1e-12)
    back = to_qiskit(ours)
    again = back.assign_parameters({one: values[one.name] for one in back.parameters})
    np.testing.assert_allclose(Operator(again).data, found, atol=1e-12)
    mine = qd.Circuit(1)
    t = qd.Parameter("t")
    mine.rx(np.tanh(t) + np.sqrt(t), 0)
    bound = to_qiskit(mine).assign_parameters([0.8])
    np.testing.assert_allclose(Operator(bound).data, _rx(np.tanh(0.8) + np.sqrt(0.8)), atol=1e-12)


def test_what_has_no_counterpart_is_refused_by_name():
    x = Parameter("x")
    circuit = QuantumCircuit(1, 1)
    circuit.rx(x.abs(), 0)
    with pytest.raises(CircuitError, match=r"abs\(x\) has no counterpart.*assign_parameters"):
        from_qiskit(circuit)
    loop = QuantumCircuit(1, 1)
    with loop.while_loop((loop.clbits[0], 0)):
        loop.h(0)
    with pytest.raises(CircuitError, match="while_loop"):
        from_qiskit(loop)
    for jump in ("break_loop", "continue_loop"):
        left = QuantumCircuit(2, 1)
        with left.for_loop(range(3)):
            left.measure(0, 0)
            with left.if_test((left.clbits[0], 1)):
                getattr(left, jump)()
            left.h(1)
        with pytest.raises(CircuitError, match=rf"^{jump}: .* without jumps out of loops .* if_test"):
            from_qiskit(left)
    stored = QuantumCircuit(1, 1)
    stored.add_var("flag", expr.lift(stored.clbits[0]))
    with pytest.raises(CircuitError, match=r"^store: .* without classical variables"):
        from_qiskit(stored)
    shifted = QuantumCircuit(QuantumRegister(1), ClassicalRegister(3, "c"))
    with shifted.if_test(expr.less(shifted.cregs[0], 3)):
        shifted.x(0)
    with pytest.raises(CircuitError, match="the condition"):
        from_qiskit(shifted)


def test_initialisations():
    for state in ("1+0", [0.5, 0.5j, -0.5, 0.5], 2):
        circuit = QuantumCircuit(3)
        circuit.initialize(state, [2, 0, 1] if isinstance(state, str) else [2, 0])
        found = qd.simulate(from_qiskit(circuit), dtype="complex128").amplitudes()
        np.testing.assert_allclose(found, Statevector(circuit).data, atol=1e-12)
        again = qd.simulate(from_qiskit(to_qiskit(from_qiskit(circuit))), dtype="complex128").amplitudes()
        np.testing.assert_allclose(again, found, atol=1e-12)


def outcomes(circuit):
    return qd.compile(from_qiskit(circuit)).counts(200, seed=1)


def test_control_flow_becomes_conditions():
    """Every value of a two-bit register takes the path that Qiskit's control flow says."""
    for value in range(4):
        measured, flag, result = ClassicalRegister(2, "m"), ClassicalRegister(1, "f"), ClassicalRegister(4, "r")
        circuit = QuantumCircuit(QuantumRegister(6, "q"), measured, flag, result)
        for bit in range(2):
            if value >> bit & 1:
                circuit.x(bit)
        circuit.measure([0, 1], measured)
        with circuit.if_test((measured, 2)) as other:
            circuit.x(2)
        with other:
            circuit.x(3)
        with circuit.switch(measured) as case:
            with case(0, 1):
                circuit.x(4)
            with case(case.DEFAULT):
                circuit.x(5)
        test = expr.logic_and(measured[0], expr.logic_not(measured[1]))
        with circuit.for_loop(range(3)), circuit.if_test(test):
            circuit.x(2)
        circuit.measure([2, 3, 4, 5], result)
        bits = [(value == 2) ^ (value == 1), value != 2, value < 2, value >= 2]
        expected = "".join(str(int(bit)) for bit in reversed(bits)) + "0" + format(value, "02b")
        assert outcomes(circuit) == {expected: 200}
        assert outcomes(to_qiskit(from_qiskit(circuit), like=circuit)) == {expected: 200}


def test_loops_bind_their_parameter():
    angle = Parameter("a")
    circuit = QuantumCircuit(1)
    body = QuantumCircuit(1)
    body.rx(angle * 0.1, 0)
    circuit.for_loop(range(1, 4), angle, body, [0], [])
    np.testing.assert_allclose(
        reference.unitary(from_qiskit(circuit)), Operator.from_label("I").data @ _rx(0.6), atol=1e-12
    )


@pytest.mark.parametrize("vector", [False, True])
def test_after_a_loop_its_parameter_stands_for_what_it_did_before(vector):
    """Loops in loops over the same parameter, which the circuit has as well, before, between and after them."""
    angle, other = ParameterVector("p", 2) if vector else (Parameter("p"), Parameter("q"))
    gate = QuantumCircuit(1)
    gate.rz(angle * 0.5, 0)
    gate.rx(other, 0)

    def turned(circuit, value, again=other):
        circuit.rx(value, 0)
        circuit.append(gate.to_gate({angle: value, other: again}), [0])
        circuit.append(gate.to_gate({angle: value, other: again}).control(1), [1, 0])

    for before in (False, True):
        circuit, expected = QuantumCircuit(2), QuantumCircuit(2)
        innermost, body = QuantumCircuit(2), QuantumCircuit(2)
        turned(innermost, angle)
        body.ry(angle, 0)
        body.for_loop([3, 5], angle, innermost, [0, 1], [])
        turned(body, angle)
        if before:
            turned(circuit, angle)
            turned(expected, angle)
        circuit.for_loop([], angle, body, [1, 0], [])
        circuit.for_loop(range(1, 3), angle, body, [0, 1], [])
        turned(circuit, angle)
        for outer in (1, 2):
            expected.ry(outer, 0)
            for inner in (3, 5):
                turned(expected, inner)
            turned(expected, outer)
        turned(expected, angle)
        ours = from_qiskit(circuit)
        values = dict(zip([one.name for one in expected.parameters], (0.9, -0.4)))
        np.testing.assert_allclose(
            reference.unitary(ours.bind(values)), Operator(expected.assign_parameters(values)).data, atol=1e-12
        )


def test_loops_over_a_classical_variable_that_no_test_needs():
    pytest.importorskip("qiskit", minversion="2.6")
    expected = QuantumCircuit(1)
    expected.rx(0.6, 0)
    variable = expr.Var.new("i", types.Uint(8))
    body = QuantumCircuit(1, inputs=[variable])
    body.rx(0.2, 0)
    circuit = QuantumCircuit(1)
    circuit.for_loop(range(3), variable, body, [0], [])
    np.testing.assert_allclose(reference.unitary(from_qiskit(circuit)), Operator(expected).data, atol=1e-12)


def _rx(angle):
    circuit = QuantumCircuit(1)
    circuit.rx(angle, 0)
    return Operator(circuit).data


def test_registers_and_layouts():
    circuit = QuantumCircuit(
        QuantumRegister(2, "a"), QuantumRegister(1, "b"), ClassicalRegister(2, "out"), name="named"
    )
    circuit.h(0)
    circuit.cx(0, 2)
    circuit.measure([0, 2], [1, 0])
    ours = from_qiskit(circuit)
    assert ours.name == "named"
    back = to_qiskit(ours, like=circuit)
    assert back == circuit
    assert [(one.name, one.size) for one in back.qregs + back.cregs] == [("a", 2), ("b", 1), ("out", 2)]
    with pytest.raises(CircuitError, match="like has 1 qubits"):
        to_qiskit(ours, like=QuantumCircuit(1))


@pytest.mark.parametrize(("seed", "qubits"), [(0, 4), (1, 5), (2, 7)])
def test_transpiled_circuits_are_the_same_on_virtual_qubits(seed, qubits):
    """On a line of a device's qubits, so that routing moves them, and with ancillas."""
    circuit = random_circuit(4, 5, max_operands=3, seed=seed)
    line = CouplingMap.from_line(qubits)
    for level in (0, 1, 3):
        routed = transpile(
            circuit, basis_gates=["cx", "u"], coupling_map=line, optimization_level=level, seed_transpiler=seed
        )
        assert from_qiskit(routed).num_qubits == qubits, "physical ones"
        ours = from_qiskit(routed, virtual=True)
        assert ours.num_qubits == 4
        np.testing.assert_allclose(reference.unitary(ours), Operator(circuit).data, atol=1e-8)
    assert from_qiskit(circuit, virtual=True) == from_qiskit(circuit), "it has no layout"


@pytest.mark.parametrize("seed", range(6))
def test_random_circuits(seed):
    circuit = random_circuit(5, 6, max_operands=4, seed=seed)
    check(circuit)


def test_many_gates_take_no_call_of_qiskits_definitions(monkeypatch):
    circuit = QuantumCircuit(10)
    for k in range(2000):
        circuit.rx(0.1 * k, k % 10)
        circuit.cx(k % 10, (k + 1) % 10)
    monkeypatch.setattr(Reader, "_defined", lambda *args: pytest.fail("taken apart"))
    assert len(from_qiskit(circuit)) == 4000


def test_blocks_that_change_what_they_test_are_refused():
    """Conditions are tested by each instruction, so an else would see what the if has measured."""
    circuit = QuantumCircuit(2, 1)
    circuit.measure(0, 0)
    with circuit.if_test((circuit.clbits[0], 1)) as other:
        circuit.measure(1, 0)
    alone = from_qiskit(circuit)
    assert len(alone) == 2
    with other:
        circuit.x(0)
    with pytest.raises(CircuitError, match="classical bit 0 is tested by a block that measures into it"):
        from_qiskit(circuit)
    longer = QuantumCircuit(2, 1)
    with longer.if_test((longer.clbits[0], 0)):
        longer.measure(1, 0)
        longer.x(0)
    with pytest.raises(CircuitError, match="tests it anew"):
        from_qiskit(longer)


@pytest.mark.parametrize("qubits", [1, 2])
@pytest.mark.parametrize("controls", [0, 1])
def test_gates_of_ones_own_with_names_of_qiskits_are_written_by_their_matrices(qubits: int, controls: int) -> None:
    for name in (*GATES, "gphase", "rc3x", "iswapdg", "unitary", "diagonal"):
        gate = OnlyItsMatrix(name, random_unitary(1 << qubits, seed=len(name)).data).controlled(controls)
        circuit = qd.Circuit(gate.num_qubits).append(gate, range(gate.num_qubits))
        np.testing.assert_allclose(Operator(to_qiskit(circuit)).data, gate.matrix(), atol=1e-10, err_msg=name)


@pytest.mark.parametrize("name", ["diagonal", "measure", "barrier", "reset", "delay", "rx", "snapshot"])
def test_qiskit_gates_of_ones_own_are_read_by_their_definitions_whatever_their_names(name: str) -> None:
    inner = QuantumCircuit(2, name=name)
    inner.h(0)
    inner.cx(0, 1)
    inner.rz(0.3, 1)
    circuit = QuantumCircuit(2)
    circuit.append(inner.to_gate(), [1, 0])
    np.testing.assert_allclose(from_qiskit(circuit).to_matrix(), Operator(circuit).data, atol=1e-12)


def test_what_is_no_circuit_is_refused_with_the_way_to_make_one() -> None:
    circuit = QuantumCircuit(1)
    own = qd.Circuit(1)
    for given, way in (
        (own, r"not Circuit: to_qiskit\(circuit\) makes one"),
        (circuit.to_gate(), "not Gate: append it to one"),
        ("OPENQASM 3.0;", r"not str: qdist.Circuit.from_qasm\(text\) reads"),
        (Operator(circuit), "not Operator$"),
        (None, "not NoneType$"),
    ):
        with pytest.raises(TypeError, match=f"^from_qiskit takes a qiskit.QuantumCircuit, {way}"):
            from_qiskit(given)
        for run_input in (given, [circuit, given]):
            with pytest.raises(TypeError, match=f"^Backend.run takes a qiskit.QuantumCircuit, {way}"):
                Backend().run(run_input)
    with pytest.raises(TypeError, match="not list, one at a time"):
        from_qiskit([circuit])
    with pytest.raises(TypeError, match=r"^to_qiskit takes a qdist.Circuit, not QuantumCircuit: .*from_qiskit"):
        to_qiskit(circuit)
