"""A plan's stages as tables that the tile kernel interprets: no code is generated, whatever the circuit.

records.py describes what they are made of; the kernels (sources/kernel.cuh) read the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.lowering.binding import Binding
from qdist.backends.cuda.lowering.fours import flags_of, is_alone, slots_of
from qdist.backends.cuda.lowering.lean import is_lean
from qdist.backends.cuda.lowering.patterns import Patterns
from qdist.backends.cuda.lowering.phases import WIDEST, Phase, TilePhases, is_turned, phases
from qdist.backends.cuda.lowering.records.record import Record
from qdist.backends.cuda.lowering.records.tiles import COLUMN_BITS, FLIP, MODES, OP, OPS, PART, PHASE, SUM_NAMES, TERM
from qdist.backends.cuda.lowering.tile import Shape
from qdist.backends.in_tile import (
    condition_masks,
    constant_matrix,
    dense_targets,
    factors_of,
    pauli_masks,
    permutation_source,
)
from qdist.backends.index_map import IndexMap
from qdist.backends.pairs import Form, Pairs
from qdist.circuit.gate import FORMULAS
from qdist.plan.cost import is_real
from qdist.plan.fuse import Block
from qdist.plan.operations import Affine
from qdist.plan.stages.schedule import Stage

__all__ = ["MODES", "OPS", "StageTables", "Tables"]

SUMS = {OPS[name] for name in SUM_NAMES}
GENERAL = 7
"""Added instead by a cross that is not of one register bit."""

# What the smaller one of the kernels knows: no controlled matrices of one bit, no tables of phases, no Pauli rotations
# but those that are matrices, no gates that mix threads otherwise than by a change of index.
COMMON_OPS = {OPS[name] for name in OPS if name not in ("controlled1", "lookup", "turned", "patterned")}
COMMON_MODES = {MODES["shared"]}

_FORMS = {Form.WHOLE: OPS["dense2"], Form.PAIR: OPS["pair"], Form.EXCHANGE: OPS["exchange"]}
LONG = 64
"""Operations of a stage in complex64 after which the norm is worth keeping: measuring and restoring it cost about as
much as two. What reads the tile otherwise than place by place costs as much as four."""

Conditions = Iterable[tuple[int, int]]


@dataclass(slots=True)
class StageTables:
    """Where a stage finds itself in the tables."""

    tile: tuple[int, ...]
    """Positions of the shard's index that are the tile's bits."""
    size: int
    first_phase: int
    num_phases: int
    first_op: int
    first_slot: int
    """A row of slots a phase, one for each thread."""
    places: int
    """In places: register columns, then the offset of each thread, for reading and then for writing."""
    load_flips: tuple[int, int]
    store_flips: tuple[int, int]
    first_coefficient: int
    num_coefficients: int
    num_ops: int
    first_number: int
    """In reals: what the stage's operations read there."""
    num_numbers: int
    fours: list[tuple[int, int]]
    """(slot, place in reals) of the 4x4 matrices passed as kernel arguments (fours.py)."""
    plain: tuple[bool, bool]
    """Whether no index changes when the tile is read from memory, and when it is written, and bit 0 is the index's."""
    rare: bool
    """Whether it needs the larger one of the kernels."""
    long: bool
    """Whether its tiles' norms are kept (norm.cuh)."""


