"""Forward mode: jvp, hvp, metric_tensor and metric_vector against the dense reference, differences and PennyLane."""

import numpy as np
import pytest
from states import random_ket, random_sum

import qdist as qd
from qdist.backends.errors import StateError
from qdist.circuit import GATES, CircuitError
from qdist.circuit.own_gates import generator_gate, matrix_gate
from qdist.program.tangent.circuit import tangent_circuit
from qdist.state import reference
from qdist.state.outputs import Output

both = pytest.mark.parametrize("dtype", ["complex64", "complex128"])
TOLERANCE = {"complex64": 2e-5, "complex128": 1e-9}
N = 4


def every_gate() -> qd.Circuit:
    """Every gate of the table with angles, and controlled forms, with angles that share parameters."""
    theta = qd.ParameterVector("t", 7)
    circuit = qd.Circuit(N).h(range(N))
    rng = np.random.default_rng(0)
    for k, gate in enumerate(dict.fromkeys(g for g in GATES.values() if g.num_params)):
        qubits = rng.permutation(N)[: gate.num_qubits].tolist()
        angles = [0.7 * theta[(k + j) % 7] - 0.2 * theta[(2 * k + j) % 7] + 0.1 * j for j in range(gate.num_params)]
        circuit.append(gate, qubits, angles).cx(k % N, (k + 1) % N)
    circuit.append(GATES["p"].controlled(2, 1), [0, 2, 3], [theta[0]])
    circuit.append(GATES["ry"].controlled(2, 2), [3, 1, 0], [theta[1] / 3])
    circuit.append(GATES["gphase"].controlled(1, 0), [2], [2 * theta[2]])
    circuit.pauli_rotation(theta[3], "XZIY", [2, 0, 3, 1]).pauli_rotation(-theta[3], "IIII", range(4))
    circuit.append(generator_gate("own", np.array([[0.3, 0.2j], [-0.2j, -0.4]])), [1], [theta[4]])
    inner = qd.Circuit(2).rx(qd.Parameter("inner"), 0).cx(0, 1)
    return circuit.append(inner.to_gate("named"), [3, 1], [theta[5]]).u(0.3, theta[6], 0.1, 2).measure_all()


def functions() -> qd.Circuit:
    a, b, c = (qd.Parameter(name) for name in "abc")
    circuit = qd.Circuit(N).h(range(N))
    circuit.rx(a * b, 0).ry(np.sin(a) * c**2, 1).cx(0, 1).rz(np.exp(-b) / c, 0).rzz(np.tan(a / 2) + b, 2, 3)
    circuit.crx(np.sqrt(c) * np.log(b), 1, 2).p(np.arcsin(a / 4) + np.arccos(b / 4) * np.arctan(c), 3)
    return circuit.rxx(np.tanh(a) ** b, 0, 3).ry(np.cos(a) + 2.0**c, 2).u(a, b * c, c, 1)


def matrices() -> qd.Circuit:
    """Gates by functions that give their matrix: of one and two qubits, controlled, inverse, bound, of functions."""
    rng = np.random.default_rng(9)
    first, second = (m + m.conj().T for m in rng.normal(size=(2, 4, 4)) + 1j * rng.normal(size=(2, 4, 4)))

    def turn(generator: np.ndarray, t: float) -> np.ndarray:
        values, vectors = np.linalg.eigh(generator)
        return (vectors * np.exp(-0.3j * t * values)) @ vectors.conj().T

    def derivative(k: int, s: float, t: float) -> np.ndarray:
        middle = -0.3j * (second if k else first)
        return turn(second, t) @ middle @ turn(first, s)

    two = matrix_gate("two", lambda s, t: turn(second, t) @ turn(first, s), derivative, 2)
    one = matrix_gate("one", _euler, _euler_derivative)
    a, b, c = (qd.Parameter(name) for name in "abc")
    circuit = qd.Circuit(N).h(range(N)).ry(a, 1).append(two, [0, 2], [a, b]).append(one, [1], [b * c])
    circuit.append(two, [0, 2], [a, b]).cx(1, 3).append(two.inverse((a, b))[0], [3, 1], [c, np.sin(a)])
    circuit.append(one.controlled(1), [2, 0], [c]).append(two.controlled(1, 0), [1, 3, 2], [b - 2 * a, 0.4])
    return circuit.append(one, [3], [0.7]).rx(c, 0).append(two, [2, 1], [0.2, 0.1])


def _euler(t: float) -> np.ndarray:
    return np.array([[np.exp(2j * t) * np.cos(t), -np.sin(t)], [np.sin(t), np.exp(-2j * t) * np.cos(t)]])


def _euler_derivative(k: int, t: float) -> np.ndarray:
    phase, c, s = np.exp(2j * t), np.cos(t), np.sin(t)
    return np.array([[phase * (2j * c - s), -c], [c, phase.conjugate() * (-2j * c - s)]])


