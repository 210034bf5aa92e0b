"""Parameters: affine arithmetic, identity through pickling, and the values they are given."""

from __future__ import annotations

import copy
import math
import pickle
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qdist.circuit import CircuitError, Expression, Parameter, ParameterVector
from qdist.circuit.binding import flat_values, resolve_values

a, b = Parameter("a"), Parameter("b")
numbers = st.floats(-100, 100, allow_nan=False)


@settings(deadline=None, derandomize=True)
@given(numbers, numbers, numbers, numbers, numbers)
def test_arithmetic_agrees_with_numbers(p: float, q: float, r: float, x: float, y: float) -> None:
    divisor = r if abs(r) > 1e-3 else 1.0

    def formula(u: float | Expression, v: float | Expression) -> float | Expression:
        return -(p * u - v * q + r) / divisor + (u - 1) - (2 - v) + (+u)

    found = formula(a, b).bind({a: x, b: y})
    assert found == pytest.approx(formula(x, y), rel=1e-9, abs=1e-6)


def test_terms_and_constant_are_exact() -> None:
    expression = 2 * a - b / 3 + 0.3
    assert expression.terms == {a: 2.0, b: -1 / 3}
    assert expression.constant == 0.3
    assert expression.parameters == (a, b)
    assert a.terms == {a: 1.0}
    assert a.constant == 0.0


def test_a_parameter_that_cancels_is_not_forgotten() -> None:
    """Otherwise the parameters of a circuit would depend on the values of its coefficients."""
    assert (a - a + b).terms == {a: 0.0, b: 1.0}
    assert (0 * a).parameters == (a,)
    assert (0 * a).bind({a: 5.0}) == 0.0


def test_one_times_a_parameter_is_that_parameter() -> None:
    assert 1 * a is a
    assert a + 0 is a
    assert 2 * a - a is a
    assert hash(2 * a / 2) == hash(a)


def test_equality_is_of_the_affine_form() -> None:
    assert a + b == b + a
    assert hash(a + b) == hash(b + a)
    assert 2 * a + 1 == 1 + a + a
    assert 2 * a != 3 * a
    assert a != b
    assert a != a + 1
    assert a + 1 != a
    assert a != "a"


def test_a_name_alone_does_not_make_parameters_equal() -> None:
    assert Parameter("a") != a
    assert ParameterVector("v", 2)[0] != ParameterVector("v", 2)[0]


def test_identity_survives_pickling_and_copying() -> None:
    vector = ParameterVector("theta", 3)
    for restore in (lambda x: pickle.loads(pickle.dumps(x)), copy.copy, copy.deepcopy):
        assert restore(a) == a
        assert hash(restore(a)) == hash(a)
        assert restore(vector[1]) == vector[1]
        assert restore(vector) == vector
        assert restore(2 * a + vector[0] + 1) == 2 * a + vector[0] + 1
        assert restore(vector[2]).vector == vector
        assert restore(vector[2]).name == "theta[2]"


def test_vectors_are_sequences() -> None:
    vector = ParameterVector("theta", 5)
    assert len(vector) == 5
    assert [element.name for element in vector] == [f"theta[{k}]" for k in range(5)]
    assert vector[-1] is vector[4]
    assert vector[1:4:2] == (vector[1], vector[3])
    assert vector[3].index == 3
    assert vector[3] in vector
    with pytest.raises(IndexError, match=r"theta\[5\] is out of range: the vector has 5 elements"):
        vector[5]


def test_numpy_scalars_take_part_in_arithmetic() -> None:
    assert np.float64(2) * a == 2 * a
    assert a * np.float32(2) == 2 * a
    assert np.int64(3) + a == 3 + a
    assert np.array(0.5) - a == 0.5 - a
    assert isinstance((np.float64(2) * a).terms[a], float)


@pytest.mark.parametrize(
    ("compute", "message"),
    [
        (lambda: a / 0, "divided by zero"),
        (lambda: a + math.nan, "must be finite"),
        (lambda: math.inf * a, "must be finite"),
        (lambda: float(a + 1), r"a \+ 1 has unbound parameters \(a\)"),
        (lambda: Parameter(""), "non-empty str"),
        (lambda: ParameterVector("v", -1), "int >= 0; got -1"),
        (lambda: ParameterVector("", 1), "non-empty str"),
    ],
)
def test_what_is_no_angle_is_refused_with_the_reason(compute: object, message: str) -> None:
    with pytest.raises(CircuitError, match=message):
        compute()  # type: ignore[operator]


@pytest.mark.parametrize("other", ["x", None, 1j, np.ones(2), [1.0]])
def test_arithmetic_with_other_types_is_a_type_error(other: object) -> None:
    for compute in (lambda: a + other, lambda: other - a, lambda: a * other, lambda: a - other):
        with pytest.raises(TypeError):
            compute()


def test_text_reads_as_the_formula() -> None:
    v = ParameterVector("theta", 2)
    assert str(2 * v[0] - v[1] / 4 + 0.3) == "2*theta[0] - 0.25*theta[1] + 0.3"
    assert str(-a - 1) == "-a - 1"
    assert str(a) == "a"
    assert repr(a) == "Parameter('a')"
    assert repr(a + 1) == "Expression(a + 1.0)"
    assert repr(v) == "ParameterVector('theta', 2)"


