"""Symbolic angles: Parameter, ParameterVector, and affine expressions of them.

An angle is affine, `sum_k a_k theta_k + b`: an executor can then compute all the angles of a circuit in one product
`A @ theta + b`, and the chain rule of a gradient is the transposed product. Products and functions of parameters are
symbols of their own in it (functions.py), whose values are computed in front of the circuit.
"""

from __future__ import annotations

import math
import numbers
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias, overload

from .errors import CircuitError

# Arithmetic that is not affine; functions.py fills it.
NONLINEAR: dict[str, Callable[..., Any]] = {}


class Expression:
    """An affine form: {Parameter: coefficient} plus a constant.

    Made by arithmetic on Parameters: `2 * t[0] - t[1] / 3 + 0.3`, `t[0] * t[1]`, `numpy.sin(t[0]) ** 2`. Immutable and
    hashable. A parameter whose coefficients cancel stays in the expression with coefficient 0, so that the parameters
    of a circuit do not depend on the values of its coefficients.
    """

    __slots__ = ("_constant", "_terms")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """What `numpy.sin(a)` gives, and arithmetic with a NumPy scalar on the left."""
        return NONLINEAR["ufunc"](ufunc, method, inputs, options)

    _terms: dict[Parameter, float]
    _constant: float

    @property
    def terms(self) -> Mapping[Parameter, float]:
        """The coefficient of each symbol (a parameter, or a function of some), in the order of the expression."""
        return self._terms

    @property
    def constant(self) -> float:
        """The part that depends on no parameter."""
        return self._constant

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The parameters the expression depends on."""
        return tuple(dict.fromkeys(parameter for symbol in self.terms for parameter in symbol.parameters))

    def bind(self, values: Mapping[Parameter, float | Expression]) -> float | Expression:
        """Put values (numbers, or other expressions) in the place of parameters.

        Returns a float when no parameter is left, and an Expression of the remaining ones otherwise.
        """
        terms: dict[Parameter, float] = {}
        constant = self.constant
        for parameter, coefficient in self.terms.items():
            value = parameter.value(values)
            if isinstance(value, Expression):
                for inner, factor in value.terms.items():
                    terms[inner] = terms.get(inner, 0.0) + coefficient * factor
                constant += coefficient * value.constant
            else:
                constant += coefficient * float(value)
        return _expression(terms, constant) if terms else constant

    def __add__(self, other: Any) -> Expression:
        if isinstance(other, Expression):
            terms = dict(self.terms)
            for parameter, coefficient in other.terms.items():
                terms[parameter] = terms.get(parameter, 0.0) + coefficient
            return _expression(terms, self.constant + other.constant)
        number = as_number(other)
        if number is None:
            return NotImplemented
        return _expression(self.terms, self.constant + number)

    __radd__ = __add__

    def __neg__(self) -> Expression:
        return self._scaled(-1.0)

    def __pos__(self) -> Expression:
        return self

    def __sub__(self, other: Any) -> Expression:
        if isinstance(other, Expression):
            return self + (-other)
        number = as_number(other)
        return NotImplemented if number is None else self + (-number)

    def __rsub__(self, other: Any) -> Expression:
        return (-self) + other

    def __mul__(self, other: Any) -> Expression:
        if isinstance(other, Expression):
            return NONLINEAR["product"](self, other)
        number = as_number(other)
        return NotImplemented if number is None else self._scaled(number)

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Expression:
        if isinstance(other, Expression):
            return NONLINEAR["quotient"](self, other)
        number = as_number(other)
        if number is None:
            return NotImplemented
        if number == 0.0:
            raise CircuitError(f"({self}) / 0: an angle cannot be divided by zero")
        # Each number is divided, not multiplied by a rounded reciprocal, so that t / 3 has the coefficient 1
        # / 3.
        return _expression({p: a / number for p, a in self.terms.items()}, self.constant / number)

    def __rtruediv__(self, other: Any) -> Expression:
        number = as_number(other)
        return NotImplemented if number is None else NONLINEAR["quotient"](number, self)

    def __pow__(self, other: Any) -> Expression:
        exponent = other if isinstance(other, Expression) else as_number(other)
        return NotImplemented if exponent is None else NONLINEAR["power"](self, exponent)

    def __rpow__(self, other: Any) -> Expression:
        base = as_number(other)
        return NotImplemented if base is None else NONLINEAR["power"](base, self)

    def _scaled(self, factor: float) -> Expression:
        return _expression({p: factor * a for p, a in self.terms.items()}, factor * self.constant)

    def __float__(self) -> float:
        names = ", ".join(parameter.name for parameter in self.parameters)
        raise CircuitError(
            f"the angle {self} has unbound parameters ({names}); bind them to numbers first, and for functions of "
            "parameters take NumPy's: numpy.sin(a)"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expression):
            return NotImplemented
        return self.constant == other.constant and self.terms == other.terms

    def __hash__(self) -> int:
        return hash((frozenset(self.terms.items()), self.constant))

    def __reduce__(self) -> tuple[Any, ...]:
        return _expression, (dict(self.terms), self.constant)

    def __str__(self) -> str:
        return self.format(lambda number: f"{number:.12g}")

    def __repr__(self) -> str:
        return f"Expression({self.format(repr)})"

    def format(self, number: Any) -> str:
        """The expression as text, with `number(float) -> str` for its coefficients."""
        text = ""
        for parameter, coefficient in self.terms.items():
            sign = "-" if math.copysign(1.0, coefficient) < 0 else "+"
            size = abs(coefficient)
            name = parameter.format(number)
            product = name if size == 1.0 else f"{number(size)}*{name}"
            text += f" {sign} {product}" if text else product if sign == "+" else f"-{product}"
        if self.constant != 0.0:
            text += f" {'-' if self.constant < 0 else '+'} {number(abs(self.constant))}"
        return text


class Parameter(Expression):
    """A named symbol for an angle.

    Two Parameters are equal only when one is the other or a copy of it (by copying or pickling): the same
    name alone does not make them the same parameter.

    >>> a, b = Parameter("a"), Parameter("b")
    >>> Circuit(1).rx(2 * a + b - 0.5, 0).num_parameters
    2
    """

    __slots__ = ("_hash", "_key", "_name")

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise CircuitError(f"a Parameter needs a name, a non-empty str; got {name!r}")
        self._set(name, uuid.uuid4().int)

    _name: str
    _key: Any
    _hash: int

    def _set(self, name: str, key: int | tuple[int, int]) -> None:
        self._name = name
        self._key = key
        self._hash = hash(key)

    @property
    def name(self) -> str:
        """What drawings, OpenQASM and values by name call it."""
        return self._name

    @property
    def terms(self) -> Mapping[Parameter, float]:
        return {self: 1.0}

    @property
    def constant(self) -> float:
        return 0.0

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return (self,)

    def value(self, values: Mapping[Parameter, float | Expression]) -> float | Expression:
        """The value that it is given, or itself where it is given none."""
        return values.get(self, self)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, Parameter):
            return self._key == other._key
        return False if isinstance(other, Expression) else NotImplemented

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_parameter, (self._name, self._key)

    def format(self, number: Any) -> str:
        return self._name

    def __repr__(self) -> str:
        return f"Parameter({self._name!r})"


class ParameterVectorElement(Parameter):
    """One element of a ParameterVector; it knows its vector and its place in it."""

    __slots__ = ("_index", "_vector")

    def __init__(self, vector: ParameterVector, index: int) -> None:
        self._vector = vector
        self._index = index
        self._set(f"{vector.name}[{index}]", (vector._key, index))

    @property
    def vector(self) -> ParameterVector:
        return self._vector

    @property
    def index(self) -> int:
        return self._index

    def __reduce__(self) -> tuple[Any, ...]:
        return _vector_element, (self._vector, self._index)


class ParameterVector:
    """`n` Parameters under one name: `theta[0]`, `theta[1]`, ... Indexable, sliceable and iterable.

    >>> theta = ParameterVector("theta", 3)
    >>> len(theta), theta[2].name, len(theta[1:])
    (3, 'theta[2]', 2)
    """

    __slots__ = ("_elements", "_key", "_name")

    def __init__(self, name: str, length: int) -> None:
        if not isinstance(name, str) or not name:
            raise CircuitError(f"a ParameterVector needs a name, a non-empty str; got {name!r}")
        if not isinstance(length, numbers.Integral) or length < 0:
            raise CircuitError(f"the length of ParameterVector {name!r} must be an int >= 0; got {length!r}")
        self._set(name, uuid.uuid4().int, int(length))

    def _set(self, name: str, key: int, length: int) -> None:
        self._name = name
        self._key = key
        self._elements = tuple(ParameterVectorElement(self, index) for index in range(length))

    @property
    def name(self) -> str:
        """What drawings, OpenQASM and values by name call it."""
        return self._name

    def __len__(self) -> int:
        return len(self._elements)

    def __iter__(self) -> Iterator[ParameterVectorElement]:
        return iter(self._elements)

    @overload
    def __getitem__(self, index: int) -> ParameterVectorElement: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ParameterVectorElement, ...]: ...
    def __getitem__(self, index: int | slice) -> ParameterVectorElement | tuple[ParameterVectorElement, ...]:
        try:
            return self._elements[index]
        except IndexError:
            raise IndexError(f"{self._name}[{index}] is out of range: the vector has {len(self)} elements") from None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ParameterVector):
            return NotImplemented
        return self._key == other._key and len(self) == len(other)

    def __hash__(self) -> int:
        return hash(self._key)

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_vector, (self._name, self._key, len(self))

    def __repr__(self) -> str:
        return f"ParameterVector({self._name!r}, {len(self)})"


# What a gate takes as a parameter.
Angle: TypeAlias = float | Expression


def _expression(terms: Mapping[Parameter, float], constant: float) -> Expression:
    """The canonical object for an affine form: the Parameter itself when the form is 1 * parameter + 0."""
    if constant == 0.0 and len(terms) == 1:
        (parameter, coefficient) = next(iter(terms.items()))
        if coefficient == 1.0:
            return parameter
    if not math.isfinite(constant) or not all(map(math.isfinite, terms.values())):
        raise CircuitError("the coefficients of an angle must be finite; one is nan or infinite")
    expression = Expression.__new__(Expression)
    expression._terms = dict(terms)
    expression._constant = constant
    return expression


def total(angles: Iterable[Angle]) -> Angle:
    """The sum, added from the left, in a time that grows with the number of terms and not with its square."""
    terms: dict[Parameter, float] = {}
    constant = 0.0
    symbolic = False
    for angle in angles:
        if isinstance(angle, Expression):
            symbolic = True
            for parameter, coefficient in angle.terms.items():
                terms[parameter] = terms.get(parameter, 0.0) + coefficient
            constant += angle.constant
        else:
            constant += angle
    return _expression(terms, constant) if symbolic else constant


def as_number(value: Any) -> float | None:
    """`value` as a float, or None where it is not a real number. What is too large for a float is infinite."""
    try:
        if type(value) in (float, int) or isinstance(value, numbers.Real):
            return float(value)
        # Zero-dimensional arrays (of NumPy, CuPy, torch) are numbers too, unless they hold text or complex numbers.
        kind = getattr(getattr(value, "dtype", None), "kind", "f")
        if getattr(value, "shape", None) == () and kind in "biuf" and not isinstance(value, numbers.Complex):
            return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except (TypeError, ValueError, RuntimeError):
        return None
    return None


def _restore_parameter(name: str, key: int) -> Parameter:
    parameter = Parameter.__new__(Parameter)
    parameter._set(name, key)
    return parameter


def _restore_vector(name: str, key: int, length: int) -> ParameterVector:
    vector = ParameterVector.__new__(ParameterVector)
    vector._set(name, key, length)
    return vector


def _vector_element(vector: ParameterVector, index: int) -> ParameterVectorElement:
    return vector[index]
