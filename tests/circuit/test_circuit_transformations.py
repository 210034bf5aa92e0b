"""What is made of a circuit: bound, inverted, composed, controlled; checked against the algebra of unitaries."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import circuits

from qdist.circuit import Circuit, CircuitError, Condition, Parameter, ParameterVector
from qdist.state import reference

few = settings(max_examples=40, deadline=None, derandomize=True)
PARAMETERS = (Parameter("a"), *ParameterVector("v", 3))


def values_of(circuit: Circuit, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-3, 3, circuit.num_parameters)


# Parameters.


def test_parameters_in_order_of_first_use_with_vectors_together() -> None:
    a, b, v = Parameter("a"), Parameter("b"), ParameterVector("v", 4)
    circuit = Circuit(1).rx(b, 0).ry(v[2] + a, 0).rz(v[0] - b, 0).rx(v[3], 0)
    assert circuit.parameters == (b, v[0], v[2], v[3], a)
    assert circuit.num_parameters == 5


def test_affine_map_gives_every_angle() -> None:
    a, v = Parameter("a"), ParameterVector("v", 2)
    circuit = Circuit(2).h(0).rx(2 * a - v[1] + 0.3, 0).u(0.1, v[0], a, 1).cx(0, 1).rzz(a + a, 0, 1)
    theta = np.array([0.5, -1.0, 2.0])  # a, v[0], v[1]
    expected = [2 * 0.5 - 2.0 + 0.3, 0.1, -1.0, 0.5, 1.0]
    affine = circuit.affine()
    np.testing.assert_allclose(affine(theta), expected)
    dense = np.zeros((5, 3))
    dense[affine.slots, affine.parameters] = affine.coefficients
    np.testing.assert_allclose(dense @ theta + affine.constants, expected)
    cotangents = np.array([1.0, -2.0, 0.5, 3.0, 0.25])
    np.testing.assert_allclose(affine.transposed(cotangents), dense.T @ cotangents)
    empty = Circuit(1).h(0).affine()
    assert empty(np.zeros(0)).shape == (0,)
    assert empty.transposed(np.zeros(0)).shape == (0,)


@few
@given(circuits(parameters=PARAMETERS))
def test_affine_map_equals_binding(circuit: Circuit) -> None:
    theta = values_of(circuit)
    bound = circuit.bind(theta)
    expected = [param for instruction in bound for param in instruction.params]
    np.testing.assert_allclose(circuit.affine()(theta), expected, atol=1e-12)


@few
@given(circuits(parameters=PARAMETERS), st.data())
def test_binding_in_two_steps_equals_binding_at_once(circuit: Circuit, data: st.DataObject) -> None:
    theta = dict(zip(circuit.parameters, values_of(circuit)))
    first = data.draw(st.sets(st.sampled_from(sorted(theta, key=str)))) if theta else set()
    partly = circuit.bind({p: theta[p] for p in first}, partial=True)
    assert set(partly.parameters) == set(theta) - first
    bound = partly.bind({p: value for p, value in theta.items() if p not in first})
    assert bound.num_parameters == 0
    np.testing.assert_allclose(
        [p for i in bound for p in i.params], [p for i in circuit.bind(theta) for p in i.params], atol=1e-12
    )


def test_binding_to_other_parameters_substitutes() -> None:
    a, b = Parameter("a"), Parameter("b")
    circuit = Circuit(1).rx(2 * a, 0)
    assert circuit.bind({a: b + 1}) == Circuit(1).rx(2 * b + 2, 0)


def test_binding_leaves_the_circuit_alone() -> None:
    a = Parameter("a")
    circuit = Circuit(1).rx(a, 0)
    circuit.bind([1.0])
    assert circuit.parameters == (a,)


def test_parameter_values_are_flat_and_in_order() -> None:
    a, v = Parameter("a"), ParameterVector("v", 3)
    circuit = Circuit(1).rx(v[2], 0).ry(a, 0).rz(v[0], 0)
    np.testing.assert_array_equal(circuit.parameter_values({a: 5, v: [1, 2, 3]}), [1, 3, 5])


@pytest.mark.parametrize("values", [[1e200, -1.0], [1.7e308, 1.7e308], [-1e155, 5e-324]])
def test_parameter_values_may_be_as_large_as_doubles_are(values: list[float]) -> None:
    a, b = Parameter("a"), Parameter("b")
    circuit = Circuit(1).rx(a, 0).ry(b, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert circuit.parameter_values(np.array(values)).tolist() == values
        for wrong in (np.nan, np.inf, -np.inf):
            with pytest.raises(CircuitError, match=f"b must be a finite number; got {wrong}"):
                circuit.parameter_values(np.array([values[0], wrong]))


def test_missing_and_unknown_parameters_are_named() -> None:
    a, b = Parameter("a"), Parameter("b")
    circuit = Circuit(1).rx(a + b, 0)
    with pytest.raises(CircuitError, match="no value is given for parameter b"):
        circuit.bind({a: 1.0})
    with pytest.raises(CircuitError, match="no parameter c; it has a, b"):
        circuit.bind({Parameter("c"): 1.0}, partial=True)


# Transformations.


@few
@given(circuits(parameters=PARAMETERS))
def test_inverse_composes_to_the_identity(circuit: Circuit) -> None:
    both = circuit.compose(circuit.inverse())
    np.testing.assert_allclose(reference.unitary(both, values_of(both)), np.eye(1 << circuit.num_qubits), atol=1e-12)


@few
@given(circuits(max_qubits=3), circuits(max_qubits=3), st.data())
def test_compose_multiplies_unitaries(first: Circuit, second: Circuit, data: st.DataObject) -> None:
    if second.num_qubits > first.num_qubits:
        first, second = second, first
    qubits = data.draw(st.permutations(range(first.num_qubits)))[: second.num_qubits]
    embedded = np.zeros((1 << first.num_qubits,) * 2, dtype=complex)
    small = reference.unitary(second)
    for row in range(len(embedded)):
        for column in range(len(embedded)):
            others = [q for q in range(first.num_qubits) if q not in qubits]
            if all((row ^ column) >> q & 1 == 0 for q in others):
                i = sum((row >> q & 1) << k for k, q in enumerate(qubits))
                j = sum((column >> q & 1) << k for k, q in enumerate(qubits))
                embedded[row, column] = small[i, j]
    found = reference.unitary(first.compose(second, qubits))
    np.testing.assert_allclose(found, embedded @ reference.unitary(first), atol=1e-12)


def test_compose_in_place_and_with_itself() -> None:
    circuit = Circuit(2).h(0).cx(0, 1)
    result = circuit.compose(circuit, [1, 0], inplace=True)
    assert result is circuit
    assert circuit == Circuit(2).h(0).cx(0, 1).h(1).cx(1, 0)


def test_compose_moves_classical_bits_and_conditions() -> None:
    part = Circuit(1, 2).measure(0, 1)
    with part.if_([0, 1], 2):
        part.x(0)
    whole = Circuit(2, 3).compose(part, [1], [2, 0])
    assert whole[0].clbits == (0,)
    assert whole[1].condition == (Condition((2, 0), 2),)


@few
@given(circuits(max_qubits=2), circuits(max_qubits=3))
def test_tensor_is_the_kronecker_product(high: Circuit, low: Circuit) -> None:
    expected = np.kron(reference.unitary(high), reference.unitary(low))
    np.testing.assert_allclose(reference.unitary(high.tensor(low)), expected, atol=1e-12)


def test_tensor_puts_classical_bits_side_by_side_too() -> None:
    both = Circuit(1, 2).measure(0, 1).tensor(Circuit(2, 1).measure(1, 0))
    assert (both.num_qubits, both.num_clbits) == (3, 3)
    assert [(i.qubits, i.clbits) for i in both] == [((1,), (0,)), ((2,), (2,))]


@few
@given(circuits(max_qubits=3, max_gates=6), st.integers(-3, 3))
def test_power_is_the_matrix_power(circuit: Circuit, exponent: int) -> None:
    expected = np.linalg.matrix_power(reference.unitary(circuit), exponent)
    np.testing.assert_allclose(reference.unitary(circuit.power(exponent)), expected, atol=1e-11)


def test_repeat_takes_circuits_that_measure() -> None:
    circuit = Circuit(1, 1).h(0).measure(0, 0)
    assert circuit.repeat(2) == Circuit(1, 1).h(0).measure(0, 0).h(0).measure(0, 0)
    assert circuit.repeat(0) == Circuit(1, 1)


@few
@given(circuits(max_qubits=2, max_gates=6), st.integers(1, 2), st.data())
def test_controlled_is_the_block_matrix(circuit: Circuit, num_controls: int, data: st.DataObject) -> None:
    state = data.draw(st.integers(0, (1 << num_controls) - 1))
    inner = reference.unitary(circuit)
    expected = np.eye(inner.shape[0] << num_controls, dtype=complex)
    places = np.flatnonzero(np.arange(len(expected)) % (1 << num_controls) == state)
    expected[np.ix_(places, places)] = inner
    found = reference.unitary(circuit.controlled(num_controls, state))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_a_controlled_global_phase_is_no_longer_global() -> None:
    circuit = Circuit(1).gphase(0.3).x(0).controlled()
    assert circuit == Circuit(2).p(0.3, 0).cx(0, 1)


def test_barriers_survive_inverse_and_control() -> None:
    circuit = Circuit(2).h(0).barrier().s(1)
    assert circuit.inverse() == Circuit(2).sdg(1).barrier().h(0)
    assert circuit.controlled() == Circuit(3).ch(0, 1).barrier(1, 2).cs(0, 2)


@pytest.mark.parametrize("spoil", [lambda c: c.measure(0, 0), lambda c: c.reset(0), lambda c: c.initialize(0)])
def test_circuits_that_are_not_unitary_have_no_inverse_nor_control(spoil: object) -> None:
    circuit = Circuit(1, 1).h(0)
    spoil(circuit)  # type: ignore[operator]
    with pytest.raises(CircuitError, match=r"instruction 1 is .* no inverse"):
        circuit.inverse()
    with pytest.raises(CircuitError, match=r"instruction 1 is .* cannot be controlled"):
        circuit.controlled()


def test_final_measurements_can_be_removed() -> None:
    circuit = Circuit(2, 3).h(0).measure(0, 0).cx(0, 1).barrier().measure(0, 1).measure(1, 2)
    assert circuit.remove_final_measurements() == Circuit(2, 3).h(0).measure(0, 0).cx(0, 1)
    tested = Circuit(2, 1).measure(0, 0)
    with tested.if_(0, 1):
        tested.x(1)
    assert tested.remove_final_measurements() == tested
