"""Evaluation of OpenQASM expressions, and what the two versions of the language put into them.

Values are int, float, bool and `Expression`s of input parameters; in conditions also bits, which only
`conditions.py` understands. What has no derivative by the input parameters is refused where it stands.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from ..errors import CircuitError
from ..functions import FUNCTIONS, elementary
from ..parameters import Expression, total
from .errors import Source
from .syntax import Binary, Call, Constant, Expr, Index, Name, Node, Unary

# Integers beyond this many bits are a mistake or an attack (2 ** 2 ** 60), never an index or an angle.
MAX_INT_BITS = 8192


# Terms of an affine expression that are copied or scaled in about a microsecond.
_TERMS_PER_UNIT = 4


class Scope(Protocol):
    """What an expression may name: numbers, parameters, arrays of parameters, and bits."""

    def value(self, name: str, source: Source, start: int, end: int) -> Any: ...

    def spend(self, amount: int, node: Node) -> None:
        """Count work on long expressions of parameters, in units of about a microsecond."""


@dataclass(frozen=True)
class Language:
    """What expressions hold in one version of OpenQASM."""

    binary: dict[str, int]  # precedence of each operator; the higher binds tighter
    unary: frozenset[str]
    power: str  # the one operator that binds tighter than unary minus, and groups from the right
    functions: dict[str, tuple[int, Callable[..., Any]]]
    constants: dict[str, float]
    casts: frozenset[str]
    integer_division: bool


def _modulo(a: Any, b: Any) -> Any:
    """The remainder with the sign of `a`, as in C."""
    if isinstance(a, int) and isinstance(b, int):
        return abs(a) % abs(b) * (1 if a >= 0 else -1)
    return math.fmod(a, b)


def _power(a: Any, b: Any) -> Any:
    if isinstance(a, Expression) or isinstance(b, Expression):
        return a**b
    if isinstance(a, int) and isinstance(b, int) and b >= 0:
        if a.bit_length() * b > MAX_INT_BITS:
            raise OverflowError
        return a**b
    return math.pow(a, b)


def _shift_left(a: int, b: int) -> int:
    if a.bit_length() + b > MAX_INT_BITS:
        raise OverflowError
    return a << b


_TRIGONOMETRY = {"sin": (1, math.sin), "cos": (1, math.cos), "tan": (1, math.tan)}

VERSION_2 = Language(
    binary={"+": 1, "-": 1, "*": 2, "/": 2, "^": 4},
    unary=frozenset("-+"),
    power="^",
    functions={**_TRIGONOMETRY, "exp": (1, math.exp), "ln": (1, math.log), "sqrt": (1, math.sqrt)},
    constants={"pi": math.pi},
    casts=frozenset(),
    integer_division=False,
)

VERSION_3 = Language(
    binary={
        **{"||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, "<=": 7, ">": 7, ">=": 7},
        **{"<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10, "**": 12},
    },
    unary=frozenset("-!~"),
    power="**",
    functions={
        **_TRIGONOMETRY,
        "arccos": (1, math.acos),
        "arcsin": (1, math.asin),
        "arctan": (1, math.atan),
        "exp": (1, math.exp),
        "log": (1, math.log),
        "sqrt": (1, math.sqrt),
        "floor": (1, lambda x: float(math.floor(x))),
        "ceiling": (1, lambda x: float(math.ceil(x))),
        "mod": (2, _modulo),
        "pow": (2, _power),
        "popcount": (1, lambda x: operator.index(x).bit_count()),
    },
    constants={
        **{"pi": math.pi, "π": math.pi, "tau": math.tau, "τ": math.tau},
        **{"euler": math.e, "ℇ": math.e},
    },
    casts=frozenset({"int", "uint", "float", "bool"}),
    integer_division=True,
)

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "%": _modulo,
    "**": _power,
}
SYMBOLIC: dict[str, Callable[..., Any]] = {
    **{name: partial(elementary, name) for name in FUNCTIONS},
    "pow": operator.pow,
}
"""Functions that input parameters may stand in."""
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_BITWISE: dict[str, Callable[[int, int], int]] = {
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": _shift_left,
    ">>": operator.rshift,
}


def evaluate(node: Expr, scope: Scope, language: Language) -> Any:
    """The value of an expression whose names mean what `scope` says.

    Raises QasmError, at the operation that fails, for unknown names, division by zero, overflow, arguments
    outside a function's domain, and operations on input parameters that leave the affine.
    """
    match node:
        case Constant(value=value):
            return value
        case Name(name=name):
            return scope.value(name, node.source, node.start, node.end)
        case Index():
            return _element(node, scope, language)
        case Unary(op=op, operand=operand):
            value = evaluate(operand, scope, language)
            _spend_on(value, scope, node)
            return _unary(node, op, value)
        case Binary():
            return _chain(node, scope, language)
        case Call(function=function, arguments=arguments):
            return _call(node, function, [evaluate(argument, scope, language) for argument in arguments], language)
    raise AssertionError(node)


def _chain(node: Binary, scope: Scope, language: Language) -> Any:
    """`a + b - c * ...`: operations that group from the left, without a Python frame for each of them."""
    steps: list[Binary] = []
    first: Expr = node
    while isinstance(first, Binary):
        steps.append(first)
        first = first.left
    value = evaluate(first, scope, language)
    # Terms of a sum over parameters, added up at its end: one by one would take quadratic time.
    terms: list[Any] = []
    for step in reversed(steps):
        right = evaluate(step.right, scope, language)
        adds = step.op in ("+", "-") and is_number(right)
        if adds and not terms and is_number(value) and (_is_symbolic(value) or _is_symbolic(right)):
            terms.append(value)
        if adds and terms:
            terms.append(-right if step.op == "-" else right)
            continue
        if terms:
            value = _total(step, terms, scope)
            terms = []
        _spend_on(value, scope, step)
        value = _binary(step, step.op, value, right, language)
    return _total(node, terms, scope) if terms else value


def _total(node: Node, terms: list[Any], scope: Scope) -> Any:
    scope.spend(sum(len(term.terms) for term in terms if _is_symbolic(term)) // _TERMS_PER_UNIT, node)
    return _guarded(node, lambda: total(terms))


def _spend_on(value: Any, scope: Scope, node: Node) -> None:
    """Count the work of one operation on a value."""
    if _is_symbolic(value) and len(value.terms) >= _TERMS_PER_UNIT:
        scope.spend(len(value.terms) // _TERMS_PER_UNIT, node)


def _element(node: Index, scope: Scope, language: Language) -> Any:
    collection = scope.value(node.name, node.source, node.start, node.start + len(node.name))
    if not isinstance(node.selector, Expr):
        raise node.error("a range or a set selects qubits and bits; it is no number")
    index = evaluate(node.selector, scope, language)
    if isinstance(index, bool) or not isinstance(index, int):
        raise node.selector.error(f"an index must be an integer; got {describe(index)}")
    try:
        size = len(collection)
    except TypeError:
        raise node.error(f"'{node.name}' is {describe(collection)} and cannot be indexed") from None
    if not -size <= index < size:
        raise node.selector.error(f"index {index} is out of range: '{node.name}' has {size} elements")
    return collection[index]


def _unary(node: Node, op: str, value: Any) -> Any:
    if op == "!" and isinstance(value, bool):
        return not value
    if op in "+-" and is_number(value):
        return -value if op == "-" else value
    if op == "~":
        raise node.error("bitwise negation '~' is not supported")
    raise node.error(f"'{op}' cannot be applied to {describe(value)}")


def _binary(node: Binary, op: str, left: Any, right: Any, language: Language) -> Any:
    if op in ("&&", "||"):
        if isinstance(left, bool) and isinstance(right, bool):
            return (left and right) if op == "&&" else (left or right)
    elif op in _COMPARISONS:
        if isinstance(left, bool) and isinstance(right, bool) and op in ("==", "!="):
            return _COMPARISONS[op](left, right)
        if _is_plain(left) and _is_plain(right):
            return _COMPARISONS[op](left, right)
    elif op in _BITWISE:
        if _is_int(left) and _is_int(right):
            return _guarded(node, lambda: _BITWISE[op](left, right))
    elif is_number(left) and is_number(right):
        return _arithmetic(node, op, left, right, language)
    raise node.error(f"'{op}' cannot be applied to {describe(left)} and {describe(right)}")


def _arithmetic(node: Binary, op: str, left: Any, right: Any, language: Language) -> Any:
    symbolic = isinstance(left, Expression) or isinstance(right, Expression)
    if symbolic and op not in ("+", "-", "*", "/", "**"):
        raise node.error(f"'{op}' of an input parameter is no angle; only +, -, *, / and ** are")
    if op == "/" and language.integer_division and _is_int(left) and _is_int(right) and right != 0:
        # Readers disagree on 1/2: the specification says 0, some tools say 0.5. Neither should be silent.
        if left % right:
            raise node.error(
                f"{left}/{right} divides integers, which OpenQASM 3 rounds toward zero; "
                f"write {left}.0/{right} for the quotient"
            )
        return left // right
    return _guarded(node, lambda: _ARITHMETIC[op](left, right))


def _call(node: Call, function: str, values: list[Any], language: Language) -> Any:
    symbolic = any(isinstance(value, Expression) for value in values)
    if symbolic and function in SYMBOLIC and all(is_number(value) for value in values):
        return _guarded(node, lambda: SYMBOLIC[function](*values))
    for value in values:
        if isinstance(value, Expression):
            raise node.error(
                f"'{function}' of an input parameter has no derivative; compute it first and pass the result"
            )
        if not _is_plain(value) and not (isinstance(value, bool) and function in language.casts):
            raise node.error(f"'{function}' cannot be applied to {describe(value)}")
    if function in language.functions:
        return _guarded(node, lambda: language.functions[function][1](*values))
    cast = {"int": int, "uint": int, "float": float, "bool": bool}[function]
    result = _guarded(node, lambda: cast(values[0]))
    if function == "uint" and result < 0:
        raise node.error(f"{values[0]} cannot be a uint: it is negative")
    return result


def _guarded(node: Node, operation: Callable[[], Any]) -> Any:
    """The result of an operation that may fail on its numbers, as a QasmError where it does."""
    try:
        value = operation()
    except ZeroDivisionError:
        raise node.error("division by zero") from None
    except OverflowError:
        raise node.error("the result is too large") from None
    except CircuitError as error:
        raise node.error(str(error)) from None
    except (ValueError, TypeError):
        raise node.error("the argument is outside the function's domain") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise node.error("the result is too large")
    if isinstance(value, int) and value.bit_length() > MAX_INT_BITS:
        raise node.error("the result is too large")
    return value


def is_number(value: Any) -> bool:
    """Whether a value can stand in arithmetic: an int, a float or an affine expression of parameters."""
    return isinstance(value, int | float | Expression) and not isinstance(value, bool)


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, Expression)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_plain(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def describe(value: Any) -> str:
    """A value as an error names it."""
    if isinstance(value, bool):
        return f"the boolean {str(value).lower()}"
    if isinstance(value, str):
        return f'the bit string "{value}"'
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, Expression):
        return f"the parameter expression {value}"
    return str(value)