CIRCUITS = {"every gate": every_gate, "functions": functions, "matrices": matrices}
each = pytest.mark.parametrize("name", list(CIRCUITS))


def case(name: str) -> tuple[qd.Circuit, np.ndarray, np.ndarray]:
    circuit, rng = CIRCUITS[name](), np.random.default_rng(5)
    return circuit, rng.uniform(0.3, 1.4, circuit.num_parameters), rng.normal(size=circuit.num_parameters)


def along(function, theta: np.ndarray, v: np.ndarray, step: float = 1e-3) -> np.ndarray:
    """A central difference of fourth order."""
    near, far = (np.asarray(function(theta + k * v)) - function(theta - k * v) for k in (step, 2 * step))
    return (8 * near - far) / (12 * step)


def outputs_of(dtype: str) -> list:
    ket = qd.StateVector.from_amplitudes(random_ket(N, seed=4), dtype)
    return [
        random_sum(N, 5, seed=3),
        qd.Variance({"Z0 Z1": 0.5, "X2": -1.0, "Y3": 0.3}),
        qd.Probabilities([2, 0]),
        qd.Overlap(ket),
        qd.State(),
    ]


@both
@each
def test_jvp_is_the_derivative_of_every_output(name: str, dtype: str) -> None:
    circuit, theta, v = case(name)
    program, exact = qd.compile(circuit, dtype=dtype), qd.compile(circuit, dtype="complex128")
    outputs, double = outputs_of(dtype), outputs_of("complex128")
    values, changes = program.jvp(outputs, theta, v)
    zeros = [np.zeros(o.shape(N), o.dtype) if isinstance(o, Output) else 0.0 for o in double]
    for k, output in enumerate(double):
        # The reference is of other code: the forward run of vjp.
        want = exact.vjp([output], theta, zeros[k : k + 1])[0][0]
        np.testing.assert_allclose(values[k], want, atol=TOLERANCE[dtype])
        rate = along(lambda x: exact.vjp([output], x, [zeros[k]])[0][0], theta, v)  # noqa: B023
        np.testing.assert_allclose(changes[k], rate, atol=10 * TOLERANCE[dtype], err_msg=str(output))
    assert [type(values[0]), type(changes[0])] == [float, float]
    jacobian = reference.state_jacobian(circuit.remove_final_measurements(), theta)
    np.testing.assert_allclose(changes[-1], jacobian @ v, atol=TOLERANCE[dtype])


@both
@each
def test_hvp_is_the_change_of_the_gradient(name: str, dtype: str) -> None:
    circuit, theta, v = case(name)
    program, exact = qd.compile(circuit, dtype=dtype), qd.compile(circuit, dtype="complex128")
    observable = random_sum(N, 5, seed=3)
    want = along(lambda x: exact.value_and_grad(observable, x)[1], theta, v)
    scale = np.abs(want).max()
    np.testing.assert_allclose(program.hvp(observable, theta, v), want, atol=20 * scale * TOLERANCE[dtype])
    batch = np.stack([theta, theta[::-1]])
    rows = program.hvp(observable, batch, v)
    np.testing.assert_allclose(rows[0], want, atol=20 * scale * TOLERANCE[dtype])
    np.testing.assert_allclose(rows[1], program.hvp(observable, theta[::-1], v), atol=20 * scale * TOLERANCE[dtype])
    hessian = program.hvp(observable, theta, np.eye(len(theta)))
    np.testing.assert_allclose(hessian, hessian.T, atol=20 * scale * TOLERANCE[dtype])


@both
def test_second_derivatives_of_every_output(dtype: str) -> None:
    circuit, theta, v = case("every gate")
    program, exact = qd.compile(circuit, dtype=dtype), qd.compile(circuit, dtype="complex128")
    outputs, double, rng = outputs_of(dtype), outputs_of("complex128"), np.random.default_rng(8)
    cotangents = [0.7, -0.4, rng.normal(size=4), 0.3 - 0.8j, rng.normal(size=16) + 1j * rng.normal(size=16)]
    for k in range(len(outputs)):
        some, g = outputs[k : k + 1], cotangents[k : k + 1]
        changes, by_theta, by_tangents = program._tangents.second(some, theta, g, v)
        np.testing.assert_allclose(changes[0], exact.jvp(double[k : k + 1], theta, v)[1][0], atol=TOLERANCE[dtype])
        want = along(lambda x: exact.vjp(double[k : k + 1], x, g)[1], theta, v)  # noqa: B023
        np.testing.assert_allclose(by_theta, want, atol=100 * TOLERANCE[dtype], err_msg=str(some))
        np.testing.assert_allclose(by_tangents, exact.vjp(double[k : k + 1], theta, g)[1], atol=10 * TOLERANCE[dtype])
    together = program._tangents.second(outputs, theta, cotangents, v)[1]
    want = along(lambda x: exact.vjp(double, x, cotangents)[1], theta, v)
    np.testing.assert_allclose(together, want, atol=200 * TOLERANCE[dtype])


