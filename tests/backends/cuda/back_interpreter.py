"""What sums.cuh adds up during the adjoint sweep, said in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from interpreter import Interpreter, name_of, parity, span

from qdist.backends.cuda.lowering.back_tables import BackTables
from qdist.backends.cuda.lowering.binding import MIXED
from qdist.backends.cuda.lowering.records.tiles import MODES, TWO_SUMS


class BackInterpreter(Interpreter):
    """Undoes a program on a ket and a bra: ``run(ket, bra)``; ``gradient`` then says what the sums mean."""

    tables: BackTables

    def __init__(self, tables: BackTables, angles: np.ndarray) -> None:
        super().__init__(tables, angles)
        self.angles = angles
        self.sums = np.zeros(tables.num_sums)

    def gradient(self) -> np.ndarray:
        result = np.zeros(len(self.angles))
        self.tables.gradients.add(self.sums, self.angles, result)
        return result

    def _add(self, number: int, at: int, values: Any) -> None:
        """To sums of a stage, from its number ``at`` on."""
        first, count = self.tables.extents[number].sums
        values = np.atleast_1d(values)
        assert 0 <= at <= at + len(values) <= count
        self.sums[first + at : first + at + len(values)] += values

    def _sum(self, number: int, op: Any, states: list[np.ndarray], where: int) -> None:
        name, which = name_of(int(op["kind"]))
        ket, bra = states
        if name == "weigh":
            self._weigh(number, op, (1j * bra.conj() * ket).real, where)
        if name in ("real1", "imag1"):
            for b in range(self.tables.shape.registers):
                if int(op["threads"]) >> b & 1:
                    zero = self.setting[self.setting >> b & 1 == 0]
                    one, turn = zero | 1 << b, -1j if name == "imag1" else 1
                    products = (turn * bra[:, one]).conj() * ket[:, zero] - bra[:, zero].conj() * turn * ket[:, one]
                    self._add(number, int(op["far_mask"]) + b, products.real.sum())
        if name == "turned" and (at := int(op["far_value"]) >> 8):
            sign, flip, odd = self.turned(op, where, np.arange(len(ket)))
            overlap = (sign * bra.conj() * ket[:, self.setting ^ flip]).sum()
            self._add(number, at - 1, overlap.real if odd else overlap.imag)
        if name == "patterned" and (at := int(op["far_value"]) >> 8):
            entries, flip, odd = self.patterned(op, where, np.arange(len(ket)))
            overlap = (entries[..., 3] * bra.conj() * ket[:, self.setting ^ flip]).sum()
            self._add(number, at - 1, overlap.real if odd else overlap.imag)
        if name == "core_transition":
            places = self.of_two(int(op["word"]))
            matrix = np.einsum("tqk,tpk->qp", ket[:, places], bra[:, places].conj())
            found: list[float] = []
            for a, b in MIXED:
                across = matrix[b, a] - matrix[a, b].conj()
                found += [matrix[a, a].imag, matrix[b, b].imag, across.real, across.imag]
            needed = int(op["threads"])
            two = np.where(needed >> np.arange(8) & 1, found, 0).reshape(2, 4).sum(axis=1)
            self._add(number, int(op["data"]), two if needed & TWO_SUMS else found)
        if name.startswith("transition"):
            if where & int(op["far_mask"]) != int(op["far_value"]):
                return
            bits = [which] if name == "transition1" else [2 * which, 2 * which + 1]
            threads = int(op["threads"])
            active = (np.arange(len(ket)) & threads & 0xFFFF) == threads >> 16
            rest = self.setting[(self.setting & sum(1 << b for b in bits)) == 0]
            rest = rest[int(op["word"]) >> rest & 1 == 1]
            places = span([1 << b for b in bits])[:, None] | rest
            matrix = np.einsum("tqk,tpk->qp", ket[active][:, places], bra[active][:, places].conj())
            self._add(number, int(op["data"]), matrix.ravel().view(np.float64))

    def _weigh(self, number: int, op: Any, w: np.ndarray, where: int) -> None:
        lists, at = self.arrays["weighs"], int(op["data"])
        thread = np.arange(len(w))

        def take(count: int) -> list[int]:
            nonlocal at
            at += count
            return [int(x) for x in lists[at - count : at].view(np.uint32)]

        for _ in range(int(op["threads"])):
            threads, word, *far, result = take(7)
            mask, value = (far[k] | far[k + 1] << 32 for k in (0, 2))
            if where & mask == value:
                active = (thread & threads & 0xFFFF) == threads >> 16
                self._add(number, result, w[active][:, word >> self.setting & 1 == 1].sum())
        groups = []
        (single,) = take(1)
        if single != 0xFFFFFFFF:
            groups += [(b, single + b, single + b + 1) for b in range(4)]
        none = np.zeros(self.count, np.int64)
        groups = [((self.setting >> b & 1), *of) for b, *of in groups] + [(none, *take(2))]
        first, end = take(2)
        records = self.arrays["parities"][first:end].tolist()
        for (threads, result, far_mask), (flags, _, bits) in zip(records[::2], records[1::2]):
            odd = parity(thread & threads)[:, None] ^ (where & far_mask).bit_count() & 1
            odd = odd ^ parity(self.setting & flags)
            factor = np.array(bits, self.tables.binding.turn).view(self.tables.binding.real)
            self._add(number, result, factor * (w * (1 - 2 * odd)).sum())
        for odd_here, first, end in groups:
            for threads, result, far_mask in self.arrays["parities"][first:end].tolist():
                if result < 0:
                    continue
                odd = parity(thread & threads)[:, None] ^ odd_here ^ (where & far_mask).bit_count() & 1
                self._add(number, result, (w * (1 - 2 * odd)).sum())

    def _sum_entry(self, number: int, phase: Any, slots: np.ndarray, shared: list[np.ndarray], where: int) -> None:
        if phase["mode"] != MODES["rotation"]:
            return
        lists = self.arrays["lists"][phase["special"] :]
        if lists[12] < 0:
            return
        registers = self.tables.shape.registers
        words = lists[:14].view(np.uint32).astype(object)
        own = slots[:, 1, None] ^ span(phase["store"][:registers])[None, :]
        index = slots[:, 2, None] ^ span(phase["index"][:registers])[None, :]
        mask, value, x, x_place, z = (int(words[k]) for k in (1, 2, 7, 8, 9))
        far_mask, far_value, far_z = (int(words[k]) | int(words[k + 1]) << 32 for k in (3, 5, 10))
        holds = ((index & mask) == value) & (where & far_mask == far_value)
        sign = 1 - 2 * (parity((index ^ x) & z) ^ (where & far_z).bit_count() & 1)
        ket, bra = shared
        overlap = 1j ** int(words[13]) * (holds * sign * bra[own].conj() * ket[own ^ x_place]).sum()
        self._add(number, int(words[12]), overlap.imag)
