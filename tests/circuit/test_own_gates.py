"""Gates of one's own, the matrix of a circuit, names from other libraries."""

import copy
import pickle

import numpy as np
import pytest

import qdist as qd
from qdist.circuit import Circuit, CircuitError, Gate, Parameter, generator_gate, lowered, matrix_gate
from qdist.circuit.drawing.scene import scene
from qdist.circuit.gate import NAMED
from qdist.circuit.gates import MEASURE
from qdist.state import reference

a, b = Parameter("a"), Parameter("b")
RNG = np.random.default_rng(5)


def hermitian(size: int) -> np.ndarray:
    matrix = RNG.normal(size=(size, size)) + 1j * RNG.normal(size=(size, size))
    return matrix + matrix.conj().T


def euler(t: float, s: float) -> np.ndarray:
    return np.array([[np.exp(1j * s) * np.cos(t), -np.sin(t)], [np.sin(t), np.exp(-1j * s) * np.cos(t)]])


def euler_derivative(k: int, t: float, s: float) -> np.ndarray:
    if k == 0:
        return np.array([[-np.exp(1j * s) * np.sin(t), -np.cos(t)], [np.cos(t), -np.exp(-1j * s) * np.sin(t)]])
    return np.array([[1j * np.exp(1j * s) * np.cos(t), 0], [0, -1j * np.exp(-1j * s) * np.cos(t)]])


SWAP = np.eye(4)[[0, 2, 1, 3]]


def partial_swap(t: float) -> np.ndarray:
    return np.cos(t) * np.eye(4) + 1j * np.sin(t) * SWAP


def partial_swap_derivative(k: int, t: float) -> np.ndarray:
    return -np.sin(t) * np.eye(4) + 1j * np.cos(t) * SWAP


def of_any_determinant(n: int) -> Gate:
    """V exp(i t D) V' exp(i s D'), whose determinant turns with both angles, as it does of a phase."""
    size = 1 << n
    (first, second), diagonals = (np.linalg.qr(hermitian(size))[0] for _ in range(2)), RNG.normal(size=(2, size))

    def factors(t: float, s: float) -> list[np.ndarray]:
        return [first, np.diag(np.exp(1j * t * diagonals[0])), second, np.diag(np.exp(1j * s * diagonals[1]))]

    def derivative(k: int, t: float, s: float) -> np.ndarray:
        found = factors(t, s)
        found[2 * k + 1] = found[2 * k + 1] * 1j * diagonals[k]
        return np.linalg.multi_dot(found)

    return matrix_gate(f"any{n}", lambda t, s: np.linalg.multi_dot(factors(t, s)), derivative, 2)


class Squeeze(Gate):
    """A subclass as a user writes it."""

    def __init__(self) -> None:
        super().__init__("squeeze", 1, 1)

    def matrix(self, *params: float) -> np.ndarray:
        return GATES_BY_MATRIX["euler"].matrix(params[0], 0.0)

    def derivative(self, k: int, *params: float) -> np.ndarray:
        return GATES_BY_MATRIX["euler"].derivative(0, params[0], 0.0)


GATES_BY_MATRIX = {
    "euler": matrix_gate("euler", euler, euler_derivative, 2),
    "partial_swap": matrix_gate("partial_swap", partial_swap, partial_swap_derivative),
    **{f"any{n}": of_any_determinant(n) for n in (1, 2, 3)},
    "commuting": generator_gate("commuting", np.kron([[0, 1], [1, 0]], [[0, 1], [1, 0]]) + 0.5 * np.eye(4)),
    "mixed": generator_gate("mixed", hermitian(4)),
    "wide": generator_gate("wide", hermitian(8)),
    "block": Circuit(2).ry(2 * a, 0).cx(0, 1).rz(a * b, 1).crx(b, 1, 0).to_gate("block"),
    "squeeze": Squeeze(),
}