class Tables:
    """The tables of a program on shards of ``num_bits`` bits, and the binding that fills in its numbers.

    pairs: whether two-qubit matrices may hand parts of them to others (backends/pairs.py), which asks that nothing
    else happens between the stages. fixed: the circuit's angles, NaN for those that parameters change; by default these
    are all.
    """

    def __init__(
        self,
        num_bits: int,
        dtype: np.dtype,
        stages: Sequence[tuple[Stage, list[Block]]],
        shape: Shape,
        pairs: bool = False,
        fixed: NDArray[np.float64] | None = None,
    ) -> None:
        self.shape = shape
        self._fixed = fixed
        self.num_bits = num_bits
        self._rounds = dtype == np.complex64
        self.binding = Binding(dtype, shape.registers)
        self._ops: list[tuple[int, ...]] = []
        self._phases: list[tuple[Any, ...]] = []
        self._slots: list[NDArray[np.uint16]] = []
        self._places: list[NDArray[np.uint64]] = []
        self._flips: list[tuple[int, int, int]] = []
        self._terms: list[tuple[int, int]] = []
        self._coefficients: list[list[tuple[int, int, int, int]]] = []
        self._lists: list[int] = []
        self._seldom_read: dict[int, int] = {}
        self._pairs = Pairs() if pairs else None
        self._pair_ops: list[int] = []
        self._cores: list[tuple[int, bool]] = []
        self._alone: list[
            tuple[int, int, int]
        ] = []  # Phases with 4x4 matrices alone, their first operation and the end.
        self.stages = [self._stage(stage, blocks) for stage, blocks in stages]
        self._fill_pairs()
        self.exchanges = any(kind & ~7 == OPS["exchange"] for kind, *_ in self._ops)
        self._make_lean()
        self.binding.freeze()

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All tables by the names that the kernel knows them by."""
        begins = np.cumsum([0, *(len(parts) for parts in self._coefficients)])
        return {
            "phases": table_of(self._phases, PHASE),
            "ops": table_of(self._ops, OP),
            "slots": np.concatenate([np.zeros((0, 4), np.uint16), *self._slots]).ravel(),
            "places": np.concatenate([np.zeros(0, np.uint64), *self._places]),
            "flips": table_of(self._flips, FLIP),
            "terms": table_of(self._terms, TERM),
            "begins": begins.astype(np.int32),
            "parts": table_of([part for parts in self._coefficients for part in parts], PART),
            "lists": np.array(self._lists, np.int64).astype(np.uint32).view(np.int32),
        }

    def _stage(self, stage: Stage, blocks: list[Block]) -> StageTables:
        close = list(stage.close)
        close += [p for p in range(self.num_bits) if p not in close][: max(0, self.shape.narrowest - len(close))]
        tile = phases(close, blocks, self.shape)
        first_phase, first_op, first_coefficient = len(self._phases), len(self._ops), len(self._coefficients)
        first_slot = sum(len(s) for s in self._slots)
        self._place_seldom_read(blocks)
        first_number = self.binding.size
        positions = close + list(range(self.num_bits, tile.size))
        identity = IndexMap.identity(tile.size)
        self._change_pairs(tile.load, close)
        fours: list[tuple[int, int]] = []
        for number, phase in enumerate(tile.phases):
            passed = number < self.shape.four_phases
            alone = self.shape.states == 1 and (passed or self.shape.lists_pairs) and is_alone(phase.blocks)
            op = len(self._ops)
            self._phase(tile, phase, first_op, first_coefficient, alone)
            if alone and passed:
                self._alone.append((first_phase + number, op, len(self._ops)))
                fours += slots_of(number, [(kind & 7, at) for kind, at, *_ in self._ops[op:]])
        self._change_pairs(tile.store.inverse(), close)
        places = sum(len(p) for p in self._places)
        load = self._outer(tile.phases[0], tile.load, positions)
        store = self._outer(tile.phases[-1], tile.store, positions)
        return StageTables(
            tuple(close),
            tile.size,
            first_phase,
            len(tile.phases),
            first_op,
            first_slot,
            places,
            load,
            store,
            first_coefficient,
            len(self._coefficients) - first_coefficient,
            len(self._ops) - first_op,
            first_number,
            self.binding.size - first_number,
            fours,
            (positions[0] == 0 and tile.load == identity, positions[0] == 0 and tile.store == identity),
            any(mode not in COMMON_MODES for mode, *_ in self._phases[first_phase:])
            or any(kind & ~7 not in COMMON_OPS for kind, *_ in self._ops[first_op:]),
            self._rounds and self._work(first_phase, first_op) >= LONG,
        )

    def _change_pairs(self, source: IndexMap, positions: list[int]) -> None:
        """An index changes between matrices that may hand parts of them on. positions: of the tile's bits."""
        if self._pairs is None or source == IndexMap.identity(len(source.columns)):
            return
        moves = source.moves()
        if moves is None:
            self._pairs.touch(-1)
        else:
            self._pairs.move({to: positions[k] for to, k in zip(positions, moves)})

    def _work(self, first_phase: int, first_op: int) -> int:
        """How many operations change amplitudes, from these on."""
        entries = sum(mode not in (MODES["shared"], MODES["permute"]) for mode, *_ in self._phases[first_phase:])
        ops = [(kind & ~7, word) for kind, _, _, word, *_ in self._ops[first_op:]]
        return 4 * entries + sum(word.bit_count() if kind == OPS["imag1"] else kind not in SUMS for kind, word in ops)

    def _fill_pairs(self) -> None:
        """Fills in the constant matrices on two bits, some of which become another kind of operation, and tells the
        kernel of phases that have such alone."""
        for number, (form, numbers) in zip(self._pair_ops, self._pairs.numbers(exchanges=True) if self._pairs else []):
            kind, at, *rest = self._ops[number]
            self.binding.constants(at, numbers)
            self._ops[number] = (kind - OPS["dense2"] + _FORMS[form], at, *rest)
        forms = {kind: form for form, kind in _FORMS.items()}
        for place, first, end in self._alone:
            kinds = [(kind & 7, forms[kind & ~7]) for kind, *_ in self._ops[first:end]]
            self._phases[place] = (*self._phases[place][:-1], flags_of(kinds))

    def _make_lean(self) -> None:
        """Makes the matrices that can be lean, but for the last of all, operations of their own."""
        for number, (place, lean) in enumerate(self._cores[:-1]):
            if lean:
                self.binding.lean(number)
                self._ops[place] = (OPS["lean"], *self._ops[place][1:])

    def _place_seldom_read(self, blocks: list[Block]) -> None:
        """Places in reals, by block or operation, for numbers that may be many and that the kernel keeps in memory."""
        self._seldom_read = {}
        for block in blocks:
            if block.kind == "table":
                for o in block.operations:
                    self._seldom_read[id(o)] = self.binding.constant(np.asarray(o.matrix).tolist())
            elif block.kind == "dense" and (bits := len(dense_targets(block))) > WIDEST:
                self._seldom_read[id(block)] = self.binding.place(2 << 2 * bits)

    def _outer(self, phase: Phase, change: IndexMap, positions: list[int]) -> tuple[int, int]:
        """Columns and thread offsets of a phase that reads or writes memory; returns its flips' places."""

        def spread(index: int) -> int:
            return sum(1 << p for k, p in enumerate(positions) if index >> k & 1)

        columns = [spread(change.columns[b]) for b in phase.registers]
        threads = _span([spread(change.columns[b]) for b in phase.lanes], spread(change.constant), np.uint64)
        self._places.append(np.concatenate([np.array(columns, np.uint64), threads]))
        first = len(self._flips)
        self._flips += [(mask, value, spread(bits)) for mask, value, bits in change.flips]
        return first, len(self._flips)

    def _phase(self, tile: TilePhases, phase: Phase, stage_op: int, first_coefficient: int, alone: bool) -> None:
        swizzled = self.shape.swizzled
        source = phase.source or IndexMap.identity(tile.size)
        load = [swizzled(c) for c in source.columns]
        store = [swizzled(1 << k) for k in range(tile.size)]
        first_flip = len(self._flips)
        self._flips += [(mask, value, swizzled(bits)) for mask, value, bits in source.flips]
        slots = np.zeros((1 << len(phase.lanes), 4), np.uint16)
        slots[:, 0] = _span([load[b] for b in phase.lanes], swizzled(source.constant), np.uint16)
        slots[:, 1] = _span([store[b] for b in phase.lanes], 0, np.uint16)
        slots[:, 2] = _span([1 << b for b in phase.lanes], 0, np.uint16)
        self._slots.append(slots)
        view = View(tile, phase, len(self._ops), alone)
        mode, special = MODES["shared"], 0
        if phase.entry is not None:
            name = "mixed" if phase.held else "wide" if phase.entry.kind == "dense" else phase.entry.kind
            mode, special = MODES[name], len(self._lists)
            getattr(self, name)(tile, phase, phase.entry)
        first_op = len(self._ops)
        if self._pairs and phase.entry is not None:
            self._pairs.touch(-1)
        elif phase.source is not None:
            self._change_pairs(phase.source, list(tile.bit))
        for block in phase.blocks:
            if self._pairs and not (alone and self._is_constant(block)):
                self._pairs.touch(block.all)
            name = "turned" if is_turned(block) else block.kind
            getattr(self, name)(view, block, first_coefficient)
        has_common_phase = any(kind == OPS["turn"] for kind, *_ in self._ops[first_op:])

        def columns(values: list[int]) -> tuple[int, ...]:
            chosen = [reduce(xor, (v for b, v in enumerate(values) if c >> b & 1)) for c in phase.columns]
            return tuple(chosen + [0] * (5 - len(chosen)))

        self._phases.append(
            (
                mode,
                len(self._ops) - stage_op,
                first_flip,
                len(self._flips),
                (phase.entry is not None and not phase.held) or phase.source is not None,
                special,
                columns(load),
                columns(store),
                columns([1 << k for k in range(tile.size)]),
                has_common_phase,
                self.shape.pairs_up and not source.keeps_neighbours(),
                0,
            )
        )

    def op(self, kind: int, data: int, threads: int = 0, predicate: int = 0, far: tuple[int, int] = (0, 0)) -> None:
        self._ops.append((kind, data, threads, predicate, *far))

    def long_list(self, numbers: Iterable[int]) -> None:
        """Adds to lists; numbers of 64 bits are given as two."""
        self._lists += numbers

    def matrix(self, block: Block, targets: list[int], order: Sequence[int], at: int, entries: str = "complex") -> None:
        """Has a dense block's matrix put at a place in reals."""
        everywhere = not block.operations[0].controls
        self.binding.matrix(len(targets), factors_of(block, targets), order, at, entries, everywhere=everywhere)

    # What reading the tile performs ----------------------------------------------------------------------------------

    def permute(self, tile: TilePhases, phase: Phase, block: Block) -> None:
        (operation,) = block.operations
        source = permutation_source(operation, tile.bit, tile.size)
        # One row a register, so that a warp reads consecutive entries.
        threads = _span([1 << b for b in phase.lanes], 0, np.int64)
        for offset in _span([1 << b for b in phase.registers], 0, np.int64):
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
        spread = _span([self.shape.swizzled(1 << b) for b in bits], 0, np.int64)
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
            real1 = OPS[f"{entries}1"]
            kind, at, threads, predicate, *more = self._ops[-1] if len(self._ops) > view.first_op else (-1, 0, 0, 0)
            if kind == real1 and not predicate >> where & 1:
                self._ops[-1] = (kind, at, threads, predicate | 1 << where, *more)
            else:
                at = self.binding.place(4 * self.shape.registers)
                self.op(real1, at, predicate=1 << where)
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
        index = _span(view.phase.columns, x, np.int64).tolist()
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
        split = [(*view.split(conditions), affine) for conditions, affine in phases_of(block)]
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
            offsets = _span(own, 0, np.int64).tolist()
            self.long_list([data, *offsets, len(lanes) // 2, *lanes, len(outside) // 2, *outside])
            self.op(OPS["lookup"], at, threads, predicate, far)


class View:
    """Where qubits are, seen from a thread in a phase: its registers, its own number, or outside the tile."""

    def __init__(self, tile: TilePhases, phase: Phase, first_op: int, alone: bool) -> None:
        self.first_op, self.alone = first_op, alone
        self.phase, self.bit = phase, tile.bit
        places = {b: q for q, b in tile.bit.items()}
        self.registers = phase.registers
        self.register = {places[b]: k for k, b in enumerate(phase.registers) if b in places}
        self.lane = {places[b]: k for k, b in enumerate(phase.lanes) if b in places}
        self.everything = (1 << (1 << len(phase.registers))) - 1

    def split(self, conditions: Conditions) -> tuple[int, tuple[int, int], tuple[int, int]]:
        """(threads, registers, far): mask | value << 16 of the thread's number, (mask, value) of the others."""
        lanes = register_mask = register_value = far_mask = far_value = 0
        for qubit, value in conditions:
            if qubit in self.register:
                register_mask |= 1 << self.register[qubit]
                register_value |= value << self.register[qubit]
            elif qubit in self.lane:
                lanes |= (1 | value << 16) << self.lane[qubit]
            else:
                far_mask |= 1 << qubit
                far_value |= value << qubit
        return lanes, (register_mask, register_value), (far_mask, far_value)

    def predicate(self, register: tuple[int, int]) -> int:
        """The register mask of a condition, a bit for each of a thread's amplitudes: whether it meets (mask, value)."""
        mask, value = register
        return sum(1 << k for k in range(1 << len(self.registers)) if k & mask == value)

    def where(self, conditions: Conditions) -> tuple[int, int, tuple[int, int]]:
        threads, register, far = self.split(conditions)
        return threads, self.predicate(register), far


def phases_of(block: Block) -> Iterable[tuple[tuple[tuple[int, int], ...], Affine]]:
    for operation in block.operations:
        for product, affine in operation.terms:
            yield tuple((q, 1) for q in sorted(set(product))), affine
        yield from operation.wide


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


def _span(columns: Sequence[int], constant: int, dtype: Any) -> NDArray[Any]:
    """constant ^ the XOR of the columns of each index's bits, for all indices."""
    result = np.array([constant], dtype)
    for column in columns:
        result = np.concatenate([result, result ^ np.array(column, dtype)])
    return result


def table_of(rows: Sequence[tuple[Any, ...]], record: Record) -> NDArray[Any]:
    return np.array([tuple(row) for row in rows], record.dtype)
