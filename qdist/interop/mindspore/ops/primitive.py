"""An operator that can be told how to divide its inputs and outputs: ops.MatMul().shard(((2, 4), (4, 1)))."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

from ....parallel.auto import Operator
from ....tensor import Tensor, apply, functional
from .. import context

__all__ = ["Application", "Primitive", "tensors"]


class Application(NamedTuple):
    """One use of an operator, in this library's words."""

    rule: str
    """The operation's name."""
    inputs: tuple[Any, ...]
    """Its tensors, which strategies are for."""
    attributes: dict[str, Any]


class Primitive:
    """An operator. Without a strategy, or in a mode that divides nothing by operators, it runs as any operation."""

    rule: ClassVar[str]
    """Its name among this library's operations."""

    def __init__(self) -> None:
        self._strategies: tuple[Any, Any] | None = None
        self._divided: dict[str, Operator] = {}

    def shard(self, in_strategy: Sequence[Sequence[int]], out_strategy: Sequence[Sequence[int]] | None = None) -> Self:
        """Divide every dimension of each input, and of each output, into so many parts; returns itself.

        Raises ValueError for parts that are none; a call raises it for strategies that do not fit the operator, the
        shapes or the number of ranks, and says which.
        """
        Operator(self.rule).shard(in_strategy, out_strategy=out_strategy)
        self._strategies, self._divided = (in_strategy, out_strategy), {}
        return self

    def bind(self, *arguments: Any) -> Application:
        """What a call with these arguments applies."""
        return Application(self.rule, arguments, {})

    def __call__(self, *arguments: Any) -> Any:
        rule, inputs, attributes = self.bind(*arguments)
        if self._strategies is None or not context.follows_strategies():
            return apply(rule, *map(functional.as_tensor, inputs), **attributes)
        if rule not in self._divided:
            in_strategy, out_strategy = self._strategies
            self._divided[rule] = Operator(rule).shard(in_strategy, out_strategy=out_strategy)
        return self._divided[rule](*inputs, **attributes)


def tensors(values: Any) -> tuple[Tensor, ...]:
    """The tensors of an operator that takes several as one argument."""
    if isinstance(values, Tensor):
        raise TypeError("takes a tuple of tensors, not one tensor")
    if not len(values):
        raise ValueError("takes a tuple of tensors, not an empty one")
    return tuple(map(functional.as_tensor, values))