@both
@each
def test_metric_tensor_is_that_of_the_reference(name: str, dtype: str) -> None:
    circuit, theta, v = case(name)
    bare = circuit.remove_final_measurements()
    psi, jacobian = reference.state(bare, theta), reference.state_jacobian(bare, theta)
    berry = jacobian.conj().T @ psi
    want = (jacobian.conj().T @ jacobian - np.outer(berry, berry.conj())).real
    program = qd.compile(circuit, dtype=dtype)
    np.testing.assert_allclose(program.metric_tensor(theta), want, atol=20 * TOLERANCE[dtype])
    np.testing.assert_allclose(program.metric_vector(theta, v), want @ v, atol=20 * TOLERANCE[dtype])
    np.testing.assert_allclose(program.metric_tensor(theta[None])[0], want, atol=20 * TOLERANCE[dtype])


@both
@pytest.mark.parametrize("n", [9, 14])
def test_larger_circuits_and_batches_of_them(n: int, dtype: str) -> None:
    """States that are no rows of a kernel, and rows that are: tangents of size 1e-9 and 1e9 are as good as others."""
    circuit, rng = qd.library.hardware_efficient(n, 1), np.random.default_rng(1)
    theta, v = rng.uniform(-3, 3, (2, circuit.num_parameters)), rng.normal(size=circuit.num_parameters)
    observable = random_sum(n, 6, seed=2)
    program, exact = qd.compile(circuit, dtype=dtype), qd.compile(circuit, dtype="complex128")
    want = along(lambda x: exact.value_and_grad(observable, x)[1], theta, v)
    np.testing.assert_allclose(program.hvp(observable, theta, v), want, atol=50 * TOLERANCE[dtype])
    for scale in (1e-9, 1.0, 1e9):
        found = program.hvp(observable, theta[0], scale * v) / scale
        np.testing.assert_allclose(found, want[0], atol=50 * TOLERANCE[dtype])
        (_,), (change,) = program.jvp([observable], theta[0], scale * v)
        slope = exact.value_and_grad(observable, theta[0])[1] @ v
        assert change / scale == pytest.approx(slope, abs=20 * TOLERANCE[dtype])
    assert not program.hvp(observable, theta[0], 0 * v).any()


def test_angles_with_large_factors_keep_their_digits() -> None:
    x = qd.Parameter("x")
    program = qd.compile(qd.Circuit(3).rx(1000 * x, 0).ry(0.3, 0).rz(-700 * x, 0), dtype="complex128")
    found = program.hvp("X0", [0.2], [1.0])
    want = along(lambda t: program.value_and_grad("X0", t)[1], np.array([0.2]), np.array([1.0]), 1e-6)
    np.testing.assert_allclose(found, want, rtol=1e-6)


@both
@pytest.mark.parametrize("factor", [1e-6, 8 * np.pi, 100.0, 1e4])
def test_angles_that_turn_fast_or_hardly(factor: float, dtype: str) -> None:
    """cos(k t), whose angle's change along the tangent may be a multiple of the gates' period."""
    t = qd.Parameter("t")
    turned = factor * np.array([np.cos(0.3), -np.sin(0.3)])
    cases = [(factor * t, 0.3, factor, 0.0), (t**2, factor / 2, factor, 2.0), (np.sin(t) * factor, 0.3, *turned)]
    for angle, place, speed, change in cases:
        value = angle.bind({t: place})
        program = qd.compile(qd.Circuit(1).rx(angle, 0), dtype=dtype)
        slope, bend = -np.sin(value) * speed, -np.cos(value) * speed**2 - np.sin(value) * change
        (found,) = program.jvp(["Z0"], [place], [2.0])[1]
        assert found == pytest.approx(2 * slope, abs=TOLERANCE[dtype] * abs(speed))
        within = TOLERANCE[dtype] * max(speed**2, abs(change))
        np.testing.assert_allclose(program.hvp("Z0", [place], [1.0]), [bend], atol=within)
        np.testing.assert_allclose(program.metric_tensor([place]), [[speed**2 / 4]], rtol=TOLERANCE[dtype])


