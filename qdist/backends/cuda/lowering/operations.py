"""A plan's blocks as operations of the tile kernel: a method for each kind of block.

A block that mixes threads is what reading the tile performs; all others run in registers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.lowering.binding import Binding
from qdist.backends.cuda.lowering.lean import is_lean
from qdist.backends.cuda.lowering.patterns import Patterns
from qdist.backends.cuda.lowering.phases import WIDEST, Phase, TilePhases
from qdist.backends.cuda.lowering.records.tiles import COLUMN_BITS, OPS
from qdist.backends.cuda.lowering.tile import Shape
from qdist.backends.cuda.lowering.view import View, span
from qdist.backends.in_tile import (
    condition_masks,
    constant_matrix,
    dense_targets,
    factors_of,
    pauli_masks,
    permutation_source,
)
from qdist.backends.pairs import Pairs
from qdist.circuit.gate import FORMULAS
from qdist.plan.cost import is_real
from qdist.plan.fuse import Block
from qdist.plan.operations import Affine

__all__ = ["GENERAL", "Operations", "entries_of", "halves", "number_of_two"]

GENERAL = 7
"""Added instead by a cross that is not of one register bit."""


class Operations:
    """The operations that a program's blocks become, and the lists and numbers that they read."""

    def __init__(self, dtype: np.dtype, shape: Shape, pairs: bool, fixed: NDArray[np.float64] | None) -> None:
        self.shape = shape
        self.binding = Binding(dtype, shape.registers)
        self._fixed = fixed
        self._ops: list[tuple[int, ...]] = []
        self._terms: list[tuple[int, int]] = []
        self._coefficients: list[list[tuple[int, int, int, int]]] = []
        self._lists: list[int] = []
        self._seldom_read: dict[int, int] = {}
        self._pairs = Pairs() if pairs else None
        self._pair_ops: list[int] = []
        self._cores: list[tuple[int, bool]] = []

    def op(self, kind: int, data: int, threads: int = 0, predicate: int = 0, far: tuple[int, int] = (0, 0)) -> None:
        self._ops.append((kind, data, threads, predicate, *far))

    def long_list(self, numbers: Iterable[int]) -> None:
        """Adds to lists; numbers of 64 bits are given as two."""
        self._lists += numbers

    def matrix(self, block: Block, targets: list[int], order: Sequence[int], at: int, entries: str = "complex") -> None:
        """Has a dense block's matrix put at a place in reals."""
        everywhere = not block.operations[0].controls
        self.binding.matrix(len(targets), factors_of(block, targets), order, at, entries, everywhere=everywhere)

    def _place_seldom_read(self, blocks: list[Block]) -> None:
        """Places in reals, by block or operation, for numbers that may be many and that the kernel keeps in memory."""
        self._seldom_read = {}
        for block in blocks:
            if block.kind == "table":
                for o in block.operations:
                    self._seldom_read[id(o)] = self.binding.constant(np.asarray(o.matrix).tolist())
            elif block.kind == "dense" and (bits := len(dense_targets(block))) > WIDEST:
                self._seldom_read[id(block)] = self.binding.place(2 << 2 * bits)

    # What reading the tile performs ----------------------------------------------------------------------------------

    def permute(self, tile: TilePhases, phase: Phase, block: Block) -> None:
        (operation,) = block.operations
        source = permutation_source(operation, tile.bit, tile.size)
        # One row a register, so that a warp reads consecutive entries.
        threads = span([1 << b for b in phase.lanes], 0, np.int64)
        for offset in span([1 << b for b in phase.registers], 0, np.int64):
            self.long_list(self.shape.swizzled(int(i)) for i in source[threads | offset])

    def rotation(self, tile: TilePhases, phase: Phase, block: Block) -> None:
        (operation,) = block.operations
        x, z, far_z, num_y = pauli_masks(operation, tile.bit)
        data = self.binding.rotation((0.0, ((operation.slots[0], operation.sign),)), num_y, not operation.controls)
        *near, far_mask, far_value = condition_masks(operation.controls, tile.bit)
        self.long_list([data, *near, *halves((far_mask, far_value)), x, self.shape.swizzled(x), z, *halves((far_z,))])

    def wide(self, tile: TilePhases, phase: Phase, block: Block) -> None:
        targets = dense_targets(block)
        bits = [tile.bit[q] for q in targets]
        data = self._seldom_read[id(block)]
        self.matrix(block, targets, range(len(bits)), data)
        *near, far_mask, far_value = condition_masks(block.operations[0].controls, tile.bit)
        spread = span([self.shape.swizzled(1 << b) for b in bits], 0, np.int64)
        self.long_list([data, *near, *halves((far_mask, far_value)), len(bits), *bits, *spread.tolist()])

    def mixed(self, tile: TilePhases, phase: Phase, block: Block) -> None:
        targets = dense_targets(block)
        data = self._seldom_read[id(block)]
        self.matrix(block, targets, [targets.index(q) for k in phase.held for q in targets if tile.bit[q] == k], data)
        has_last = phase.registers[-1] in phase.held and len(phase.held) < self.shape.registers
        self.long_list([data, len(phase.held), has_last])

    # What runs in registers ------------------------------------------------------------------------------------------

    def dense(self, view: View, block: Block, first_coefficient: int) -> None:
        targets = dense_targets(block)
        registers = [view.register[q] for q in targets]
        controls = block.operations[0].controls
        entries = entries_of(block)
        order = sorted(range(len(targets)), key=registers.__getitem__)
        if entries == "parity":
            data = self.binding.place(16)
            self.matrix(block, targets, order, data, entries)
            self._cores.append((len(self._ops), is_lean(block)))
            self.op(OPS["core"], data, predicate=number_of_two(registers))
            return
        where = registers[0] if len(targets) == 1 else self._pair_number(min(registers))
        if entries != "complex":
            # Such matrices on different bits, one after the other, are one operation.
            real1, bit = OPS[f"{entries}1"], 1 << where | block.changes_norm << 16 + where
            kind, at, threads, predicate, *more = self._ops[-1] if len(self._ops) > view.first_op else (-1, 0, 0, 0)
            if kind == real1 and not predicate >> where & 1:
                self._ops[-1] = (kind, at, threads, predicate | bit, *more)
            else:
                at = self.binding.place(4 * self.shape.registers)
                self.op(real1, at, predicate=bit)
            self.matrix(block, targets, order, at + 4 * where, entries)
            return
        data = self.binding.place(2 << 2 * len(targets))
        if self._pairs and view.alone and self._is_constant(block):
            first, second = (targets[k] for k in order)
            self._pairs.add((first, second), constant_matrix(factors_of(block, targets), order, self._fixed))
            self._pair_ops.append(len(self._ops))
        else:
            self.matrix(block, targets, order, data)
        if controls:
            threads, predicate, far = view.where(controls)
            self.op(OPS[f"controlled{len(targets)}"] + where, data, threads, predicate, far)
        else:
            self.op(OPS[f"dense{len(targets)}"] + where, data)

    def _is_constant(self, block: Block) -> bool:
        """Whether no parameter changes the block."""
        read = {slot for o in block.operations for slot in o.reads}
        return not read or (self._fixed is not None and not np.isnan(self._fixed[list(read)]).any())

    def _pair_number(self, low: int) -> int:
        """Of the register bits ``low`` and the next: 0 and 1, 2 and 3, or the last two where bit 0 comes last."""
        return 2 if self.shape.pairs_up and low == self.shape.registers - 2 else low // 2

    def turned(self, view: View, block: Block, first_coefficient: int) -> None:
        """A Pauli rotation, or several, whose flips are a register bit. An amplitude's sign is the parity of the bits
        with Y or Z of the one that it is mixed with: a mask of the thread's number, a register mask, and a mask of far
        bits."""
        assert view.phase.directions, "no phase of rotations"
        if len(block.operations) > 1:
            self.patterned(view, Patterns.of(block.operations, view.bit))
            return
        (operation,) = block.operations
        x, z, far_z, num_y = pauli_masks(operation, view.bit)
        data = self.binding.rotation((0.0, ((operation.slots[0], operation.sign),)), num_y, everywhere=True)
        threads = sum(1 << k for k, b in enumerate(view.phase.lanes) if z >> b & 1)
        index = span(view.phase.columns, x, np.int64).tolist()
        signs = sum((i & z).bit_count() % 2 << k for k, i in enumerate(index))
        case = 2 * view.phase.directions.number(x) + num_y % 2
        self.op(OPS["turned"], data, threads, signs, (far_z, case))

    def patterned(self, view: View, patterns: Patterns) -> None:
        """Pauli rotations with the same flips. Of each amplitude's pattern a thread computes that of its first, by the
        parities of its number and of far bits; a register bit changes it by a column."""
        assert view.phase.directions, "no phase of rotations"
        # Four numbers a pattern, one behind the other: cosine and factor, and a slope (back_tables.py).
        data, *_ = [self.binding.rotation(affine, patterns.num_y) for affine in patterns.angles()]
        case = 2 * view.phase.directions.number(patterns.x) + patterns.odd
        self.op(OPS["patterned"], data, 0, self._columns(view, patterns), (self._parity_list(view, patterns), case))

    def _columns(self, view: View, patterns: Patterns) -> int:
        """The pattern's change by each register bit, COLUMN_BITS each."""
        return sum(patterns.inside(column) << COLUMN_BITS * b for b, column in enumerate(view.phase.columns))

    def _parity_list(self, view: View, patterns: Patterns) -> int:
        """Where the parities are listed: the pattern of the first amplitude of thread 0 inside the tile, how many there
        are, and of each the masks of the thread's number and of far bits."""
        at = len(self._lists)
        self.long_list([patterns.inside(patterns.x), len(patterns.basis)])
        for z, far_z in patterns.basis:
            threads = sum(1 << k for k, b in enumerate(view.phase.lanes) if z >> b & 1)
            self.long_list([threads, *halves((far_z,))])
        return at

    def diagonal(self, view: View, block: Block, first_coefficient: int) -> None:
        """Phases that depend on register bits alone are one table of factors. Those of thread bits and far bits are
        angles in fixed point, summed by each thread (TURN); those of both the same, for some registers (CROSS)."""
        split = [(*view.split(tests), affine) for o in block.operations for tests, affine in o.phases]
        table: list[tuple[int, int, Affine]] = []
        crossing: dict[int, dict[int, list[tuple[int, int, Affine]]]] = {}
        # A constant costs nothing in a table that is there anyway.
        any_table = any(register[0] and not threads and not far[0] for threads, register, far, _ in split)
        for threads, register, far, affine in split:
            if not threads and not far[0] and any_table:
                table.append((*register, affine))
            else:
                crossing.setdefault(view.predicate(register), {}).setdefault(threads, []).append((*far, affine))
        for predicate, by_threads in crossing.items():
            first = len(self._terms)
            for threads, parts in by_threads.items():
                self._terms.append((threads, len(self._coefficients) - first_coefficient))
                self._coefficients.append(
                    [(mask, value, self.binding.angle(affine), 0) for mask, value, affine in parts]
                )
            single = [b for b in range(len(view.registers)) if predicate == view.predicate((1 << b, 1 << b))]
            kind = OPS["turn"] if predicate == view.everything else OPS["cross"] + (single or [GENERAL])[0]
            self.op(kind, first, len(self._terms), predicate)
        if table:
            # After TURN, whose factor the adjoint sweep multiplies into the table's entries, once for ket and bra.
            self.op(OPS["phases"], self.binding.phase_table(table))

    def table(self, view: View, block: Block, first_coefficient: int) -> None:
        for operation in block.operations:
            data = self._seldom_read[id(operation)]
            threads, predicate, far = view.where(operation.controls)
            at = len(self._lists)
            own, lanes, outside = [0] * len(view.registers), [], []
            for k, qubit in enumerate(operation.targets):
                if qubit in view.register:
                    own[view.register[qubit]] = 1 << k
                elif qubit in view.lane:
                    lanes += [view.lane[qubit], k]
                else:
                    outside += [qubit, k]
            offsets = span(own, 0, np.int64).tolist()
            self.long_list([data, *offsets, len(lanes) // 2, *lanes, len(outside) // 2, *outside])
            self.op(OPS["lookup"], at, threads, predicate, far)


def entries_of(block: Block) -> str:
    """Which numbers of a dense block's matrix the kernel reads (see ``Binding.matrix``). Without conditions, of a
    matrix on one bit "real" if it is, "imag" if it is a turn about X; of one on two "parity" if it keeps that."""
    if block.keeps_parity:
        return "parity"
    if len(dense_targets(block)) > 1 or block.operations[0].controls:
        return "complex"
    turns = all(o.formula == FORMULAS["rx"] for o in block.operations)
    return "imag" if turns else "real" if is_real(block) else "complex"


def number_of_two(registers: Sequence[int]) -> int:
    """Of two register bits i < j, in any order: 0 and 1, 0 and 2, 1 and 2, 0 and 3 are the first."""
    low, high = sorted(registers)
    return high * (high - 1) // 2 + low


def halves(numbers: Iterable[int]) -> list[int]:
    """64-bit numbers as their low and high 32 bits."""
    return [half for n in numbers for half in (n & 0xFFFFFFFF, n >> 32)]
