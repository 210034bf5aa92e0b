"""Operators that work on every number by itself; several inputs broadcast."""

from __future__ import annotations

from .primitive import Primitive

__all__ = [
    "ACos",
    "Abs",
    "Add",
    "Asin",
    "Atan",
    "Atan2",
    "Ceil",
    "Complex",
    "Conj",
    "Cos",
    "Cosh",
    "Div",
    "Equal",
    "Erf",
    "Exp",
    "Expm1",
    "Floor",
    "GeLU",
    "Greater",
    "GreaterEqual",
    "Imag",
    "IsFinite",
    "Less",
    "LessEqual",
    "Log",
    "Log1p",
    "LogicalAnd",
    "LogicalNot",
    "LogicalOr",
    "Maximum",
    "Minimum",
    "Mul",
    "Neg",
    "NotEqual",
    "Pow",
    "ReLU",
    "Real",
    "RealDiv",
    "Round",
    "SiLU",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Sqrt",
    "Square",
    "Sub",
    "Tan",
    "Tanh",
]


class Abs(Primitive):
    """|x|."""

    rule = "abs"


class ACos(Primitive):
    """arccos(x)."""

    rule = "arccos"


class Add(Primitive):
    """x + y."""

    rule = "add"


class Asin(Primitive):
    """arcsin(x)."""

    rule = "arcsin"


class Atan(Primitive):
    """arctan(x)."""

    rule = "arctan"


class Atan2(Primitive):
    """The angle of the point (y, x), in the order of the arguments."""

    rule = "arctan2"


class Ceil(Primitive):
    """The smallest whole number that is not less."""

    rule = "ceil"


class Complex(Primitive):
    """x + i y."""

    rule = "complex"


class Conj(Primitive):
    """The complex conjugate."""

    rule = "conj"


class Cos(Primitive):
    """cos(x)."""

    rule = "cos"


class Cosh(Primitive):
    """cosh(x)."""

    rule = "cosh"


class Div(Primitive):
    """x / y."""

    rule = "div"


class Equal(Primitive):
    """x = y."""

    rule = "equal"


class Erf(Primitive):
    """The error function."""

    rule = "erf"


class Exp(Primitive):
    """exp(x)."""

    rule = "exp"


class Expm1(Primitive):
    """exp(x) - 1."""

    rule = "expm1"


class Floor(Primitive):
    """The largest whole number that is not greater."""

    rule = "floor"


class GeLU(Primitive):
    """x Phi(x)."""

    rule = "gelu"


class Greater(Primitive):
    """x > y."""

    rule = "greater"


class GreaterEqual(Primitive):
    """x >= y."""

    rule = "greater_equal"


class Imag(Primitive):
    """The imaginary part."""

    rule = "imag"


class IsFinite(Primitive):
    """Whether x is neither infinite nor NaN."""

    rule = "isfinite"


class Less(Primitive):
    """x < y."""

    rule = "less"


class LessEqual(Primitive):
    """x <= y."""

    rule = "less_equal"


class Log(Primitive):
    """The natural logarithm."""

    rule = "log"


class Log1p(Primitive):
    """log(1 + x)."""

    rule = "log1p"


class LogicalAnd(Primitive):
    """x and y."""

    rule = "and"


class LogicalNot(Primitive):
    """not x."""

    rule = "not"


class LogicalOr(Primitive):
    """x or y."""

    rule = "or"


class Maximum(Primitive):
    """The larger of x and y."""

    rule = "maximum"


class Minimum(Primitive):
    """The smaller of x and y."""

    rule = "minimum"


class Mul(Primitive):
    """x y."""

    rule = "mul"


class Neg(Primitive):
    """-x."""

    rule = "neg"


class NotEqual(Primitive):
    """x != y."""

    rule = "not_equal"


class Pow(Primitive):
    """x to the power of y."""

    rule = "pow"


class Real(Primitive):
    """The real part."""

    rule = "real"


class RealDiv(Primitive):
    """x / y."""

    rule = "div"


class ReLU(Primitive):
    """max(x, 0)."""

    rule = "relu"


class Round(Primitive):
    """The nearest whole number."""

    rule = "round"


class Sigmoid(Primitive):
    """1 / (1 + exp(-x))."""

    rule = "sigmoid"


class Sign(Primitive):
    """1, 0 or -1."""

    rule = "sign"


class SiLU(Primitive):
    """x sigmoid(x)."""

    rule = "silu"


class Sin(Primitive):
    """sin(x)."""

    rule = "sin"


class Sinh(Primitive):
    """sinh(x)."""

    rule = "sinh"


class Softplus(Primitive):
    """log(1 + exp(x))."""

    rule = "softplus"


class Sqrt(Primitive):
    """The square root."""

    rule = "sqrt"


class Square(Primitive):
    """|x| squared: x x for real numbers."""

    rule = "abs2"


class Sub(Primitive):
    """x - y."""

    rule = "sub"


class Tan(Primitive):
    """tan(x)."""

    rule = "tan"


class Tanh(Primitive):
    """tanh(x)."""

    rule = "tanh"