@pytest.mark.parametrize("name", list(GATES_BY_MATRIX))
@pytest.mark.parametrize("angle", [0.7, 0.0])
def test_runs_and_gradients_are_those_of_the_matrix(name: str, angle: float) -> None:
    gate = GATES_BY_MATRIX[name]
    x, y = Parameter("x"), Parameter("y")
    params = [x, 0.3 * x + y][: gate.num_params]
    circuit = Circuit(4).h(range(4)).rx(0.3, 0).cx(0, 2).ry(y, 1)
    circuit.append(gate, list(range(gate.num_qubits))[::-1], params)
    circuit.append(gate.controlled(1, 0), [3, *range(gate.num_qubits)], params)
    inverse, negated = gate.inverse(tuple(params)) if name != "squeeze" else (gate, tuple(params))
    circuit.append(inverse, range(1, 1 + gate.num_qubits), negated)
    values = {"x": angle, "y": 0.4}
    observable = qd.PauliSum({"Z0 X1": 1.0, "Y2": 0.5, "Z3 X2": -0.7})
    program = qd.compile(circuit, dtype="complex128", device="cpu")
    np.testing.assert_allclose(program.run(values).amplitudes(), reference.state(circuit, values), atol=1e-12)
    value, gradient = program.value_and_grad(observable, values)
    assert value == pytest.approx(reference.expectation(circuit, observable, values), abs=1e-12)
    np.testing.assert_allclose(gradient, reference.gradient(circuit, observable, values), atol=1e-9)
    shifted = program.value_and_grad(observable, values, method="parameter-shift")[1]
    np.testing.assert_allclose(shifted, gradient, atol=1e-9)
    rows = np.array([[program.circuit.parameters.index(p) for p in circuit.parameters], [0.2, 0.9]])
    np.testing.assert_allclose(
        program.value_and_grad(observable, rows)[1],
        [program.value_and_grad(observable, row)[1] for row in rows],
        atol=1e-10,
    )


@pytest.mark.parametrize("name", [n for n in GATES_BY_MATRIX if n not in ("squeeze", "any1", "any2", "any3")])
def test_they_copy_pickle_draw_and_are_written(name: str) -> None:
    gate = GATES_BY_MATRIX[name]
    circuit = Circuit(3).append(gate, range(gate.num_qubits), [0.4, 0.6][: gate.num_params])
    again = pickle.loads(pickle.dumps(copy.deepcopy(circuit)))
    np.testing.assert_allclose(again.to_matrix(), circuit.to_matrix(), atol=1e-14)
    assert name in circuit.draw()
    np.testing.assert_allclose(Circuit.from_qasm(circuit.to_qasm()).to_matrix(), circuit.to_matrix(), atol=1e-11)
    assert lowered(lowered(circuit)) == lowered(circuit)


@pytest.mark.parametrize("name", ["x", "swap", "gphase", "pauli_rotation", "diagonal", "permutation", "rx"])
def test_names_that_other_gates_have_change_nothing(name: str) -> None:
    class Own(Gate):
        def __init__(self, name: str) -> None:
            super().__init__(name, 1, 1)

        def matrix(self, *params: float) -> np.ndarray:
            return GATES_BY_MATRIX["euler"].matrix(params[0], 0.4)

        def derivative(self, k: int, *params: float) -> np.ndarray:
            return GATES_BY_MATRIX["euler"].derivative(0, params[0], 0.4)

    generator = hermitian(2)
    for make in (lambda n: generator_gate(n, generator), lambda n: Circuit(1).ry(a, 0).rz(0.2, 0).to_gate(n), Own):
        found, expected = (
            Circuit(2).h(0).append(gate.controlled(), [0, 1], [0.3]).append(gate, 1, [0.5])
            for gate in (make(name), make("k" * len(name)))
        )
        assert found != expected
        assert found.global_phase == 0
        np.testing.assert_allclose(found.to_matrix(), expected.to_matrix(), atol=1e-14)
        for state in (reference.state(found), qd.simulate(found, dtype="complex128").amplitudes()):
            np.testing.assert_allclose(state, expected.to_matrix()[:, 0], atol=1e-13)
        assert found.draw().replace(name, "k" * len(name)) == expected.draw()
        assert [m.kind for m in scene(found, 80).marks] == [m.kind for m in scene(expected, 80).marks]


class Fixed(Gate):
    """A subclass whose instances do different things."""

    def __init__(self, name: str, matrix: np.ndarray, diagonal: bool = False) -> None:
        self._set(_fixed=matrix)
        qubits = len(matrix).bit_length() - 1
        super().__init__(name, qubits, diagonal_qubits=range(qubits) if diagonal else ())

    def matrix(self, *params: float) -> np.ndarray:
        return self._fixed


def fixed(name: str, qubits: int, diagonal: bool = False) -> Fixed:
    values, vectors = np.linalg.eigh(hermitian(1 << qubits))
    phases = np.exp(1j * values)
    return Fixed(name, np.diag(phases) if diagonal else (vectors * phases) @ vectors.conj().T, diagonal)


