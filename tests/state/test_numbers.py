"""Numbers that users give: real and finite where they must be, the same rule for one set and for a batch."""

from fractions import Fraction

import numpy as np
import pytest

import qdist as qd
from qdist.backends.errors import StateError
from qdist.circuit import CircuitError
from qdist.tensor import Tensor

THETA = qd.ParameterVector("theta", 3)


def circuit() -> qd.Circuit:
    return qd.Circuit(3).ry(THETA[0], 0).ry(THETA[1], 1).cx(0, 1).rx(THETA[2], 2)


def program() -> qd.Program:
    return qd.compile(circuit(), dtype="complex128")


CALLS = {
    "bind": lambda p, x: p.bind(x),
    "run": lambda p, x: p.run(x),
    "run_batch": lambda p, x: p.run_batch(x),
    "expectation": lambda p, x: p.expectation("Z0", x),
    "counts": lambda p, x: p.counts(3, x),
    "adjoint": lambda p, x: p.value_and_grad("Z0", x),
    "parameter-shift": lambda p, x: p.value_and_grad("Z0", x, method="parameter-shift"),
    "finite-difference": lambda p, x: p.value_and_grad("Z0", x, method="finite-difference"),
    "vjp": lambda p, x: p.vjp(["Z0"], x, [np.ones(np.shape(x)[:-1])]),
    "jacobian": lambda p, x: p.jacobian(["Z0"], x),
}
SETS = {
    "complex": np.array([0.1, 0.2 + 1j, 0.3]),
    "complex without an imaginary part": np.array([0.1, 0.2, 0.3], np.complex64),
    "text": np.array(["0.1", "0.2", "0.3"]),
    "objects": np.array([0.1, None, 0.3], object),
    "complex objects": np.array([0.1, 1j, 0.3], object),
    "arrays": np.array([0.1, np.array(1j), 0.3], object),
    "nan": np.array([0.1, np.nan, 0.3]),
    "infinity": np.array([0.1, 0.2, -np.inf]),
    "too large": np.array([0.1, 10**400, 0.3], object),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("values", SETS.values(), ids=SETS)
@pytest.mark.parametrize("name", CALLS)
def test_what_is_no_finite_real_number_is_refused_in_a_set_and_in_a_batch(name: str, values: np.ndarray) -> None:
    batched, single = name not in ("bind", "run", "counts"), name != "run_batch"
    p = program()
    with pytest.raises((StateError, CircuitError), match=r"real number|finite|must be a"):
        CALLS[name](p, np.stack([np.full(3, 0.1).astype(values.dtype), values]) if batched else values)
    if single:
        with pytest.raises((StateError, CircuitError), match=r"finite|number"):
            CALLS[name](p, values)


def test_whatever_is_a_real_number_counts_the_same_in_a_set_and_in_a_batch() -> None:
    p, want = program(), program().expectation("Z0", [0.0, 1.0, 1.0])
    for values in (
        [0, 1, 1],
        np.array([0, 1, 1], np.uint8),
        np.array([False, True, True]),
        [Fraction(0), Fraction(1), 1],
        np.array([0, 1, 1], np.float16),
    ):
        assert p.expectation("Z0", values) == want
        np.testing.assert_array_equal(p.expectation("Z0", [values, values]), [want, want])


def test_the_error_of_a_batch_says_where() -> None:
    with pytest.raises(StateError, match="row 1, column 2 is nan"):
        program().run_batch([[0, 0, 0], [0, 0, np.nan]])
    with pytest.raises(StateError, match="got an array of complex128"):
        program().run_batch(np.zeros((2, 3), complex))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("angle", [1j, np.array(1j), "0.3", np.array("0.3"), None, np.nan, 10**400, np.complex64(1)])
def test_angles_of_gates_are_finite_real_numbers(angle: object) -> None:
    with pytest.raises(CircuitError, match="finite real number"):
        qd.Circuit(1).rx(angle, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("coefficient", ["1.5", None, np.nan, np.inf, [1.0]])
def test_coefficients_of_observables_are_finite_numbers(coefficient: object) -> None:
    for terms in ({"Z0": coefficient}, {"Z0": coefficient, "X0": Fraction(1, 2)}):
        with pytest.raises((CircuitError, TypeError, ValueError)):
            qd.PauliSum(terms)  # type: ignore[dict-item]


@pytest.mark.filterwarnings("error")
def test_a_layer_takes_real_finite_features_only() -> None:
    layer = qd.nn.QuantumLayer(circuit(), "Z0", inputs=THETA)
    for x in (np.array([[0.1, 1j, 0.2]]), Tensor(np.array([[0.1, 1j, 0.2]]))):
        with pytest.raises(TypeError, match="real numbers"):
            layer(x)
    for rows in (1, 5):
        with pytest.raises(StateError, match="finite"):
            layer(np.full((rows, 3), np.nan, np.float32))
    # Integers become floats, and so do the outputs.
    assert abs(layer(np.array([[1, 0, 0]])).item() - np.cos(1)) < 1e-6


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("cotangent", [1j, "1", None, np.nan, np.inf, np.array([1.0], object)])
def test_cotangents_are_finite_numbers_of_their_output(cotangent: object) -> None:
    with pytest.raises(StateError, match="cotangent"):
        program().vjp(["Z0"], [0.1, 0.2, 0.3], [cotangent])
