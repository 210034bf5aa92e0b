"""Products and functions of parameters, such as `a * b` and `numpy.sin(a)`, and their derivatives.

A Function is a symbol like a Parameter, so that angles stay affine in symbols. Executors see one more parameter for
each; its value is computed before a run, and the derivative by it goes on to the parameters by the chain rule.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from .errors import CircuitError
from .parameters import NONLINEAR, Angle, Expression, Parameter, as_number

__all__ = ["Call", "Elementary", "Function", "Functions", "apply_ufunc", "call", "power", "product", "quotient"]

Column: TypeAlias = Any
"""A float, or an array with one value a row."""


class Call:
    """What is computed from arguments: one output, or several that are computed together.

    Calls are values: equal ones give equal outputs.
    """

    def values(self, xp: Any, arguments: Sequence[Column]) -> list[Column]:
        """All outputs. xp: the module of the arguments' arrays, NumPy or CuPy."""
        raise NotImplementedError

    def pull_back(self, xp: Any, arguments: Sequence[Column], cotangents: Mapping[int, Column]) -> list[Column]:
        """The derivatives of a loss by each argument, given those by some outputs."""
        raise NotImplementedError

    def change(self, arguments: Sequence[Angle], changes: Sequence[Angle], output: int) -> Angle:
        """The change of an output along changes of the arguments, as an angle."""
        raise NotImplementedError

    def text(self, arguments: Sequence[str], output: int) -> str:
        """As OpenQASM 3 and Python write it."""
        raise NotImplementedError


class Elementary(Call):
    """A function of one or two numbers, by its name in the table."""

    def __init__(self, name: str, value: Callable[..., Column], *partials: Callable[..., Column]) -> None:
        self.name, self._value, self._partials = name, value, partials

    def values(self, xp: Any, arguments: Sequence[Column]) -> list[Column]:
        return [self._value(xp, *arguments)]

    def pull_back(self, xp: Any, arguments: Sequence[Column], cotangents: Mapping[int, Column]) -> list[Column]:
        return [cotangents[0] * partial for partial in self.partials(xp, arguments)]

    def partials(self, xp: Any, arguments: Sequence[Any]) -> list[Any]:
        """The derivative by each argument; of expressions, with an xp for those, as expressions."""
        return [partial(xp, *arguments) for partial in self._partials]

    def text(self, arguments: Sequence[str], output: int) -> str:
        operator = _OPERATORS.get(self.name)
        return operator.join(map(_grouped, arguments)) if operator else f"{self.name}({', '.join(arguments)})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _elementary, (self.name,)


_OPERATORS = {"product": "*", "quotient": "/", "power": "**"}


def _grouped(text: str) -> str:
    """An operand of a product, a quotient or a power, in parentheses unless it is a name, a number or a call."""
    depth = 0
    for character in text:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0 and character in " +-*/":
            return f"({text})"
    return text


def _by_exponent(xp: Any, x: Column, y: Column) -> Column:
    # The limit where x = 0: the derivative of 0**y by y is 0 for y > 0.
    return xp.where(x == 0, 0.0, x**y * xp.log(xp.where(x == 0, 1.0, x)))


# fmt: off
_TABLE = {function.name: function for function in [
    Elementary("product", lambda xp, x, y: x * y, lambda xp, x, y: y, lambda xp, x, y: x),
    Elementary("quotient", lambda xp, x, y: xp.divide(x, y),
               lambda xp, x, y: xp.divide(1.0, y), lambda xp, x, y: -xp.divide(x, y * y)),
    Elementary("power", lambda xp, x, y: xp.power(x, y),
               lambda xp, x, y: y * xp.power(x, y - 1), _by_exponent),
    Elementary("sin", lambda xp, x: xp.sin(x), lambda xp, x: xp.cos(x)),
    Elementary("cos", lambda xp, x: xp.cos(x), lambda xp, x: -xp.sin(x)),
    Elementary("tan", lambda xp, x: xp.tan(x), lambda xp, x: 1 / xp.cos(x) ** 2),
    Elementary("arcsin", lambda xp, x: xp.arcsin(x), lambda xp, x: 1 / xp.sqrt(1 - x * x)),
    Elementary("arccos", lambda xp, x: xp.arccos(x), lambda xp, x: -1 / xp.sqrt(1 - x * x)),
    Elementary("arctan", lambda xp, x: xp.arctan(x), lambda xp, x: 1 / (1 + x * x)),
    Elementary("tanh", lambda xp, x: xp.tanh(x), lambda xp, x: 1 - xp.tanh(x) ** 2),
    Elementary("exp", lambda xp, x: xp.exp(x), lambda xp, x: xp.exp(x)),
    Elementary("log", lambda xp, x: xp.log(x), lambda xp, x: 1 / x),
    Elementary("sqrt", lambda xp, x: xp.sqrt(x), lambda xp, x: 0.5 / xp.sqrt(x)),
]}
# fmt: on


