"""How many floating-point operations a pass takes, counted operation by operation from shapes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from qdist.tensor import Rule, Tensor, tracing

__all__ = ["Count", "counting_flops", "flops_of"]


class Count:
    """Of the operations so far."""

    flops = 0.0


@contextmanager
def counting_flops() -> Iterator[Count]:
    """Counts the operations of this thread inside the block."""
    count = Count()

    def add(rule: Rule, inputs: tuple[Any, ...], attributes: dict[str, Any], made: Any) -> None:
        outputs = made if isinstance(made, tuple) else (made,)
        count.flops += flops_of(rule.name, [_shape(x) for x in inputs], [out.shape for out in outputs], attributes)

    with tracing(add):
        yield count


def flops_of(
    name: str, inputs: list[tuple[int, ...]], outputs: list[tuple[int, ...]], attributes: dict[str, Any]
) -> float:
    """An estimate: products of matrices and attention by their shapes, one for each element of all else, and none for
    what only moves numbers."""
    if name in _PRODUCTS:
        return float(_PRODUCTS[name](inputs, outputs, attributes))
    return 0.0 if name in _MOVES else float(sum(map(math.prod, outputs)))


def _shape(x: Any) -> tuple[int, ...]:
    return x.shape if isinstance(x, Tensor) else ()


def _last(inputs: Any, outputs: Any, attributes: Any) -> int:
    """A sum over the last axis of the first input, for each output."""
    return 2 * math.prod(outputs[0]) * (inputs[0][-1] if inputs[0] else 1)


def _einsum(inputs: Any, outputs: Any, attributes: Any) -> int:
    terms = attributes["subscripts"].split("->")[0].split(",")
    sizes = {letter: size for term, shape in zip(terms, inputs) for letter, size in zip(term, shape)}
    return 2 * math.prod(sizes.values())


def _convolution(inputs: Any, outputs: Any, attributes: Any) -> int:
    """A sum over the kernel's other axes for each output."""
    return 2 * math.prod(outputs[0]) * math.prod(inputs[1][1:])


def _attention(inputs: Any, outputs: Any, attributes: Any) -> int:
    """Two products of every query with every key."""
    return 4 * math.prod(inputs[0]) * inputs[1][-2]


_PRODUCTS: dict[str, Callable[[Any, Any, Any], int]] = {
    **dict.fromkeys(("matmul", "linear"), _last),
    "einsum": _einsum,
    "conv2d": _convolution,
    "conv_transpose2d": lambda inputs, outputs, attributes: 2 * math.prod(inputs[0]) * math.prod(inputs[1][1:]),
    "attention": _attention,
}
_MOVES = frozenset(
    ("reshape", "transpose", "expand", "index", "embedding", "gather", "concatenate", "stack", "split", "flip", "roll")
    + ("pad", "cast", "move", "copy_to_group", "checkpoint")
)