@pytest.mark.parametrize("qubits", [1, 2])
@pytest.mark.parametrize("diagonal", [False, True])
@pytest.mark.parametrize("controls", [0, 1])
def test_gates_without_angles_may_have_any_name(qubits: int, diagonal: bool, controls: int) -> None:
    for name in (*sorted(NAMED), "unitary", "diagonal", "permutation", "pauli_rotation", "initialize"):
        gate = fixed(name, qubits, diagonal).controlled(controls)
        before = Circuit(gate.num_qubits).h(range(gate.num_qubits)).t(0)
        circuit = before.copy().append(gate, range(gate.num_qubits))
        expected = gate.matrix() @ before.to_matrix()
        state = qd.compile(circuit, dtype="complex128").run().amplitudes()
        np.testing.assert_allclose(state, expected[:, 0], atol=1e-12, err_msg=name)
        for version in (2, 3):
            again = Circuit.from_qasm(circuit.to_qasm(version=version))
            np.testing.assert_allclose(again.to_matrix(), expected, atol=1e-10, err_msg=name)


def test_gates_of_one_class_are_told_apart_by_what_they_do() -> None:
    one, other = fixed("turn", 1), Fixed("turn", np.array([[0, 1j], [1, 0]]))
    assert one == Fixed("turn", one.matrix())
    assert one != other
    for gate in (one, other):
        np.testing.assert_array_equal(gate.controlled(2).matrix()[3::4, 3::4], gate.matrix())
        assert gate.controlled() == gate.controlled()
    assert one.controlled() != other.controlled()
    assert Squeeze() == Squeeze()


@pytest.mark.parametrize("name", ["rx", "turn"])
def test_a_subclass_is_pickled_only_by_its_own_rule(name: str) -> None:
    with pytest.raises(CircuitError, match=f"a Fixed named '{name}' is a gate of one's own and cannot be pickled"):
        pickle.dumps(Circuit(1).append(fixed(name, 1), 0))


@pytest.mark.parametrize("ask", [Circuit.inverse, lambda c: c.power(-2), lambda c: c[0].gate.controlled().inverse()])
def test_what_a_class_does_not_give_is_named(ask) -> None:
    circuit = Circuit(1).append(fixed("turn", 1), 0)
    with pytest.raises(CircuitError, match=r"turn is .* without inverse: give its class, Fixed, a method inverse"):
        ask(circuit)


def test_a_gate_that_lacks_what_is_needed_is_not_called_anything_else() -> None:
    class Bare(Gate):
        pass

    with pytest.raises(CircuitError, match=r"bare is .* without matrix: give its class, Bare, a method matrix"):
        qd.compile(Circuit(1).append(Bare("bare", 1), 0))
    with pytest.raises(CircuitError, match=r"without derivative: give its class, Bare, a method derivative\(k"):
        Bare("bare", 1, 1).derivative(0, 0.3)
    for name in ("matrix", "inverse"):
        with pytest.raises(CircuitError, match=f"measure is not unitary and has no {name}"):
            getattr(MEASURE, name)()


def test_equal_gates_are_equal_under_controls() -> None:
    def block(angle: float) -> Gate:
        return Circuit(2).ry(a, 0).cx(0, 1).barrier().rx(angle, 1).to_gate("block")

    for controls in (1, 2):
        one, same, other = (block(angle).controlled(controls) for angle in (0.1, 0.1, 0.2))
        assert one == same
        assert hash(one) == hash(same)
        assert one != other
        assert one != block(0.1)
        circuit = Circuit(4).append(one, range(2 + controls), [0.3])
        assert pickle.loads(pickle.dumps(circuit)) == circuit
    for gate in GATES_BY_MATRIX.values():
        assert gate.controlled() == gate.controlled()
        assert gate.controlled() != GATES_BY_MATRIX["wide"].controlled() or gate.name == "wide"


def test_a_gate_by_its_matrix_must_be_bound_before_it_is_written() -> None:
    circuit = Circuit(1).append(GATES_BY_MATRIX["euler"], 0, [a, b])
    with pytest.raises(CircuitError, match="a gate given by its matrix depends on a, b; bind them first"):
        circuit.to_qasm()