def _elementary(name: str) -> Elementary:
    return _TABLE[name]


FUNCTIONS = tuple(name for name in _TABLE if name not in _OPERATORS)
"""The functions of one parameter, by the names that NumPy and OpenQASM 3 have for them."""


MOST_CALLS = 200
"""In one angle: its text would have as many, however few of them differ."""


class Function(Parameter):
    """One output of a call as a symbol. Equal where call, arguments and output are."""

    __slots__ = ("_arguments", "_call", "_output", "_parameters", "_size")

    _size: int

    def __init__(self, call: Call, arguments: Sequence[Angle], output: int = 0) -> None:
        self._call, self._arguments, self._output = call, tuple(arguments), output
        expressions = [a for a in self._arguments if isinstance(a, Expression)]
        self._size = 1 + sum(s._size for e in expressions for s in e.terms if isinstance(s, Function))
        if self._size > MOST_CALLS:
            raise CircuitError(
                f"an angle of more than {MOST_CALLS} products and functions of parameters: compute a part of it "
                "outside the circuit, and bind it to a Parameter of its own"
            )
        self._parameters = tuple(dict.fromkeys(p for e in expressions for p in e.parameters))
        self._key = (call, self._arguments, output)
        self._hash = hash(self._key)
        self._name = self.format(lambda number: f"{number:.12g}")

    @property
    def call(self) -> tuple[Call, tuple[Angle, ...]]:
        """What computes it, and from what."""
        return self._call, self._arguments

    @property
    def output(self) -> int:
        """Which of the call's outputs it is."""
        return self._output

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        return self._parameters

    def value(self, values: Mapping[Parameter, float | Expression]) -> float | Expression:
        found = [a.bind(values) if isinstance(a, Expression) else a for a in self._arguments]
        return call(self._call, found, self._output)

    def format(self, number: Any) -> str:
        texts = [a.format(number) if isinstance(a, Expression) else number(a) for a in self._arguments]
        return self._call.text(texts, self._output)

    def __reduce__(self) -> tuple[Any, ...]:
        return Function, (self._call, self._arguments, self._output)

    def __repr__(self) -> str:
        return f"Expression({self._name})"


def call(operation: Call, arguments: Sequence[Angle], output: int = 0) -> Angle:
    """An output as an angle: a float where all arguments are numbers. Raises CircuitError where it is not finite."""
    if any(isinstance(argument, Expression) for argument in arguments):
        name, x, y = getattr(operation, "name", ""), arguments[0], arguments[-1]
        # What values have made affine is so again.
        if name == "product" and not (isinstance(x, Expression) and isinstance(y, Expression)):
            return x * y
        if name == "quotient" and not isinstance(y, Expression):
            return x / y
        if name == "power" and not isinstance(y, Expression) and y in (0.0, 1.0):
            return x if y else 0.0 * x + 1.0  # The derivative of x**0 by formula would be 0 / 0 at x = 0.
        return Function(operation, arguments, output)
    with np.errstate(all="ignore"):
        value = float(operation.values(np, [np.float64(a) for a in arguments])[output])
    if not math.isfinite(value):
        raise CircuitError(f"{operation.text([f'{a:.6g}' for a in arguments], output)} is not a finite number")
    return value


def product(x: Angle, y: Angle) -> Angle:
    """x * y, of which at least one is an expression."""
    return call(_TABLE["product"], (x, y))


def quotient(x: Angle, y: Angle) -> Angle:
    """x / y."""
    return call(_TABLE["quotient"], (x, y))


def power(x: Angle, y: Angle) -> Angle:
    """x ** y."""
    return call(_TABLE["power"], (x, y))


def elementary(name: str, x: Angle) -> Angle:
    """One of FUNCTIONS of an angle."""
    return call(_TABLE[name], (x,))


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": lambda x, y: x + y,
    "subtract": lambda x, y: x - y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: x / y,
    "power": lambda x, y: x**y,
    "float_power": lambda x, y: x**y,
    "square": lambda x: x**2,
    "reciprocal": lambda x: 1 / x,
    "negative": lambda x: -x,
    "positive": lambda x: +x,
}


def apply_ufunc(ufunc: Any, method: str, inputs: Sequence[Any], options: Mapping[str, Any]) -> Any:
    """What NumPy's functions of expressions give. Raises TypeError for those that have no derivative here."""
    name = ufunc.__name__
    if method != "__call__" or options or not (name in _ARITHMETIC or name in FUNCTIONS):
        known = ", ".join(FUNCTIONS)
        raise TypeError(f"numpy.{name} is no function of parameters that a circuit can be differentiated by: {known}")
    given: list[Angle] = []
    for value in inputs:
        number = None if isinstance(value, Expression) else as_number(value)
        if number is None and not isinstance(value, Expression):
            raise TypeError(f"numpy.{name} of {value!r} and a parameter: parameters and numbers go one at a time")
        given.append(value if number is None else number)
    return _ARITHMETIC[name](*given) if name in _ARITHMETIC else elementary(name, given[0])


