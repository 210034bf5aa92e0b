"""The gates of a stage as few blocks: dense products, merged diagonals, merged index changes, merged rotations.

Gates are placed as early as what they do not commute with allows, beside others of their kind: all diagonals between
two mixings become one block, all CX one change of index, one-qubit gates on a qubit one matrix. Pauli rotations that
flip the same qubits become one block where the target has kernels for that: on each pair of amplitudes that the flips
connect they are one 2 x 2 rotation, whose angle follows from parities of the index (native/src/tile/rotations.hpp).
Phases of the qubits of a two-qubit matrix become part of it where the target runs such a matrix as fast without them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from operator import itemgetter

from qdist.circuit.pauli.text import qubits_of
from qdist.plan.commute import acts, stops
from qdist.plan.operations import Operation, as_rotation, keeps_parity

__all__ = ["Block", "fuse"]


@dataclass(slots=True)
class Block:
    """Operations that run as one. ``kind`` is dense, diagonal, linear, rotation, table or permute."""

    kind: str
    operations: list[Operation] = field(default_factory=list)
    mixes: int = 0
    not_x: int = 0
    """Qubits on which it does not commute with X."""
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
    def keeps_parity(self) -> bool:
        """Whether it is a matrix on two qubits that mixes 00 with 11 and 01 with 10 alone."""
        return self.is_plain_dense and self.mixes.bit_count() == 2 and all(keeps_parity(o) for o in self.operations)


_KINDS = {"flip": "linear", "swap": "linear"}
_MERGED = ("diagonal", "linear")


def fuse(operations: Iterable[Operation], parities: int = 0, joins_phases: bool = False) -> list[Block]:
    """Blocks that together do what the operations do in order, in about as many steps as there are operations.

    parities: by how many parities of the index the rotations of a block may be told apart; 0 for a block each
    (``Target.parities``). joins_phases: whether phases become part of matrices (``Target.joins_phases``).
    """
    blocks = _Blocks(parities, joins_phases)
    for operation in operations:
        kind = _KINDS.get(operation.kind, operation.kind)
        after = blocks.last_in_the_way(operation)
        place = _merging(blocks, after, kind, operation)
        if place is None and parities and (rotation := _as_rotation(operation, joins_phases)) is not None:
            operation, kind = rotation, rotation.kind
            place = blocks.rotations_of(operation, after)
        if place is not None:
            blocks.add(place, operation)
        else:
            blocks.insert(_new_block(blocks, kind, operation), after)
    return blocks.in_order()


def _as_rotation(operation: Operation, joins_phases: bool) -> Operation | None:
    """The operation as a Pauli rotation that may run beside others, if it is one. Where phases join matrices, what was
    planned as a matrix stays one, and rotations under conditions run one by one."""
    if joins_phases and (operation.kind != "rotation" or operation.controls):
        return None
    return as_rotation(operation)


def _merging(blocks: _Blocks, after: Place, kind: str, operation: Operation) -> Place | None:
    """Where the block is that the operation becomes part of, if there is one."""
    if blocks.joins_phases and kind == "diagonal" and after in blocks and _joins(operation, blocks[after]):
        return after
    if kind in _MERGED:
        return blocks.first_of(kind, after)
    if kind == "dense" and not operation.controls:
        # What acts like X may be part of an earlier block than the last that it must come after.
        place = max(after, blocks.matrix_on(operation.mixes.bit_length() - 1))
        if place in blocks:
            block = blocks[place]
            if block.is_plain_dense and not operation.mixes & ~block.mixes and block.mixes.bit_count() <= 2:
                return place
    return None


def _joins(phases: Operation, block: Block) -> bool:
    """Whether phases become part of a block: a matrix on two qubits, which are all that they depend on. A constant
    matrix stays one, for which there are decompositions, unless it keeps parities, which are faster still."""
    if not block.is_plain_dense or block.mixes.bit_count() != 2 or phases.all & ~block.mixes or phases.wide:
        return False
    return not phases.reads or not block.is_constant or block.keeps_parity


def _new_block(blocks: _Blocks, kind: str, operation: Operation) -> Block:
    block = Block(kind)
    block.add(operation)
    if kind == "dense" and not operation.controls and operation.mixes.bit_count() == 2:
        if blocks.joins_phases:
            for phases in blocks.take_phases(block):
                block.add_first([phases])
        # One-qubit matrices right before a two-qubit one become part of it.
        before: list[tuple[Place, Block]] = []
        for qubit in qubits_of(operation.mixes):
            while (last := blocks.last_on(qubit)) in blocks:
                if not blocks[last].is_plain_dense or blocks[last].mixes != 1 << qubit:
                    break
                before.append((last, blocks.remove(last)))
        for _, earlier in sorted(before, key=itemgetter(0), reverse=True):
            block.add_first(earlier.operations)
    return block


Place = tuple[int, int]
_BEFORE_ALL: Place = (-1, -1)
_Flips = tuple[int, bool, tuple[tuple[int, int], ...]]


def _flips(operation: Operation) -> _Flips:
    """What the rotations of a block have in common: flips, whether the number of Ys is odd, and controls. With the same
    flips and both an even or both an odd number of Ys, two Pauli strings commute."""
    return operation.mixes, operation.letters.count("Y") % 2 == 1, operation.controls


def _reduced(parity: int, basis: list[int]) -> int:
    """What is left of a parity after subtracting elements of a basis, which is in descending order; 0 if it is their
    sum."""
    for element in basis:
        parity = min(parity, parity ^ element)
    return parity


class _Blocks:
    """Blocks in order, and where to find the ones that matter without looking at the others.

    A block keeps its place, (run, number): a new one comes to the end of a run of blocks of its kind, or behind all
    others with a new run.
    """

    def __init__(self, parities: int, joins_phases: bool) -> None:
        self._parities = parities
        self.joins_phases = joins_phases
        self._rotations: defaultdict[_Flips, list[Place]] = defaultdict(list)
        # Of blocks of rotations: a basis, over GF(2), of the parities that are their signs.
        self._signs: dict[Place, list[int]] = {}
        self._at: dict[Place, Block] = {}
        self._matrices: dict[int, Place] = {}
        self._order: list[Place] = []
        self._of_kind: defaultdict[str, list[Place]] = defaultdict(list)
        # The frontier: for each way to act (commute.acts) and each qubit, the places, in order, of the blocks that may
        # not be passed so.
        self._stopping: tuple[defaultdict[int, list[Place]], ...] = tuple(defaultdict(list) for _ in range(3))
        # The later of two runs of one kind between which nothing is left.
        self._joined: dict[int, int] = {}
        self._number = count()

    def __contains__(self, place: Place) -> bool:
        return place in self._at

    def __getitem__(self, place: Place) -> Block:
        return self._at[place]

    def in_order(self) -> list[Block]:
        return [self._at[place] for place in self._order]

    def last_on(self, qubit: int) -> Place:
        """The last block that acts on a qubit."""
        *_, on = self._stopping
        return on[qubit][-1] if on[qubit] else _BEFORE_ALL

    def matrix_on(self, qubit: int) -> Place:
        """The last matrix on a qubit."""
        return self._matrices.get(qubit, _BEFORE_ALL)

    def last_in_the_way(self, operation: Operation) -> Place:
        """The last block that the operation must come after."""
        last = _BEFORE_ALL
        for table, mask in zip(self._stopping, acts(operation)):
            for qubit in qubits_of(mask):
                places = table[qubit]
                if places and places[-1] > last:
                    last = places[-1]
        return last

    def first_of(self, kind: str, start: Place) -> Place | None:
        """The first block of a kind from this place on."""
        places = self._of_kind[kind]
        k = bisect_left(places, start)
        return places[k] if k < len(places) else None

    def rotations_of(self, operation: Operation, start: Place) -> Place | None:
        """The last block of rotations with the same flips, if it has not ended before ``start`` and has room."""
        places = self._rotations[_flips(operation)]
        if not places or places[-1] < start:
            return None
        signs = self._signs[places[-1]]
        return places[-1] if len(signs) < self._parities or not _reduced(operation.signs, signs) else None

    def add(self, place: Place, operation: Operation) -> None:
        """Makes the operation part of a block."""
        block = self._at[place]
        known = stops(block)
        block.add(operation)
        self._note(place, block, known)
        if place in self._signs:
            self._add_signs(place, operation)

    def _add_signs(self, place: Place, operation: Operation) -> None:
        signs = self._signs.setdefault(place, [])
        if rest := _reduced(operation.signs, signs):
            signs.append(rest)
            signs.sort(reverse=True)

    def insert(self, block: Block, after: Place) -> None:
        """Appends it to a run of blocks of its kind that does not end before ``after``: runs stay contiguous, so that
        later gates can still merge."""
        run, number = after
        beside = self.first_of(block.kind, (run, number + 1))
        if beside is None and self._order and self._at[self._order[-1]].kind == block.kind:
            beside = self._order[-1]
        run = next(self._number) if beside is None else self._last_run(beside[0], block.kind)
        place = run, next(self._number)
        self._put(place, block)
        if self._parities and block.kind == "rotation":
            insort(self._rotations[_flips(block.operations[0])], place)
            self._add_signs(place, block.operations[0])

    def _put(self, place: Place, block: Block) -> None:
        self._at[place] = block
        if block.is_plain_dense:
            self._matrices.update(dict.fromkeys(qubits_of(block.mixes), place))
        insort(self._order, place)
        insort(self._of_kind[block.kind], place)
        self._note(place, block, (0, 0, 0))

    def remove(self, place: Place) -> Block:
        """Takes a block out."""
        block = self._at.pop(place)
        lists = [self._order, self._of_kind[block.kind]]
        lists += [table[q] for table, mask in zip(self._stopping, stops(block)) for q in qubits_of(mask)]
        for places in lists:
            del places[bisect_left(places, place)]
        return block

    def take_phases(self, block: Block) -> list[Operation]:
        """Takes out the phases right before a matrix on two qubits that become part of it."""
        found: list[Operation] = []
        for place in sorted({self.last_on(q) for q in qubits_of(block.mixes)}):
            if place not in self or self[place].kind != "diagonal":
                continue
            taken = [
                o
                for o in self[place].operations
                if _joins(o, block) and all(self.last_on(q) == place for q in qubits_of(o.all))
            ]
            if taken:
                rest = Block("diagonal")
                for operation in self.remove(place).operations:
                    if not any(operation is o for o in taken):
                        rest.add(operation)
                if rest.operations:
                    self._put(place, rest)
                found += taken
        return found

    def _note(self, place: Place, block: Block, known: tuple[int, ...]) -> None:
        """Lists a block under its qubits, but for those it is known for."""
        for table, mask, old in zip(self._stopping, stops(block), known):
            if mask != old:
                for qubit in qubits_of(mask & ~old):
                    insort(table[qubit], place)

    def _last_run(self, run: int, kind: str) -> int:
        """The last of the runs of this kind that stand side by side from a run on."""
        last = self._joined.get(run, run)
        while True:
            k = bisect_left(self._order, (last + 1, 0))
            if k == len(self._order) or self._at[self._order[k]].kind != kind:
                break
            last = self._order[k][0]
        self._joined[run] = last
        return last