@both
def test_variances_with_a_large_multiple_of_the_identity_keep_their_digits(dtype: str) -> None:
    a, b = qd.Parameter("a"), qd.Parameter("b")
    circuit = qd.Circuit(5).ry(a, 0).rx(b, 1).cx(0, 1).h(range(2, 5))
    own = qd.PauliSum([("Z0", 1.0), ("X1", 0.5)])
    shifted, rows = qd.Variance(own + qd.PauliSum([("I", 1e5)])), np.array([[0.7, 0.4], [0.1, 0.2]])
    exact = qd.compile(circuit, dtype="complex128")
    wanted = [exact.run(row).variance(own) for row in rows]
    slopes = along(lambda row: exact.run(row).variance(own), rows[0], np.array([1.0, 0.0]))
    program = qd.compile(circuit, dtype=dtype)
    assert program.vjp([shifted], rows[0], [1.0])[0] == [pytest.approx(wanted[0], abs=1e-6)]
    np.testing.assert_allclose(program.vjp([shifted], rows, [np.ones(2)])[0][0], wanted, atol=1e-6)
    (value,), (change,) = program.jvp([shifted], rows[0], [1.0, 0.0])
    assert (value, change) == (pytest.approx(wanted[0], abs=1e-6), pytest.approx(slopes, abs=1e-5))


def test_values_by_name_and_bound_values() -> None:
    circuit = qd.library.hardware_efficient(3, 1)
    theta = np.linspace(0, 1, circuit.num_parameters)
    program = qd.compile(circuit, dtype="complex128")
    named = {p.name: x for p, x in zip(circuit.parameters, theta)}
    want = program.jvp(["Z0"], theta, theta)
    assert program.jvp(["Z0"], named, {p: x for p, x in zip(circuit.parameters, theta)}) == want
    program.bind(theta)
    assert program.jvp(["Z0"], None, theta) == want
    changes = program.jvp(["Z0", "Z1"], theta, np.eye(len(theta)))[1]
    np.testing.assert_allclose(changes, program.jacobian(["Z0", "Z1"], theta), atol=1e-12)


def test_a_circuit_without_parameters_has_nothing_to_change() -> None:
    program = qd.compile(qd.Circuit(2).h(0))
    assert program.jvp(["X0"], [], []) == ([pytest.approx(1.0)], [0.0])
    assert [program.hvp("X0", [], []).shape, program.metric_tensor([]).shape] == [(0,), (0, 0)]


def test_refusals_name_the_way_out() -> None:
    x = qd.Parameter("x")
    program = qd.compile(qd.Circuit(2).rx(x, 0))
    with pytest.raises(StateError, match="3 parameter sets and 2 tangents"):
        program.hvp("Z0", np.zeros((3, 1)), np.zeros((2, 1)))
    for v in (0.5, None, iter([1.0, 2.0]), np.array(1.0)):
        with pytest.raises(CircuitError, match=r"sequence of numbers|as many values"):
            program.hvp("Z0", [0.1], v)
    with pytest.raises(CircuitError, match="finite"):
        program.jvp(["Z0"], [0.1], [np.nan])
    with pytest.raises(StateError, match="list of observables"):
        program.jvp("Z0", [0.1], [1.0])
    with pytest.raises(StateError, match="measure"):
        qd.compile(qd.Circuit(2, 1).rx(x, 0).measure(0, 0).h(0)).jvp(["Z0"], [0.1], [1.0])


def test_the_tangent_circuit_takes_few_more_sweeps_of_twice_the_memory() -> None:
    """The price of a Hessian-vector product in gradients: twice the amplitudes, times the ratio of sweeps."""
    program = qd.compile(qd.library.hardware_efficient(20, 10), device="cpu")
    more = program._tangents.runner.plan.sweeps / program.plan.sweeps
    assert more <= 1.25
    names = tangent_circuit(qd.Circuit(2).h(0).rx(qd.Parameter("a"), 0)).circuit.count_ops()
    assert names == {"h": 1, "rx": 1, "pauli_rotation": 1}


def test_metric_is_that_of_pennylane() -> None:
    qml = pytest.importorskip("pennylane")
    theta = np.random.default_rng(2).uniform(-2, 2, 9)
    w = qd.ParameterVector("w", 9)
    circuit = qd.Circuit(3)

    @qml.qnode(qml.device("default.qubit", wires=3))
    def node(w):
        for layer in range(3):
            for q in range(3):
                (qml.RX, qml.RY, qml.RZ)[(layer + q) % 3](w[3 * layer + q], wires=q)
            qml.CNOT([0, 1])
            qml.CNOT([1, 2])
        return qml.expval(qml.Z(0))

    for layer in range(3):
        for q in range(3):
            (circuit.rx, circuit.ry, circuit.rz)[(layer + q) % 3](w[3 * layer + q], q)
        circuit.cx(0, 1).cx(1, 2)
    want = qml.adjoint_metric_tensor(node)(qml.numpy.array(theta, requires_grad=True))
    np.testing.assert_allclose(qd.compile(circuit, dtype="complex128").metric_tensor(theta), want, atol=1e-10)
