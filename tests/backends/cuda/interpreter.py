"""What kernel.cuh does with a program's tables, said in NumPy: tiles one after the other, threads as an axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from qdist.backends.cuda.lowering.directions import register_flips
from qdist.backends.cuda.lowering.operations import GENERAL
from qdist.backends.cuda.lowering.patterns import PARITIES
from qdist.backends.cuda.lowering.records.tiles import COLUMN_BITS, MODES, OPS, SUM_NAMES
from qdist.backends.cuda.lowering.tables import StageTables, Tables


class Interpreter:
    """Runs tables on a shard held by NumPy, in double precision; turns keep the width that the kernel has."""

    def __init__(self, tables: Tables, angles: np.ndarray) -> None:
        self.tables, self.arrays = tables, tables.arrays()
        reals, turns = tables.binding.values(angles[None])
        self.reals = reals[0].astype(np.float64)
        self.turns = turns[0]
        self.count = 1 << tables.shape.registers
        self.setting = np.arange(self.count)

    def run(self, *shards: np.ndarray, offset: int = 0) -> None:
        """On one shard, or with the tables of the adjoint sweep on a ket's and a bra's."""
        for number, stage in enumerate(self.tables.stages):
            outside = [p for p in range(self.tables.num_bits) if p not in stage.tile]
            for tile in range(1 << len(outside)):
                base = sum((tile >> k & 1) << p for k, p in enumerate(outside))
                self._tile(number, stage, shards, base, base | offset)

    def _tile(self, number: int, stage: StageTables, shards: tuple[np.ndarray, ...], base: int, where: int) -> None:
        registers, threads = self.tables.shape.registers, 1 << stage.size - self.tables.shape.registers
        places = self.arrays["places"][stage.places :].astype(np.int64)
        load, places = places[: registers + threads], places[registers + threads :]
        store = places[: registers + threads]

        def index(part: np.ndarray, flips: tuple[int, int]) -> np.ndarray:
            flip = self._flipped(*flips, where)
            return base ^ flip ^ part[registers:, None] ^ span(part[:registers])[None, :]

        at = index(load, stage.load_flips)
        inside = at < len(shards[0])
        states = [np.where(inside, shard[np.where(inside, at, 0)], 0) for shard in shards]
        coefficients = self._coefficients(stage, where)
        shared = [np.full(1 << stage.size, np.nan, np.complex128) for _ in shards]
        # Each thread has the places filled that it reads in the first phase: there is no barrier in between.
        phase = self.arrays["phases"][stage.first_phase]
        slots = self.arrays["slots"].reshape(-1, 4)[stage.first_slot : stage.first_slot + threads].astype(np.int64)
        assert phase["mode"] == MODES["shared"]
        assert phase["first_flip"] == phase["end_flip"]
        for tile, amplitudes in zip(shared, states):
            tile[slots[:, 0, None] ^ span(phase["load"][:registers])[None, :]] = amplitudes
        next_op = stage.first_op
        for step in range(stage.num_phases):
            phase = self.arrays["phases"][stage.first_phase + step]
            row = stage.first_slot + step * threads
            slots = self.arrays["slots"].reshape(-1, 4)[row : row + threads].astype(np.int64)
            if step:
                self._sum_entry(number, phase, slots, shared, where)
            states = [self._read(phase, slots, tile, where) for tile in shared]
            turn = np.zeros(threads, self.turns.dtype)
            end_op = stage.first_op + int(phase["end_op"])
            for op in self.arrays["ops"][next_op:end_op]:
                self._sum(number, op, states, where)
                turns = [turn.copy() for _ in states]
                for amplitudes, own in zip(states, turns):
                    self._op(op, amplitudes, own, coefficients, where)
                turn = turns[0]
            next_op = end_op
            assert bool(phase["turns"]) or not turn.any()
            for amplitudes in states:
                amplitudes *= self._factor(turn)[:, None]
            if step + 1 < stage.num_phases:
                own = slots[:, 1, None] ^ span(phase["store"][:registers])[None, :]
                if base == 0:  # All tiles have the same places.
                    self._check_places(phase, slots, own)
                for tile, amplitudes in zip(shared, states):
                    tile[own] = amplitudes
        at = index(store, stage.store_flips)
        inside = at < len(shards[0])
        if base == 0:  # Where they differ, it is by the same flips of all.
            assert len(np.unique(at)) == at.size
        for shard, amplitudes in zip(shards, states):
            shard[at[inside]] = amplitudes[inside]

    def _check_places(self, phase: Any, slots: np.ndarray, own: np.ndarray) -> None:
        """Threads write different places of the tile, pairs where the kernel does, and not what others still read."""
        registers = self.tables.shape.registers
        assert len(np.unique(own)) == own.size
        if self.tables.shape.pairs_up:
            even, odd = np.split(own, 2, axis=1)
            assert not (even & 1).any()
            np.testing.assert_array_equal(even + 1, odd)
        if not phase["exclusive"]:
            # Without a barrier in between a thread may write only what it has read itself.
            read = slots[:, 0, None] ^ span(phase["load"][:registers])[None, :]
            np.testing.assert_array_equal(read, own)

    def _sum(self, number: int, op: Any, states: list[np.ndarray], where: int) -> None:
        """What an operation sums over the states before it changes them."""

    def _sum_entry(self, number: int, phase: Any, slots: np.ndarray, shared: list[np.ndarray], where: int) -> None:
        """What reading the tiles sums."""

    def _flipped(self, first: int, end: int, where: int) -> int:
        flip = 0
        for mask, value, bits in self.arrays["flips"][first:end].tolist():
            if where & mask == value:
                flip ^= bits
        return flip

    def _coefficients(self, stage: StageTables, where: int) -> np.ndarray:
        begins, parts = self.arrays["begins"], self.arrays["parts"]
        result = np.zeros(stage.num_coefficients, self.turns.dtype)
        for k in range(stage.num_coefficients):
            number = stage.first_coefficient + k
            for mask, value, turn, _ in parts[begins[number] : begins[number + 1]].tolist():
                if where & mask == value:
                    result[k : k + 1] += self.turns[turn]  # Wraps around.
        return result

    def _factor(self, turn: np.ndarray) -> np.ndarray:
        signed = turn.view(np.int32 if turn.dtype == np.uint32 else np.int64)
        return np.exp(2j * np.pi * signed.astype(np.float64) / 2.0 ** (8 * turn.itemsize))

    def _read(self, phase: Any, slots: np.ndarray, shared: np.ndarray, where: int) -> np.ndarray:
        registers = self.tables.shape.registers
        lists = self.arrays["lists"][phase["special"] :].view(np.uint32)
        if phase["mode"] == MODES["shared"]:
            flip = self._flipped(phase["first_flip"], phase["end_flip"], where)
            places = slots[:, 0, None] ^ span(phase["load"][:registers])[None, :] ^ flip
            if self.tables.shape.pairs_up and not phase["apart"]:
                # One access reads two places, in the registers that the last register bit tells apart.
                even, odd = np.split(places, 2, axis=1)
                assert not (even & 1).any()
                np.testing.assert_array_equal(even + 1, odd)
            return shared[places]
        if phase["mode"] == MODES["permute"]:
            table = lists[: shared.size].astype(np.int64).reshape(self.count, len(slots))
            return shared[table.T]
        own = slots[:, 1, None] ^ span(phase["store"][:registers])[None, :]
        if phase["mode"] == MODES["mixed"]:
            data, count, has_last = (int(x) for x in lists[:3])
            bits = [*range(count - has_last), *[registers - 1] * has_last]
            matrix = self._complex(data, 1 << 2 * count).reshape(1 << count, 1 << count)
            row = sum((self.setting >> b & 1) << k for k, b in enumerate(bits))
            sources = (self.setting & ~span([1 << b for b in bits])[-1])[:, None] | span([1 << b for b in bits])
            return (matrix[row] * shared[own][:, sources]).sum(-1)
        index = slots[:, 2, None] ^ span(phase["index"][:registers])[None, :]
        data, mask, value = (int(x) for x in lists[:3])
        far_mask, far_value = (int(lists[k]) | int(lists[k + 1]) << 32 for k in (3, 5))
        holds = ((index & mask) == value) & (where & far_mask == far_value)
        if phase["mode"] == MODES["rotation"]:
            x, x_place, z = (int(v) for v in lists[7:10])
            odd = (where & (int(lists[10]) | int(lists[11]) << 32)).bit_count() & 1
            sign = 1 - 2 * (parity((index ^ x) & z) ^ odd)
            cosine, re, im = self.reals[data : data + 3]
            return np.where(holds, cosine * shared[own] + (re + 1j * im) * sign * shared[own ^ x_place], shared[own])
        count = int(lists[7])
        bits = [int(b) for b in lists[8 : 8 + count]]
        spread = lists[8 + count : 8 + count + (1 << count)].astype(np.int64)
        matrix = self._complex(data, 1 << 2 * count).reshape(1 << count, 1 << count)
        row = sum((index >> b & 1) << k for k, b in enumerate(bits))
        sources = (own ^ spread[row])[..., None] ^ spread
        return np.where(holds, (matrix[row] * shared[sources]).sum(-1), shared[own])

    def _complex(self, at: int, count: int) -> np.ndarray:
        return self.reals[at : at + 2 * count].view(np.complex128)

    def _op(self, op: Any, amplitudes: np.ndarray, turn: np.ndarray, coefficients: np.ndarray, where: int) -> None:
        kind, data = int(op["kind"]), int(op["data"])
        name, which = name_of(kind)
        if name in SUM_NAMES:
            return
        thread = np.arange(len(amplitudes))
        word = (int(op["word"]) >> self.setting & 1).astype(bool)
        if name in ("turn", "cross"):
            sums = np.zeros_like(turn)
            for threads, coefficient in self.arrays["terms"][data : int(op["threads"])].tolist():
                sums[(thread & threads & 0xFFFF) == threads >> 16] += coefficients[coefficient]
            if name == "turn":
                turn += sums
            else:
                chosen = word if which == GENERAL else (self.setting >> which & 1).astype(bool)
                amplitudes[:, chosen] *= self._factor(sums)[:, None]
            return
        if name == "phases":
            amplitudes *= self._complex(data, self.count)
            return
        if name == "turned":
            sign, flip, odd = self.turned(op, where, thread)
            cosine, re, im = self.reals[data : data + 3]
            assert (im if odd else re) == 0
            amplitudes[:] = cosine * amplitudes + (re + 1j * im) * sign * amplitudes[:, self.setting ^ flip]
            return
        if name == "patterned":
            entries, flip, _ = self.patterned(op, where, thread)
            if not which:
                factors = entries[..., 1] + 1j * entries[..., 2]
                amplitudes[:] = entries[..., 0] * amplitudes + factors * amplitudes[:, self.setting ^ flip]
            return
        threads = int(op["threads"])
        active = (thread & threads & 0xFFFF) == threads >> 16
        active &= where & int(op["far_mask"]) == int(op["far_value"])
        if name == "lookup":
            factors = self._looked_up(data, thread, where)
            amplitudes[:] = np.where(active[:, None] & word, amplitudes * factors, amplitudes)
            return
        if name in ("real1", "imag1"):
            for b in np.flatnonzero(word[: self.tables.shape.registers]):
                matrix = self.reals[data + 4 * b : data + 4 * b + 4].reshape(2, 2)
                if name == "real1" and not int(op["word"]) >> 16 + b & 1:
                    matrix = _as_shears(matrix)
                if name == "imag1":
                    matrix = matrix * np.array([[1, -1j], [1j, 1]])
                pairs = amplitudes[:, np.stack([self.setting & ~(1 << b), self.setting | 1 << b], axis=1)]
                amplitudes[:] = (matrix[self.setting >> b & 1] * pairs).sum(-1)
            return
        if name == "core":
            places, entries = self.of_two(int(op["word"])), self._complex(data, 8).reshape(2, 2, 2)
            for matrix, mixed in zip(entries, ([0, 3], [1, 2])):
                amplitudes[:, places[mixed]] = np.einsum("ij,tjk->tik", matrix, amplitudes[:, places[mixed]])
            return
        if name == "lean":
            places = self.of_two(int(op["word"]))
            matrix = lean_matrix(self.reals[data : data + 12])
            matrix = matrix if self.tables.shape.states == 1 else matrix.T
            amplitudes[:, places] = np.einsum("ij,tjk->tik", matrix, amplitudes[:, places])
            return
        if name in ("pair", "exchange"):
            matrix = (pair_matrix if name == "pair" else exchange_matrix)(self.reals[data : data + 16])
            mixed = amplitudes.reshape(len(amplitudes), -1, 4, 1 << self._first_of(which))
            amplitudes[:] = np.einsum("ij,tajb->taib", matrix, mixed).reshape(amplitudes.shape)
            return
        low = self._first_of(which)
        bits = [which] if name.endswith("1") else [low, low + 1]
        matrix = self._complex(data, 1 << 2 * len(bits)).reshape(1 << len(bits), -1)
        row = sum((self.setting >> b & 1) << k for k, b in enumerate(bits))
        rest = self.setting & ~sum(1 << b for b in bits)
        spread = span([1 << b for b in bits])
        result = (matrix[row][None] * amplitudes[:, rest[:, None] | spread]).sum(-1)
        where_held = (active[:, None] & word) if name.startswith("controlled") else True
        amplitudes[:] = np.where(where_held, result, amplitudes)

    def turned(self, op: Any, where: int, thread: np.ndarray) -> tuple[np.ndarray, int, bool]:
        """Of a Pauli rotation in registers: the sign of each amplitude, what is flipped, whether Ys are odd."""
        shape, what = self.tables.shape, int(op["far_value"]) & 255
        here = (where & int(op["far_mask"])).bit_count() & 1
        odd = parity(thread & int(op["threads"]))[:, None] ^ (int(op["word"]) >> self.setting & 1) ^ here
        return 1 - 2 * odd, register_flips(shape.registers, shape.kept)[what >> 1], bool(what & 1)

    def patterned(self, op: Any, where: int, thread: np.ndarray) -> tuple[np.ndarray, int, bool]:
        """Of Pauli rotations with the same flips: the four numbers of each amplitude's pattern, what is flipped, and
        whether Ys are odd."""
        shape, what = self.tables.shape, int(op["far_value"]) & 255
        begin = int(op["far_mask"])
        listed = self.arrays["lists"][begin : begin + 2 + 3 * PARITIES].view(np.uint32)
        first, count, *masks = listed.tolist()
        patterns = np.full(len(thread), first)
        for j in range(count):
            threads, low, high = masks[3 * j : 3 * j + 3]
            patterns ^= (parity(thread & threads) ^ (where & (low | high << 32)).bit_count() & 1) << j
        columns = [int(op["word"]) >> COLUMN_BITS * b & (1 << COLUMN_BITS) - 1 for b in range(shape.registers)]
        data = int(op["data"])
        table = self.reals[data : data + (4 << count)].reshape(-1, 4)
        flip = register_flips(shape.registers, shape.kept)[what >> 1]
        return table[patterns[:, None] ^ span(columns)], flip, bool(what & 1)

    def of_two(self, number: int) -> np.ndarray:
        """The registers with each setting of two register bits, given their number: shape (4, rest)."""
        every = [(low, high) for high in range(self.tables.shape.registers) for low in range(high)]
        bits = [1 << b for b in every[number]]
        return span(bits)[:, None] | self.setting[self.setting & sum(bits) == 0]

    def _first_of(self, pair: int) -> int:
        """The first register bit of a pair: the last one of them all is that of the last two bits."""
        return 2 * pair if pair < 2 else self.tables.shape.registers - 2

    def _looked_up(self, at: int, thread: np.ndarray, where: int) -> np.ndarray:
        lists = self.arrays["lists"]
        data, at = int(lists[at]), at + 1
        own, at = lists[at : at + self.count], at + self.count
        index = np.zeros(len(thread), np.int64)
        for source in (thread, np.int64(where)):
            count, at = int(lists[at]), at + 1
            for bit, k in lists[at : at + 2 * count].reshape(-1, 2).tolist():
                index |= (source >> bit & 1) << k
            at += 2 * count
        places = index[:, None] | own[None, :]
        return self.reals[data + 2 * places] + 1j * self.reals[data + 2 * places + 1]


def _as_shears(matrix: np.ndarray) -> np.ndarray:
    """A rotation as the kernel's shears make it, which keep no length of (a, -c; c, a); other matrices as they are."""
    (a, b), (c, d) = matrix
    if a != d or b != -c:
        return matrix
    u, sign = c * np.sign(a or 1) / (1 + abs(a)), np.sign(a or 1)
    first, second = np.array([[1, -u], [0, 1]]), np.array([[1, 0], [sign * c, 1]])
    return sign * first @ second @ first


