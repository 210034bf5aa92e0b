"""Operators that can be told how to divide their inputs and outputs: ops.MatMul().shard(((2, 4), (4, 1)))."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from ...parallel.auto import Operator
from ...tensor import apply, functional
from . import context

__all__ = [
    "Abs",
    "Add",
    "Div",
    "Exp",
    "GeLU",
    "Log",
    "MatMul",
    "Maximum",
    "Minimum",
    "Mul",
    "Neg",
    "Pow",
    "Primitive",
    "ReLU",
    "Sigmoid",
    "Softmax",
    "Sqrt",
    "Sub",
    "Tanh",
]


class Primitive:
    """An operator. Without a strategy, or in a mode that divides nothing by operators, it runs as any operation."""

    rule: ClassVar[str]
    """Its name among this library's operations."""

    def __init__(self) -> None:
        self._divided: Operator | None = None
        self._attributes: dict[str, Any] = {}

    def shard(self, in_strategy: Sequence[Sequence[int]], out_strategy: Sequence[Sequence[int]] | None = None) -> Self:
        """Divide every dimension of each input, and of each output, into so many parts; returns itself."""
        self._divided = Operator(self.rule).shard(in_strategy, out_strategy=out_strategy)
        return self

    def __call__(self, *inputs: Any) -> Any:
        if self._divided is not None and context.follows_strategies():
            return self._divided(*inputs, **self._attributes)
        return apply(self.rule, *map(functional.as_tensor, inputs), **self._attributes)


class MatMul(Primitive):
    """The matrix product."""

    rule = "matmul"


class ReLU(Primitive):
    """max(x, 0)."""

    rule = "relu"


class Add(Primitive):
    """x + y."""

    rule = "add"


class Sub(Primitive):
    """x - y."""

    rule = "sub"


class Mul(Primitive):
    """x y."""

    rule = "mul"


class Div(Primitive):
    """x / y."""

    rule = "div"


class Tanh(Primitive):
    """tanh(x)."""

    rule = "tanh"


class Sigmoid(Primitive):
    """1 / (1 + exp(-x))."""

    rule = "sigmoid"


class Exp(Primitive):
    """exp(x)."""

    rule = "exp"


class Log(Primitive):
    """The natural logarithm."""

    rule = "log"


class Abs(Primitive):
    """|x|."""

    rule = "abs"


class GeLU(Primitive):
    """x Phi(x)."""

    rule = "gelu"


class Maximum(Primitive):
    """The larger of x and y."""

    rule = "maximum"


class Minimum(Primitive):
    """The smaller of x and y."""

    rule = "minimum"


class Neg(Primitive):
    """-x."""

    rule = "neg"


class Pow(Primitive):
    """x to the power of y."""

    rule = "pow"


class Sqrt(Primitive):
    """The square root."""

    rule = "sqrt"


class Softmax(Primitive):
    """softmax along an axis."""

    rule = "softmax"

    def __init__(self, axis: int = -1) -> None:
        super().__init__()
        self._axis = axis

    def __call__(self, *inputs: Any) -> Any:
        self._attributes = {"axis": self._axis % functional.as_tensor(inputs[0]).ndim}
        return super().__call__(*inputs)
