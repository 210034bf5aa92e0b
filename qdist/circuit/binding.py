"""The values that parameters are given, and the map from them to the angles of a circuit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from difflib import get_close_matches
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from qdist.native import kernels

from .errors import CircuitError
from .parameters import Expression, Parameter, ParameterVector, ParameterVectorElement, as_number

# What `params` may be wherever values are given: a mapping, or a flat array in the order of the parameters.
ParameterValues: TypeAlias = (
    Mapping[Parameter, Any]
    | Mapping[ParameterVector, Any]
    | Mapping[Parameter | ParameterVector, Any]
    | Mapping[str, Any]
    | Sequence[float]
    | np.ndarray
)


class AffineMap(NamedTuple):
    """All angles of a circuit at once: angles = A @ theta + constants, with A in coordinate form.

    Angles are numbered in the order of the instructions, then of each one's params; theta is in the order of
    `circuit.parameters`.
    """

    slots: np.ndarray  # int64: the angle of each entry of A
    parameters: np.ndarray  # int64: its parameter
    coefficients: np.ndarray  # float64: its value
    constants: np.ndarray  # float64, one an angle
    num_parameters: int

    def __call__(self, theta: ArrayLike) -> np.ndarray:
        """The angles for these parameter values: A @ theta + constants, modulo 4 pi."""
        return self.rows(np.array(theta, dtype=np.float64, ndmin=2))[0]

    def transposed(self, cotangents: ArrayLike) -> np.ndarray:
        """The derivatives by the parameters, given those by the angles: A.T @ cotangents."""
        products = self.coefficients * np.asarray(cotangents, dtype=np.float64)[self.slots]
        # Of nothing at all bincount makes integers.
        return np.bincount(self.parameters, products, minlength=self.num_parameters).astype(np.float64, copy=False)

    def rows(self, theta: np.ndarray) -> np.ndarray:
        """The angles for each row of parameter values, modulo 4 pi: shape (rows, angles).

        Gates have that period in each of their angles; what lies within it stays as it is. Neither products nor sums
        lose digits, however large the values are.
        """
        angles = np.tile(self.constants, (len(theta), 1))
        kernels.add_affine(self.slots, self.parameters, self.coefficients, np.ascontiguousarray(theta), angles)
        return angles

    def transposed_rows(self, cotangents: np.ndarray) -> np.ndarray:
        """`transposed` of each row: shape (rows, parameters)."""
        products = self.coefficients * cotangents[:, self.slots]
        return _scattered(products, self.parameters, self.num_parameters)


def _scattered(columns: np.ndarray, places: np.ndarray, size: int) -> np.ndarray:
    """Columns added up at their places: shape (rows, size)."""
    result = np.zeros((size, len(columns)))
    np.add.at(result, places, columns.T)
    return result.T.copy()


def flat_values(parameters: Sequence[Parameter], given: ParameterValues) -> np.ndarray:
    """One float64 for each of `parameters`, in their order; `given` and errors are as in `resolve_values`."""
    if type(given) is np.ndarray and given.shape == (len(parameters),) and given.dtype.kind in "fiu":
        values = given.astype(np.float64)
        # Sooner found than all(), and without the warnings that sums of huge values give.
        if 0 not in np.isfinite(values).tobytes():
            return values
    resolved = resolve_values(parameters, given)
    for parameter, value in resolved.items():
        if isinstance(value, Expression):
            raise CircuitError(f"the value of parameter {parameter.name} must be a number; got {value}")
    return np.array([resolved[parameter] for parameter in parameters], dtype=np.float64)


def resolve_values(
    parameters: Sequence[Parameter], given: ParameterValues, partial: bool = False
) -> dict[Parameter, float | Expression]:
    """One value for each of `parameters`, from a mapping or from a flat array in their order.

    With `partial` a mapping may leave some out. Raises CircuitError that names what is missing, unknown,
    given twice, of the wrong length, or not a finite number.
    """
    if not isinstance(given, Mapping):
        given = _by_names(given)
    if not isinstance(given, Mapping):
        values = _list(given, "params")
        if len(values) != len(parameters):
            raise CircuitError(
                f"{len(parameters)} parameters take as many values; got {len(values)} (the parameters are "
                f"{_some_names(parameters)})"
            )
        return {parameter: _checked_value(parameter, value) for parameter, value in zip(parameters, values)}
    wanted = set(parameters)
    found: dict[Parameter, float | Expression] = {}
    unknown: list[Parameter | ParameterVector | str] = []
    for key, value in given.items():
        if isinstance(key, str):
            named = named_symbol(parameters, key)
            if named is None:
                unknown.append(key)
                continue
            key = named
        pairs = [(parameter, v) for parameter, v in _pairs(key, value) if parameter in wanted]
        if not pairs:
            unknown.append(key)
        for parameter, v in pairs:
            if parameter in found:
                raise CircuitError(f"parameter {parameter.name} is given twice, by itself and in its vector")
            found[parameter] = _checked_value(parameter, v)
    if unknown:
        close = [] if len(unknown) > 1 else get_close_matches(_some_names(unknown), _names(parameters), 1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise CircuitError(
            f"the circuit has no parameter {_some_names(unknown)}; it has {_some_names(parameters)}{hint}"
            + _same_name(unknown, parameters)
        )
    if not partial and len(found) < len(parameters):
        missing = [parameter for parameter in parameters if parameter not in found]
        raise CircuitError(f"no value is given for parameter {_some_names(missing)}")
    return found


def _by_names(given: Any) -> Any:
    """Values that carry their parameters' names with them, as those of a pandas Series may, as a mapping; others as
    they are."""
    labels = getattr(given, "index", ())
    named = hasattr(given, "items") and hasattr(labels, "dtype") and isinstance(next(iter(labels), None), str)
    return dict(given.items()) if named else given


def named_symbol(parameters: Sequence[Parameter], name: str) -> Parameter | ParameterVector | None:
    """The parameter, or the vector of one, with this name; None where there is none."""
    for parameter in parameters:
        if parameter.name == name:
            return parameter
        if isinstance(parameter, ParameterVectorElement) and parameter.vector.name == name:
            return parameter.vector
    return None


def _names(parameters: Sequence[Parameter]) -> list[str]:
    """All names that values can be given by."""
    vectors = [p.vector.name for p in parameters if isinstance(p, ParameterVectorElement)]
    return list(dict.fromkeys([*vectors, *(parameter.name for parameter in parameters)]))


def _same_name(unknown: Sequence[Any], parameters: Sequence[Parameter]) -> str:
    """What to say where a key is another object of the same name."""
    names = {key.name for key in unknown if not isinstance(key, str) and hasattr(key, "name")}
    same = sorted(names.intersection(_names(parameters)))
    return f" (another object named {same[0]!r}: give its name instead, {{{same[0]!r}: ...}})" if same else ""


def _pairs(key: Parameter | ParameterVector, value: Any) -> list[tuple[Parameter, Any]]:
    if not isinstance(key, ParameterVector):
        return [(key, value)]
    values = _list(value, f"the value of {key.name}")
    if len(values) != len(key):
        raise CircuitError(f"{key.name} has {len(key)} elements; got {len(values)} values for it")
    return list(zip(key, values))


def _list(values: Any, what: str) -> list[Any]:
    try:
        # Sets have no order, and what a mask hides is no value.
        if isinstance(values, Set | str):
            raise TypeError
        return list(np.ma.filled(values.astype(np.float64), np.nan) if np.ma.isMaskedArray(values) else values)
    except TypeError:
        raise CircuitError(f"{what} must be a sequence of numbers; got {values!r}") from None


def _checked_value(parameter: Parameter, value: Any) -> float | Expression:
    if isinstance(value, Expression):
        return value
    number = as_number(value)
    if number is None or not math.isfinite(number):
        shown = value if number is None else number
        raise CircuitError(f"the value of parameter {parameter.name} must be a finite number; got {shown!r}")
    return number


def _some_names(parameters: Sequence[Any]) -> str:
    names = [p if isinstance(p, str) else str(getattr(p, "name", repr(p))) for p in parameters]
    if not names:
        return "none"
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")