NONLINEAR.update(product=product, quotient=quotient, power=power, ufunc=apply_ufunc)


class _Node(NamedTuple):
    call: Call
    arguments: tuple[Angle, ...]
    outputs: dict[int, Function]


class Functions:
    """The functions in a circuit's angles: from values of its parameters to those of its symbols, and back.

    Symbols are the parameters, then these functions; an AffineMap takes angles from all of them.
    """

    def __init__(self, parameters: Sequence[Parameter], symbols: Sequence[Function]) -> None:
        self.parameters, self.symbols = tuple(parameters), tuple(symbols)
        self._nodes: dict[tuple[Call, tuple[Angle, ...]], _Node] = {}  # Arguments before what is computed from them.
        for symbol in self.symbols:
            self._note(symbol)

    def _note(self, symbol: Function) -> None:
        operation, arguments = symbol.call
        if (operation, arguments) not in self._nodes:
            for argument in arguments:
                for inner in argument.terms if isinstance(argument, Expression) else ():
                    if isinstance(inner, Function):
                        self._note(inner)
            self._nodes[operation, arguments] = _Node(operation, arguments, {})
        self._nodes[operation, arguments].outputs[symbol.output] = symbol

    @property
    def names(self) -> set[str]:
        """Of the functions of the table that any of these is made of."""
        return {node.call.name for node in self._nodes.values() if isinstance(node.call, Elementary)}

    def extended(self, theta: Any, xp: Any = np, check: bool = True) -> Any:
        """Values of the symbols, (..., parameters + functions), for those of the parameters, (..., parameters).

        Raises CircuitError on the host where a function has no finite value, unless told not to check.
        """
        columns = self._columns(theta, xp)
        found = xp.stack([xp.broadcast_to(columns[s], theta.shape[:-1]) for s in self.symbols], axis=-1)
        if check and xp is np and not np.isfinite(found).all():
            self._refuse(theta, found)
        return xp.ascontiguousarray(xp.concatenate([theta, found], axis=-1))

    def pulled_back(self, theta: Any, gradient: Any, xp: Any = np) -> Any:
        """Derivatives by the parameters, (..., parameters), given those by the symbols, (..., parameters + functions).

        theta: the values of the parameters; those of the functions may follow.
        """
        count = len(self.parameters)
        columns = self._columns(theta[..., :count], xp)
        cotangents: dict[Parameter, Column] = {
            symbol: gradient[..., k] for k, symbol in enumerate((*self.parameters, *self.symbols))
        }
        for node in reversed(self._nodes.values()):
            given = {k: cotangents[symbol] for k, symbol in node.outputs.items() if symbol in cotangents}
            if not given:
                continue
            arguments = [self._value(argument, columns) for argument in node.arguments]
            with np.errstate(all="ignore"):
                found = node.call.pull_back(xp, arguments, given)
            for argument, cotangent in zip(node.arguments, found):
                for symbol, coefficient in argument.terms.items() if isinstance(argument, Expression) else ():
                    cotangents[symbol] = cotangents.get(symbol, 0.0) + coefficient * cotangent
        return xp.stack([xp.broadcast_to(cotangents[p], gradient.shape[:-1]) for p in self.parameters], axis=-1)

    def _columns(self, theta: Any, xp: Any) -> dict[Parameter, Column]:
        columns: dict[Parameter, Column] = {p: theta[..., k] for k, p in enumerate(self.parameters)}
        with np.errstate(all="ignore"):
            for node in self._nodes.values():
                values = node.call.values(xp, [self._value(argument, columns) for argument in node.arguments])
                columns.update({symbol: values[k] for k, symbol in node.outputs.items()})
        return columns

    @staticmethod
    def _value(angle: Angle, columns: Mapping[Parameter, Column]) -> Column:
        if not isinstance(angle, Expression):
            return angle
        return sum((c * columns[symbol] for symbol, c in angle.terms.items()), np.float64(angle.constant))

    def _refuse(self, theta: np.ndarray, found: np.ndarray) -> None:
        *row, which = np.argwhere(~np.isfinite(found))[0].tolist()
        symbol = self.symbols[which]
        places = {p: k for k, p in enumerate(self.parameters)}
        given = ", ".join(f"{p.name} = {theta[(*row, places[p])]:.6g}" for p in symbol.parameters)
        where = f" in row {row[0]}" if row else ""
        raise CircuitError(f"{symbol.name} is not a finite number for {given}{where}")
