"""The gates of a stage as few blocks: dense products, merged diagonals, merged index changes.

Gates are placed as early as what they do not commute with allows, beside others of their kind: all diagonals between
two mixings become one block, all CX one change of index, one-qubit gates on a qubit one matrix.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from qdist.plan.operations import Operation

__all__ = ["Block", "fuse"]


@dataclass(slots=True)
class Block:
    """Operations that run as one. ``kind`` is dense, diagonal, linear, rotation, table or permute."""

    kind: str
    operations: list[Operation] = field(default_factory=list)
    mixes: int = 0
    not_x: int = 0
    not_z: int = 0
    all: int = 0

    def add(self, operation: Operation) -> None:
        self.operations.append(operation)
        self._note(operation)

    def add_first(self, earlier: list[Operation]) -> None:
        self.operations[:0] = earlier
        for operation in earlier:
            self._note(operation)

    def _note(self, operation: Operation) -> None:
        self.mixes |= operation.mixes
        self.all |= operation.all
        self.not_x |= operation.all & ~operation.x_like
        self.not_z |= operation.mixes

    def commutes(self, operation: Operation) -> bool:
        """Whether the operation may pass this block: on each shared qubit both are like Z, or both like X."""
        shared = self.all & operation.all
        both_z = operation.z_like & ~self.not_z
        both_x = operation.x_like & ~self.not_x
        return not shared & ~(both_z | both_x)

    @property
    def is_plain_dense(self) -> bool:
        return self.kind == "dense" and not self.operations[-1].controls


_KINDS = {"flip": "linear", "swap": "linear"}
_MERGED = ("diagonal", "linear")


def fuse(operations: Iterable[Operation]) -> list[Block]:
    """Blocks that together do what the operations do in order."""
    blocks: list[Block] = []
    for operation in operations:
        kind = _KINDS.get(operation.kind, operation.kind)
        # The last block that the operation must come after.
        after = len(blocks) - 1
        while after >= 0 and blocks[after].commutes(operation):
            after -= 1
        if not _merged(blocks, after, kind, operation):
            _place(blocks, after, kind, operation)
    return blocks


def _merged(blocks: list[Block], after: int, kind: str, operation: Operation) -> bool:
    if kind in _MERGED:
        for block in blocks[max(after, 0) :]:
            if block.kind == kind:
                block.add(operation)
                return True
        return False
    if kind == "dense" and not operation.controls and after >= 0:
        block = blocks[after]
        if block.is_plain_dense and not operation.mixes & ~block.mixes and block.mixes.bit_count() <= 2:
            block.add(operation)
            return True
    return False


def _place(blocks: list[Block], after: int, kind: str, operation: Operation) -> None:
    block = Block(kind)
    block.add(operation)
    if kind == "dense" and not operation.controls and operation.mixes.bit_count() == 2:
        # One-qubit matrices right before a two-qubit one become part of it.
        for index in range(len(blocks) - 1, -1, -1):
            earlier = blocks[index]
            if not earlier.is_plain_dense or earlier.mixes & ~operation.mixes or earlier.mixes.bit_count() != 1:
                continue
            if all(not later.all & earlier.mixes for later in blocks[index + 1 :]):
                block.add_first(earlier.operations)
                del blocks[index]
                after -= index <= after
    # Beside a block of its kind, so that others still find theirs behind it.
    for index in range(after + 1, len(blocks)):
        if blocks[index].kind == kind:
            while index < len(blocks) and blocks[index].kind == kind:
                index += 1
            blocks.insert(index, block)
            return
    blocks.append(block)