def pair_matrix(numbers: np.ndarray) -> np.ndarray:
    """The matrix that the kernel's 16 numbers of a pair stand for."""
    low, high = (np.array([[1, -t], [t, 1]]) for t in numbers[:2])
    core = np.zeros((4, 4))
    core[[0, 0, 3, 3, 1, 1, 2, 2], [0, 3, 0, 3, 1, 2, 1, 2]] = numbers[4:12]
    before = 1 + 1j * np.array([0, 0, numbers[3], numbers[2]])
    after = 1 + 1j * np.array([0, numbers[13], numbers[14], numbers[12]])
    return after[:, None] * core * before @ np.kron(high, low)


def exchange_matrix(numbers: np.ndarray) -> np.ndarray:
    """The matrix that the kernel's numbers of an exchange stand for."""
    low, high = (np.array([[1, -t], [t, 1]]) for t in numbers[:2])
    core = np.zeros((4, 4), complex)
    core[0, 0] = numbers[2]
    core[[1, 2, 3], [2, 1, 3]] = np.ascontiguousarray(numbers[4:10]).view(np.result_type(numbers.dtype, np.complex64))
    return core @ np.kron(high, low)


def lean_matrix(numbers: np.ndarray) -> np.ndarray:
    """The matrix that the kernel's 12 numbers of a lean one stand for."""
    matrix = np.zeros((4, 4), complex)
    for mixed, real in zip(([0, 3], [1, 2]), numbers[:8].reshape(2, 2, 2)):
        matrix[np.ix_(mixed, mixed)] = real * np.array([[1, -1j], [1j, 1]])
    return (1 + 1j * numbers[[8, 10, 11, 9]])[:, None] * matrix


def name_of(kind: int) -> tuple[str, int]:
    """An operation's name, and its register bit or pair."""
    name = next(n for n, k in OPS.items() if k <= kind < k + 8)
    return name, kind - OPS[name]


def span(columns: Any) -> np.ndarray:
    """The XOR of the columns of each index's bits."""
    result = np.zeros(1, np.int64)
    for column in columns:
        result = np.concatenate([result, result ^ int(column)])
    return result


def parity(numbers: np.ndarray) -> np.ndarray:
    result = numbers
    for shift in (16, 8, 4, 2, 1):
        result = result ^ result >> shift
    return result & 1
