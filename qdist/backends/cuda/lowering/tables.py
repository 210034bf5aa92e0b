"""A plan's stages as tables that the tile kernel interprets: no code is generated, whatever the circuit.

operations.py has what blocks become, records describes what the tables are made of, and the kernels
(sources/kernel.cuh) read the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.lowering.fours import flags_of, is_alone, slots_of
from qdist.backends.cuda.lowering.operations import Operations
from qdist.backends.cuda.lowering.phases import Phase, TilePhases, is_turned, phases
from qdist.backends.cuda.lowering.records.record import Record
from qdist.backends.cuda.lowering.records.tiles import FLIP, MODES, OP, OPS, PART, PHASE, SUM_NAMES, TERM
from qdist.backends.cuda.lowering.tile import Shape
from qdist.backends.cuda.lowering.view import View, span
from qdist.backends.index_map import IndexMap
from qdist.backends.pairs import Form
from qdist.plan.fuse import Block
from qdist.plan.stages.schedule import Stage

__all__ = ["COMMON_MODES", "COMMON_OPS", "StageTables", "Tables", "table_of"]

SUMS = {OPS[name] for name in SUM_NAMES}

# What the smaller one of the kernels knows: no controlled matrices of one bit, no tables of phases, no Pauli rotations
# but those that are matrices, no gates that mix threads otherwise than by a change of index.
COMMON_OPS = {OPS[name] for name in OPS if name not in ("controlled1", "lookup", "turned", "patterned")}
COMMON_MODES = {MODES["shared"]}

_FORMS = {Form.WHOLE: OPS["dense2"], Form.PAIR: OPS["pair"], Form.EXCHANGE: OPS["exchange"]}
LONG = 64
"""Operations of a stage in complex64 after which the norm is worth keeping: measuring and restoring it cost about as
much as two. What reads the tile otherwise than place by place costs as much as four."""


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


class Tables(Operations):
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
        super().__init__(dtype, shape, pairs, fixed)
        self.num_bits = num_bits
        self._rounds = dtype == np.complex64
        self._phases: list[tuple[Any, ...]] = []
        self._slots: list[NDArray[np.uint16]] = []
        self._places: list[NDArray[np.uint64]] = []
        self._flips: list[tuple[int, int, int]] = []
        self._alone: list[tuple[int, int, int]] = []
        """Phases with 4x4 matrices alone, their first operation and the end."""
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
            self._rounds and self._work(first_phase, first_op) >= LONG and not any(b.changes_norm for b in blocks),
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

    def _outer(self, phase: Phase, change: IndexMap, positions: list[int]) -> tuple[int, int]:
        """Columns and thread offsets of a phase that reads or writes memory; returns its flips' places."""

        def spread(index: int) -> int:
            return sum(1 << p for k, p in enumerate(positions) if index >> k & 1)

        columns = [spread(change.columns[b]) for b in phase.registers]
        threads = span([spread(change.columns[b]) for b in phase.lanes], spread(change.constant), np.uint64)
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
        slots[:, 0] = span([load[b] for b in phase.lanes], swizzled(source.constant), np.uint16)
        slots[:, 1] = span([store[b] for b in phase.lanes], 0, np.uint16)
        slots[:, 2] = span([1 << b for b in phase.lanes], 0, np.uint16)
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


def table_of(rows: Sequence[tuple[Any, ...]], record: Record) -> NDArray[Any]:
    return np.array([tuple(row) for row in rows], record.dtype)
