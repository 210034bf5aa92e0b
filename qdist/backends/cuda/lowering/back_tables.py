"""The tables of the adjoint sweep: a program's blocks undone on a ket and a bra, and the sums that gradients need.

Before a block with trainable angles is undone, what its angles change in <bra|ket> is summed over all amplitudes: of a
dense block the transition matrix T_qp = sum of ket_q conj(bra_p), or what its derivatives need of it, before the block
is undone or after that (``core_of``), of a turn about Y or X one number of it, of a diagonal Re(i conj(bra) ket) with
the sign of parities of the index or under conditions, of a Pauli rotation the overlap Im <bra|P|ket>. Every sum has a
number; ``gradients`` knows what it means for the angles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.lowering.gradients import Gradients, core_of
from qdist.backends.cuda.lowering.inverse import undoing
from qdist.backends.cuda.lowering.operations import entries_of, halves, number_of_two
from qdist.backends.cuda.lowering.patterns import Multiples, Patterns
from qdist.backends.cuda.lowering.phases import WIDEST, Phase, TilePhases
from qdist.backends.cuda.lowering.records.tiles import GROUP_ENDS, OPS, PARITY, SUM_ENDS
from qdist.backends.cuda.lowering.tables import StageTables, Tables, table_of
from qdist.backends.cuda.lowering.tile import Shape
from qdist.backends.cuda.lowering.view import View
from qdist.backends.in_tile import dense_targets, factors_of
from qdist.plan.cost import is_real
from qdist.plan.fuse import Block
from qdist.plan.operations import Affine
from qdist.plan.stages.schedule import Stage

__all__ = ["BackTables", "Extent"]

_Weighted: TypeAlias = tuple[tuple[int, int, int], float]
"""A parity, as masks of thread bits, register bits and far bits, and its factor in a sum."""
_LANES = 31
"""The bits of a thread's number within its warp."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a stage has of the tables that only the sweep's kernel keeps beside a tile, each as (first, how many)."""

    sums: tuple[int, int]
    terms: tuple[int, int]
    parities: tuple[int, int]
    weighs: tuple[int, int]
    parts: int
    """Of its coefficients: how many."""


_SUMMED = ("dense", "diagonal", "rotation")
"""Kinds of blocks whose methods here add the sums that derivatives are made of."""


class BackTables(Tables):
    """The tables that undo the stages of a program, the last one first. trainable: the angles whose derivatives are
    wanted. Of those that are multiples of others (patterns.py) sums may be taken together: what is then said of one of
    them is right for the parameters."""

    def __init__(
        self,
        num_bits: int,
        dtype: np.dtype,
        stages: Sequence[tuple[Stage, list[Block]]],
        shape: Shape,
        trainable: Multiples | Collection[int],
    ) -> None:
        self.gradients = Gradients()
        self._multiples = trainable if isinstance(trainable, Mapping) else {slot: (slot, 1.0) for slot in trainable}
        self._trainable = frozenset(trainable)
        self._parities: list[tuple[int, int, int]] = []
        self._weighs: list[int] = []
        self._first_sum = 0
        self.extents: list[Extent] = []
        """One for each stage."""
        super().__init__(num_bits, dtype, [(stage, undoing(blocks)) for stage, blocks in reversed(stages)], shape)
        self.gradients.freeze()

    @property
    def num_sums(self) -> int:
        return self.gradients.num_sums

    def arrays(self) -> dict[str, NDArray[Any]]:
        weighs = np.array(self._weighs, np.int64).astype(np.uint32).view(np.int32)
        return super().arrays() | {"parities": table_of(self._parities, PARITY), "weighs": weighs}

    def _stage(self, stage: Stage, blocks: list[Block]) -> StageTables:
        for block in blocks:
            if not _is_summed(block) and any(o.reads & self._trainable for o in block.operations):
                # For whoever adds a kind or a wide gate: its derivatives would be zeros. Matrices of more than two
                # qubits have no angles today: generators are diagonal between constant matrices.
                what = f"{block.kind} blocks that mix {block.mixes.bit_count()} qubits"
                raise NotImplementedError(f"no method of BackTables sums what the angles of {what} change")
        before = self._sizes()
        self._first_sum = self.num_sums
        result = super()._stage(stage, blocks)
        sums, terms, parities, weighs = ((first, end - first) for first, end in zip(before, self._sizes()))
        parts = sum(len(own) for own in self._coefficients[result.first_coefficient :])
        self.extents.append(Extent(sums, terms, parities, weighs, parts))
        return result

    def _sizes(self) -> tuple[int, ...]:
        return self.num_sums, len(self._terms), len(self._parities), len(self._weighs)

    def matrix(self, block: Block, targets: list[int], order: Sequence[int], at: int, entries: str = "complex") -> None:
        everywhere = not block.operations[0].controls
        factors = factors_of(block, targets)
        self.binding.matrix(len(targets), factors, order, at, entries, adjoint=True, everywhere=everywhere)

    def rotation(self, tile: TilePhases, phase: Phase, block: Block) -> None:
        super().rotation(tile, phase, block)
        (operation,) = block.operations
        (slot,) = operation.slots
        at = -1
        if slot in self._trainable:
            # Twice Re <bra| -i/2 P |ket>; the sign here is the one that undoes it.
            at = self._own(self.gradients.linear({slot: -operation.sign}))
        self.long_list([at, operation.letters.count("Y") & 3])

    def turned(self, view: View, block: Block, first_coefficient: int) -> None:
        super().turned(view, block, first_coefficient)
        if len(block.operations) > 1:
            return
        (operation,) = block.operations
        (slot,) = operation.slots
        if slot in self._trainable:
            # As for ``rotation``; the kernel leaves out the factor i of each Y.
            sign = -1 if operation.letters.count("Y") & 2 else 1
            at = self._own(self.gradients.linear({slot: -operation.sign * sign}))
            *most, case = self._ops[-1]
            self._ops[-1] = (*most, case | (at + 1) << 8)

    def patterned(self, view: View, patterns: Patterns) -> None:
        """The rotation has the slopes of one angle beside it; those of others have tables of their own before."""
        wanted = list(patterns.slopes(self._multiples).items())
        for number, (slot, slopes) in enumerate(wanted, 1):
            super().patterned(view, patterns)
            kind, data, threads, word, far_mask, case = self._ops[-1]
            for p, slope in enumerate(slopes):
                self.binding.constants(data + 4 * p + 3, np.array([slope]))
            at = self._own(self.gradients.linear({slot: -1.0}))
            only_sums = number < len(wanted)
            self._ops[-1] = (kind + only_sums, data, threads, word, far_mask, case | (at + 1) << 8)
        if not wanted:
            super().patterned(view, patterns)

    def dense(self, view: View, block: Block, first_coefficient: int) -> None:
        if not any(slot in self._trainable for o in block.operations for slot in o.reads):
            super().dense(view, block, first_coefficient)
            return
        targets = dense_targets(block)
        registers = [view.register[q] for q in targets]
        factors = factors_of(block, targets)
        order = sorted(range(len(targets)), key=registers.__getitem__)
        controls = block.operations[0].controls
        core = core_of(factors, order, self._trainable) if len(targets) == 2 and not controls else None
        assert core is not None or not block.keeps_parity, "on any two register bits there are no other sums"
        if core is not None:
            at = self._own(self.gradients.core_transition(factors, order, core))
            if core.before:
                super().dense(view, block, first_coefficient)
            self.op(OPS["core_transition"], at, core.flags, number_of_two(registers))
            if not core.before:
                super().dense(view, block, first_coefficient)
            return
        if entries_of(block) != "complex":
            super().dense(view, block, first_coefficient)
            kind, data, bits, predicate, at, _ = self._ops[-1]
            if not bits:
                at = self._own(self.gradients.places(4))
            (register,) = registers
            rotation = self.gradients.real_rotation if is_real(block) else self.gradients.imag_rotation
            rotation(factors, self._first_sum + at + register)
            self._ops[-1] = (kind, data, bits | 1 << register, predicate, at, 0)
            return
        threads, predicate, far = view.where(controls)
        where = registers[0] if len(targets) == 1 else min(registers) // 2
        at = self._own(self.gradients.transition(factors, order))
        self.op(OPS[f"transition{len(targets)}"] + where, at, threads, predicate, far)
        super().dense(view, block, first_coefficient)

    def diagonal(self, view: View, block: Block, first_coefficient: int) -> None:
        self._weigh(view, block)
        super().diagonal(view, block, first_coefficient)

    def _weigh(self, view: View, block: Block) -> None:
        parities: dict[tuple[int, ...], dict[int, float]] = {}
        conditions: list[int] = []
        for operation in block.operations:
            for product, affine in operation.terms:
                _add_parities(parities, sorted(set(product)), self._derivatives(affine))
            for tests, affine in operation.wide:
                wanted = self._derivatives(affine)
                if wanted:
                    threads, predicate, far = view.where(tests)
                    at = self._own(self.gradients.linear(wanted))
                    conditions += [threads, predicate, *halves(far), at]
        single = [(0, -1, 0)] * 4
        of_lanes: list[tuple[int, int, int]] = []
        others: list[tuple[dict[int, float], list[_Weighted]]] = []
        for wanted, own in _shared(view, parities):
            ((lanes, register, far_mask), _), *more = own
            bit = register.bit_length() - 1
            is_single = register.bit_count() == 1 and not lanes & _LANES and single[bit][1] < 0
            if more or not (is_single or register == 0):
                others.append((wanted, own))
                continue
            record = (lanes, self._own(self.gradients.linear(wanted)), far_mask)
            if is_single:
                single[bit] = record
            else:
                of_lanes.append(record)
        singles = any(result >= 0 for _, result, _ in single)
        if not conditions and not singles and not of_lanes and not others:
            return
        self.op(OPS["weigh"], len(self._weighs), len(conditions) // 7)
        self._weighs += [*conditions, self._records(single)[0] if singles else -1, *self._records(of_lanes)]
        self._weighs += self._records([record for sum_ in others for record in self._weighted(*sum_)])

    def _weighted(self, wanted: dict[int, float], own: list[_Weighted]) -> Iterator[tuple[int, int, int]]:
        """A sum of parities with factors: for each of them its masks, and a second record that has its register bits,
        whether it is the last one with these, whether it is the last one at all, and the bits of its factor."""
        result = self._own(self.gradients.linear(wanted))
        own = sorted(own, key=lambda weighted: weighted[0][1])
        for k, ((lanes, register, far_mask), factor) in enumerate(own):
            is_last = k + 1 == len(own)
            ends = is_last or own[k + 1][0][1] != register
            bits = np.array(factor, self.binding.real).view(self.binding.turn)
            yield lanes, result, far_mask
            yield register | ends * GROUP_ENDS | is_last * SUM_ENDS, -1, int(bits)

    def _records(self, terms: list[tuple[int, int, int]]) -> tuple[int, int]:
        """Adds parities; returns the place of the first, and that after the last."""
        first = len(self._parities)
        self._parities += terms
        return first, len(self._parities)

    def _derivatives(self, affine: Affine) -> dict[int, float]:
        """What a sum of w means for each trainable angle of a phase, given what undoes it: twice its coefficient. Those
        that are multiples of one another are said of the first."""
        wanted: dict[int, float] = {}
        for slot, coefficient in affine[1]:
            if slot in self._trainable:
                first, ratio = self._multiples[slot]
                wanted[first] = wanted.get(first, 0.0) - 2 * ratio * coefficient
        return wanted

    def _own(self, number: int) -> int:
        """The number of a sum within its stage."""
        return number - self._first_sum


def _is_summed(block: Block) -> bool:
    """Whether the method of the block adds sums; ``wide``, of matrices that do not run in registers, does not."""
    return block.kind in _SUMMED and (block.kind != "dense" or block.mixes.bit_count() <= WIDEST)


def _shared(
    view: View, parities: Mapping[tuple[int, ...], Mapping[int, float]]
) -> list[tuple[dict[int, float], list[_Weighted]]]:
    """What is summed: for some angles, with these factors, parities with theirs. Those of one angle alone are one sum
    where that saves any that mix bits of registers and threads; each of the others is a sum by itself."""
    places: dict[tuple[int, ...], tuple[int, int, int]] = {}
    alone: dict[int, list[tuple[int, ...]]] = {}
    kept = {qubits: {slot: c for slot, c in wanted.items() if c != 0} for qubits, wanted in parities.items()}
    for qubits, wanted in kept.items():
        lanes, (register, _), (far_mask, _) = view.split((q, 0) for q in qubits)
        places[qubits] = lanes, register, far_mask
        if len(wanted) == 1:
            alone.setdefault(next(iter(wanted)), []).append(qubits)
    result: list[tuple[dict[int, float], list[_Weighted]]] = []
    for slot, own in alone.items():
        mixed = [q for q in own if (at := places[q])[1] and (at[0] & _LANES or at[1].bit_count() > 1)]
        if mixed and len(own) > 1:
            result.append(({slot: 1.0}, [(places[q], kept.pop(q)[slot]) for q in own]))
    return result + [(wanted, [(places[q], 1.0)]) for q, wanted in kept.items() if wanted]


def _add_parities(
    parities: dict[tuple[int, ...], dict[int, float]], qubits: Sequence[int], wanted: dict[int, float]
) -> None:
    """A product of bits b = (1 - s) / 2 as a sum of parities: products of signs s."""
    for size in range(len(qubits) + 1):
        for chosen in combinations(qubits, size):
            own = parities.setdefault(chosen, {})
            for slot, coefficient in wanted.items():
                own[slot] = own.get(slot, 0.0) + coefficient * (-1) ** size / 2 ** len(qubits)
