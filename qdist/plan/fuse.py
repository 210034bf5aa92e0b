"""The gates of a stage as few blocks: dense products, merged diagonals, merged index changes, merged rotations.

Gates are placed as early as what they do not commute with allows, beside others of their kind: all diagonals between
two mixings become one block, all CX one change of index, one-qubit gates on a qubit one matrix. Pauli rotations that
flip the same qubits become one block where the target has kernels for that: on each pair of amplitudes that the flips
connect they are one 2 x 2 rotation, whose angle follows from parities of the index (native/src/tile/rotations.hpp).
Phases of the qubits of a two-qubit matrix become part of it where the target runs such a matrix as fast without them.
Which operations are a block is found in native/src/search/fuse.hpp.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from qdist.native import kernels
from qdist.plan.operations import Operation, as_rotation, keeps_parity

__all__ = ["KINDS", "Block", "block_kind", "fuse"]


@dataclass(slots=True)
class Block:
    """Operations that run as one. ``kind`` is dense, diagonal, linear, rotation, table or permute."""

    kind: str
    operations: list[Operation] = field(default_factory=list)
    mixes: int = 0
    not_x: int = 0
    """Qubits on which it does not commute with X."""
    all: int = 0

    @property
    def x_like(self) -> int:
        return self.all & ~self.not_x

    @property
    def z_like(self) -> int:
        return self.all & ~self.mixes

    @property
    def is_plain_dense(self) -> bool:
        return self.kind == "dense" and not self.operations[0].controls

    @property
    def is_constant(self) -> bool:
        """Whether no angle changes it."""
        return not any(o.reads for o in self.operations)

    @property
    def changes_norm(self) -> bool:
        """Whether it has a matrix that need not be unitary."""
        return any(o.changes_norm for o in self.operations)

    @property
    def keeps_parity(self) -> bool:
        """Whether it is a matrix on two qubits that mixes 00 with 11 and 01 with 10 alone."""
        return self.is_plain_dense and self.mixes.bit_count() == 2 and all(keeps_parity(o) for o in self.operations)


KINDS = ("dense", "diagonal", "linear", "rotation", "table", "permute")
"""Of blocks, by their numbers in C++."""


def block_kind(operation: Operation) -> str:
    """The kind of the block that an operation is by itself."""
    return "linear" if operation.kind in ("flip", "swap") else operation.kind


def fuse(operations: Iterable[Operation], parities: int = 0, joins_phases: bool = False) -> list[Block]:
    """Blocks that together do what the operations do in order, in about as many steps as there are operations.

    parities: by how many parities of the index the rotations of a block may be told apart; 0 for a block each
    (``Target.parities``). joins_phases: whether phases become part of matrices (``Target.joins_phases``); what was
    planned as a matrix then stays one, and rotations under conditions run one by one.
    """
    operations = list(operations)
    flags = [bool(o.reads) | 2 * keeps_parity(o) for o in operations] if joins_phases else None
    found, _ = kernels.fuse(operations, parities, flags)
    return [
        Block(KINDS[kind], _of_kind(kind, [operations[k] for k in numbers]), mixes, not_x, all)
        for kind, numbers, mixes, not_x, all in found
    ]


def _of_kind(kind: int, operations: list[Operation]) -> list[Operation]:
    """Of a block of rotations, what was planned as a matrix is one too."""
    if KINDS[kind] != "rotation":
        return operations
    return [as_rotation(operation) or operation for operation in operations]
