"""Blocks that undo blocks: what the adjoint sweep runs, from the last to the first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from qdist.plan.fuse import Block
from qdist.plan.operations import Affine, Operation

__all__ = ["undoing", "undone"]


def undoing(blocks: Sequence[Block]) -> list[Block]:
    """Blocks that undo these, in the order in which they do. Dense ones are as they were: the adjoint of their matrix
    is taken when it is bound."""
    return [_undoing(block) for block in reversed(blocks)]


def undone(operation: Operation) -> Operation:
    """The operation that undoes a wide one without angles: a dense matrix or a permutation."""
    if operation.kind == "dense":
        return replace(operation, matrix=np.conj(np.asarray(operation.matrix)).T)
    return _INVERSE[operation.kind](operation)


def _undoing(block: Block) -> Block:
    if block.kind == "dense":
        return block
    operations = [_INVERSE[block.kind](operation) for operation in reversed(block.operations)]
    return replace(block, operations=operations)


def _diagonal(operation: Operation) -> Operation:
    return replace(
        operation,
        terms=[(product, _negative(affine)) for product, affine in operation.terms],
        wide=[(conditions, _negative(affine)) for conditions, affine in operation.wide],
    )


def _negative(affine: Affine) -> Affine:
    constant, parts = affine
    return -constant, tuple((slot, -coefficient) for slot, coefficient in parts)


_INVERSE: dict[str, Callable[[Operation], Operation]] = {
    "diagonal": _diagonal,
    "linear": lambda operation: operation,
    "rotation": lambda operation: replace(operation, sign=-operation.sign),
    "table": lambda operation: replace(operation, matrix=np.conj(operation.matrix)),
    "permute": lambda operation: replace(operation, matrix=np.argsort(operation.matrix)),
}