def test_what_is_no_gate_is_refused_with_the_reason() -> None:
    with pytest.raises(CircuitError, match="not Hermitian: it differs from its adjoint by up to 1"):
        generator_gate("g", [[0, 1], [0, 0]])
    with pytest.raises(CircuitError, match=r"derivative\(0, 0.3\) of g is not that of its matrix"):
        matrix_gate("g", partial_swap, lambda k, t: partial_swap(t))
    with pytest.raises(CircuitError, match="not unitary"):
        matrix_gate("g", lambda t: np.array([[t, 0], [0, 1]]), lambda k, t: np.eye(2))
    with pytest.raises(CircuitError, match="measure, is not unitary"):
        Circuit(1, 1).measure(0, 0).to_gate("g")
    with pytest.raises(CircuitError, match=r"shape \(3, 3\)"):
        generator_gate("g", np.eye(3))


def test_the_matrix_of_a_circuit() -> None:
    circuit = Circuit(3, 3).h(0).cx(0, 2).append(GATES_BY_MATRIX["mixed"], [2, 1], [a]).gphase(0.3)
    circuit.mcz([0, 1], 2, "01").rot(0.1, 0.2, 0.3, 1).measure_all()
    values = {"a": 0.3}
    expected = reference.unitary(circuit.remove_final_measurements(), values)
    np.testing.assert_allclose(circuit.to_matrix(values), expected, atol=1e-13)
    with pytest.raises(CircuitError, match=r"unbound parameters \(a\): to_matrix\(params\)"):
        circuit.to_matrix()
    with pytest.raises(CircuitError, match="instruction 0 is reset"):
        Circuit(1).reset(0).to_matrix()


def test_other_libraries_names_work_or_are_answered() -> None:
    circuit = Circuit(3).cnot(0, 1).toffoli(0, 1, 2).u3(0.1, 0.2, 0.3, 0).phase(0.5, 1).fredkin(0, 1, 2)
    assert [i.gate.name for i in circuit] == ["cx", "ccx", "u", "p", "cswap"]
    for name, answer in {"hadamrd": "did you mean", "IsingXX": "use rxx", "sqrtx": "use sx", "CX": "it has cx"}.items():
        with pytest.raises(AttributeError, match=answer):
            getattr(circuit, name)
    assert not hasattr(circuit, "__array__")
    with pytest.raises(CircuitError, match=r"draw\('pdf'\): use one of text, "):
        circuit.draw("pdf")


def test_ansatze_with_names_compose() -> None:
    lib = qd.library
    for make in (
        lambda name: lib.hardware_efficient(4, 1, name=name),
        lambda name: lib.real_amplitudes(4, 1, name=name),
        lambda name: lib.efficient_su2(4, 1, name=name),
        lambda name: lib.strongly_entangling_layers(4, 1, name=name),
        lambda name: lib.qaoa_maxcut({(0, 1): 0.5, (2, 3): 1.0}, 1, name=name),
        lambda name: lib.zz_feature_map(4, 1, name=name),
        lambda name: lib.uccsd(2, 4, name=name),
    ):
        one = make("one")
        assert one.compose(make("two")).num_parameters == 2 * one.num_parameters
    assert lib.qaoa({"Z0 Z1": 0.5}, 1).num_parameters == 2
    with pytest.raises(CircuitError, match="use qaoa_maxcut"):
        lib.qaoa({(0, 1): 1.0}, 1)


def test_a_generator_is_an_array_of_numbers():
    with pytest.raises(CircuitError, match="the generator of g must be an array of numbers; got 'XX'"):
        generator_gate("g", "XX")


def test_angles_of_own_gates_that_are_not_finite_name_the_parameter() -> None:
    b = qd.Parameter("b")
    gate = qd.matrix_gate(
        "mine", lambda t: np.diag([1, np.exp(1j * t)]), lambda k, t: np.diag([0, 1j * np.exp(1j * t)])
    )
    program = qd.compile(qd.Circuit(1).h(0).append(gate, [0], [np.sqrt(b)]), dtype="complex128")
    assert abs(program.expectation("X0", [4.0]) - np.cos(2)) < 1e-14
    message = r"mine\(sqrt\(b\)\)\[\d\] is not a finite number for b = -1"
    for use in (program.run, lambda x: program.value_and_grad("X0", x)):
        with pytest.raises(CircuitError, match=message):
            use([-1.0])
    with pytest.raises(CircuitError, match=message + " in row 1"):
        program.run_batch([[1.0], [-1.0]])