def test_binding_substitutes_numbers_and_expressions() -> None:
    expression = 2 * a + b + 1
    assert expression.bind({a: 3}) == b + 7
    assert expression.bind({a: 3, b: 4}) == 11.0
    assert isinstance(expression.bind({a: 3, b: 4}), float)
    assert expression.bind({a: b / 2 + 1}) == 2 * b + 3
    assert expression.bind({}) == expression


def test_values_come_from_mappings_and_arrays() -> None:
    v = ParameterVector("v", 2)
    wanted = (a, v[0], v[1])
    expected = {a: 1.0, v[0]: 2.0, v[1]: 3.0}
    assert resolve_values(wanted, {a: 1, v: [2, 3]}) == expected
    assert resolve_values(wanted, {a: 1, v[1]: 3, v[0]: 2}) == expected
    assert resolve_values(wanted, np.array([1.0, 2.0, 3.0])) == expected
    assert resolve_values(wanted, [1, 2, 3]) == expected
    assert resolve_values(wanted, {v[1]: 3}, partial=True) == {v[1]: 3.0}
    # Elements of a vector that the circuit does not use may be given along with the others.
    assert resolve_values((v[1],), {v: [2, 3]}) == {v[1]: 3.0}


def test_flat_values_are_float64_in_the_order_asked_for() -> None:
    v = ParameterVector("v", 2)
    for given_values in (
        {v: [2, 3], a: 1},
        [1, 2, 3],
        np.array([1, 2, 3]),
        np.array([1, 2, 3], dtype=np.float32),
    ):
        values = flat_values((a, *v), given_values)
        assert values.dtype == np.float64
        np.testing.assert_array_equal(values, [1.0, 2.0, 3.0])
    source = np.zeros(1)
    flat_values((a,), source)[0] = 1.0
    assert source[0] == 0.0
    with pytest.raises(CircuitError, match="value of parameter a must be a finite number; got nan"):
        flat_values((a,), np.array([math.nan]))
    with pytest.raises(CircuitError, match="value of parameter a must be a finite number; got nan"):
        flat_values((a,), np.ma.array([1.0], mask=[True]))
    np.testing.assert_array_equal(flat_values((a,), np.ma.array([1], mask=[False])), [1.0])
    with pytest.raises(CircuitError, match="value of parameter a must be a number; got b"):
        flat_values((a,), {a: b})


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({a: 1.0}, "no value is given for parameter b"),
        ({a: 1.0, b: 2.0, Parameter("z"): 3.0}, "no parameter z; it has a, b"),
        ({a: 1.0, b: math.nan}, "value of parameter b must be a finite number; got nan"),
        ({a: 1.0, b: "2"}, "must be a finite number; got '2'"),
        ([1.0], "2 parameters take as many values; got 1"),
        (np.ones((2, 2)), "must be a finite number"),
        (3.0, "params must be a sequence of numbers; got 3.0"),
        ({1.0, 2.0}, "params must be a sequence of numbers; got {1.0, 2.0}"),
        (np.ma.array([1.0, 2.0], mask=[False, True]), "value of parameter b must be a finite number; got nan"),
    ],
)
def test_wrong_values_are_named(values: object, message: str) -> None:
    with pytest.raises(CircuitError, match=message):
        resolve_values((a, b), values)  # type: ignore[arg-type]


def test_wrong_vector_values_are_named() -> None:
    v = ParameterVector("v", 2)
    with pytest.raises(CircuitError, match="v has 2 elements; got 3"):
        resolve_values(tuple(v), {v: [1, 2, 3]})
    with pytest.raises(CircuitError, match=r"v\[0\] is given twice"):
        resolve_values(tuple(v), {v: [1, 2], v[0]: 1})
    with pytest.raises(CircuitError, match="the value of v must be a sequence"):
        resolve_values(tuple(v), {v: 1.0})


class Labelled:
    """Values by name, as a pandas Series has them."""

    def __init__(self, **values: float) -> None:
        self.index, self.values = np.array(list(values)), list(values.values())

    def items(self) -> Iterator[tuple[str, float]]:
        return zip(self.index, self.values)

    def __iter__(self) -> Iterator[float]:
        return iter(self.values)


def test_values_with_names_go_by_them() -> None:
    parameters = Parameter("a"), Parameter("b")
    given: Any = Labelled(b=2.0, a=1.0)
    assert flat_values(parameters, given).tolist() == [1.0, 2.0]
    given = Labelled(b=2.0, c=1.0)
    with pytest.raises(CircuitError, match="no parameter c"):
        flat_values(parameters, given)
    given.index = np.arange(2)  # Numbers are no names: the order counts.
    assert flat_values(parameters, given).tolist() == [2.0, 1.0]


def test_a_text_is_no_list_of_values() -> None:
    given: Any = "0.1"
    with pytest.raises(CircuitError, match=r"must be a sequence of numbers; got '0\.1'"):
        flat_values([Parameter("a")], given)
