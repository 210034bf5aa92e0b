"""Products and functions of parameters: their text, values and derivatives."""

import math
import pickle

import numpy as np
import pytest

from qdist.circuit import Circuit, CircuitError, Expression, Parameter, ParameterVector
from qdist.circuit.functions import FUNCTIONS, MOST_CALLS

a, b = Parameter("a"), Parameter("b")
v = ParameterVector("v", 2)


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (a * b, "a*b"),
        (2 * np.sin(a) + b, "2*sin(a) + b"),
        ((a + 1) * (b - 1), "(a + 1)*(b - 1)"),
        (1 / a, "1/a"),
        (v[0] / (2 * a), "v[0]/(2*a)"),
        (-(a**2) + 1, "-a**2 + 1"),
        (2**b, "2**b"),
        (np.float64(2) * a * b, "(2*a)*b"),
        (np.exp(np.cos(a * b)), "exp(cos(a*b))"),
    ],
)
def test_text_reads_as_the_formula(expression: object, text: str) -> None:
    assert str(expression) == text


def test_values_are_those_of_numpy() -> None:
    for name in FUNCTIONS:
        function = getattr(np, name)
        assert function(a * b + 0.1).bind({a: 0.5, b: 0.6}) == pytest.approx(function(0.4), abs=1e-15)
    assert (a**b / (a - 3)).bind({a: 1.5, b: 2}) == pytest.approx(1.5**2 / -1.5)


def test_what_values_make_affine_is_affine_again() -> None:
    assert (a * b).bind({a: 2.0}) == 2 * b
    assert (a * b + a).bind({b: 2.0}) == 3 * a
    assert (a / b).bind({b: 4.0}) == a / 4
    assert np.sin(a).bind({a: b}) == np.sin(b)


def test_equal_formulas_are_one_symbol_also_after_pickling() -> None:
    circuit = Circuit(1).rx(a * b, 0).ry(np.sin(a * b) - a * b, 0).rz(a, 0)
    assert [s.name for s in circuit.functions.symbols] == ["a*b", "sin(a*b)"]
    assert circuit.parameters == (a, b)
    again = pickle.loads(pickle.dumps(circuit))
    assert again == circuit
    assert again.functions.symbols == circuit.functions.symbols


def test_chain_rule_agrees_with_differences() -> None:
    angles = [np.sin(a * b) ** 2, a / b, np.sqrt(b) * np.arctan(a), b**a, np.log(b + a) * np.tan(a), np.tanh(a - b)]
    circuit = Circuit(1)
    for k, angle in enumerate(angles):
        circuit.rx((k + 1) * angle + a, 0)
    functions = circuit.functions
    rng = np.random.default_rng(1)
    theta = rng.uniform(0.2, 1.0, (3, 2))
    weights = rng.normal(size=(3, 2 + len(functions.symbols)))
    found = functions.pulled_back(theta, weights)
    for k in range(2):
        step = np.zeros((3, 2))
        step[:, k] = 1e-6
        change = functions.extended(theta + step) - functions.extended(theta - step)
        np.testing.assert_allclose(found[:, k], (weights * change).sum(axis=1) / 2e-6, rtol=1e-7)


def test_what_has_no_finite_value_names_the_parameters() -> None:
    functions = Circuit(1).rx(np.log(a - b), 0).functions
    with pytest.raises(CircuitError, match=r"log\(a - b\) is not a finite number for a = 1, b = 2 in row 1"):
        functions.extended(np.array([[2.0, 1.0], [1.0, 2.0]]))
    with pytest.raises(CircuitError, match=r"log\(-1\) is not a finite"):
        np.log(a - b).bind({a: 1.0, b: 2.0})


def test_what_numpy_cannot_do_with_parameters_says_what_it_can() -> None:
    with pytest.raises(TypeError, match=r"numpy.floor is no function of parameters .* sin, cos, tan"):
        np.floor(a)
    with pytest.raises(TypeError, match="one at a time"):
        np.ones(2) * a
    with pytest.raises(CircuitError, match=r"numpy.sin\(a\)"):
        math.sin(a)


def test_formulas_that_double_in_size_are_refused_before_they_take_memory() -> None:
    def doubled(angle: Expression, times: int) -> Expression:
        return doubled(angle * angle, times - 1) if times else angle

    with pytest.raises(CircuitError, match=f"more than {MOST_CALLS} products"):
        doubled(a * b, 60)


def test_openqasm_reads_and_writes_functions() -> None:
    text = 'OPENQASM 3.0; include "stdgates.inc"; input float be; input float al; qubit q; rx(2*sin(be*al) + be**2) q;'
    circuit = Circuit.from_qasm(text)
    again = Circuit.from_qasm(circuit.to_qasm())
    values = {"be": 0.3, "al": 0.7}
    expected = 2 * np.sin(0.21) + 0.09
    assert circuit.bind(values)[0].params[0] == pytest.approx(expected)
    assert again.bind(values)[0].params[0] == pytest.approx(expected)


def test_functions_that_openqasm_lacks_are_refused_when_written() -> None:
    for angle in (np.tanh(a), 2 * np.sin(a * np.tanh(b)) + 1):
        with pytest.raises(CircuitError, match=r"tanh, which OpenQASM has not.*exp"):
            Circuit(1).rx(angle, 0).to_qasm()
    written = Circuit(1).rx(1 - 2 / (np.exp(2 * a) + 1), 0).to_qasm()
    assert Circuit.from_qasm(written).bind([0.7])[0].params[0] == pytest.approx(np.tanh(0.7))


@pytest.mark.parametrize("values", [{"a": 1.0, "v": [2.0, 3.0]}, {"v[0]": 2.0, "a": 1.0, "v[1]": 3.0}])
def test_values_are_given_by_name(values: dict[str, object]) -> None:
    circuit = Circuit(1).rx(a + v[0], 0).ry(v[1], 0)
    assert [i.params[0] for i in circuit.bind(values)] == [3.0, 3.0]


def test_wrong_names_are_answered_with_the_right_ones() -> None:
    circuit = Circuit(1).rx(Parameter("theta"), 0)
    with pytest.raises(CircuitError, match="no parameter thta; it has theta; did you mean 'theta'"):
        circuit.bind({"thta": 1.0})
    with pytest.raises(CircuitError, match="another object named 'theta': give its name instead"):
        circuit.bind({Parameter("theta"): 1.0})
