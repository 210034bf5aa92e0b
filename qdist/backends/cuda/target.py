"""A GPU as a target of plans: tiles of shared memory, and tables that must find room beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from qdist.backends.cuda.lowering import back_resident
from qdist.backends.cuda.lowering.back_tables import BackTables
from qdist.backends.cuda.lowering.inverse import undoing
from qdist.backends.cuda.lowering.lean import is_lean
from qdist.backends.cuda.lowering.patterns import PARITIES
from qdist.backends.cuda.lowering.phases import WIDEST, num_phases
from qdist.backends.cuda.lowering.resident import layout, resident
from qdist.backends.cuda.lowering.tables import Tables
from qdist.backends.cuda.lowering.tile import Shape, back_shape_of, larger_shapes, shape_of
from qdist.plan.cost import block_flops
from qdist.plan.fuse import Block
from qdist.plan.stages.schedule import Stage
from qdist.plan.stages.target import Target

__all__ = ["CudaTarget", "cuda_target"]

_ROW_BYTES = 128
"""Rows that memory is read in at its full speed; half as long ones take twice the time."""


@dataclass(frozen=True, slots=True)
class _Costs:
    """What a stage of the forward run takes, in units of reading and writing the state: to do so beside all else, each
    phase, each multiplication an amplitude of its matrices, each block of phases; and how much more where tiles have so
    many bits more than the smallest."""

    memory: float
    phase: float
    product: float
    diagonal: float
    larger: tuple[float, ...]


_COSTS = {8: _Costs(0.44, 0.14, 0.0093, 0.116, (1.0, 1.02, 1.07)), 16: _Costs(0.65, 0.116, 0.0063, 0.122, (1.0, 1.07))}
"""By bytes of an amplitude in the arithmetic. Fitted to 95 plans for seven circuits of 28 and 30 qubits on an H200, of
which they tell the times to 5 % and 3 % (benchmarks/gpu_notes.md)."""


@dataclass(frozen=True, slots=True)
class _BackCosts:
    """What a stage of the adjoint sweep takes with its arithmetic, in units of reading and writing ket and bra: to do
    so beside all else; how much more in rows of half the length; a phase where a multiprocessor has room for one tile;
    a matrix of one qubit and one of two, a lean one, Pauli rotations that flip the same bits; a block of phases, and
    each term in it."""

    memory: float = 0.40
    half_rows: float = 0.36
    phase_alone: float = 0.02
    one: float = 0.09
    two: float = 0.46
    lean: float = 0.25
    rotations: float = 0.35
    diagonal: float = 0.19
    term: float = 0.007

    def of(self, memory: float, alone: int, blocks: Sequence[Block]) -> float:
        """A stage of these blocks. memory: the time to read and write its rows; alone: such
        phases."""
        work = self.phase_alone * alone + sum(map(self._block, blocks))
        return self.memory + self.half_rows * (memory - 1) + work

    def _block(self, block: Block) -> float:
        if block.kind in ("diagonal", "table"):
            return self.diagonal + self.term * sum(len(o.terms) + len(o.wide) for o in block.operations)
        if block.kind == "rotation":
            return self.rotations
        if block.keeps_parity:
            return self.lean
        if block.kind != "dense":
            return 0.0
        width, share = block.mixes.bit_count(), 0.5 ** len(block.operations[0].controls)
        return share * (self.one if width == 1 else self.two * 4.0 ** (width - 2))


_BACK_COSTS = _BackCosts()
"""Fitted to 46 plans for fourteen circuits of 28 qubits in complex64 on an H200: it tells by how much plans of a
circuit differ where qubits change places, to 6 % of the sweep (benchmarks/gpu_notes.md)."""

_PHASES_A_SWEEP = 3.0
"""Phases of the adjoint sweep that take as long as memory does: a stage takes as long as the slower of both, which is
what plans whose qubits stay are compared by (benchmarks/gpu_notes.md)."""

_FEWER_BLOCKS = {1: 1.1, 2: 1.05}
"""What larger tiles than the shape's cost the adjoint sweep, by how many a multiprocessor has room for: barriers that
more warps wait at (benchmarks/gpu_notes.md)."""

_FEWEST_BITS_TO_CHOOSE = 23
"""Of shards for which several shapes are tried: smaller ones fit caches, where a sweep costs little."""

_WORTH_PLANNING = 30
"""On 28 qubits eighteen families of circuits take 16 to 185 ms with a first plan, planning included, and 0.14 to 2.9 s
with the best one (H200)."""

_TRIES = 16
_FEWEST_BITS_TO_TRY = 26
"""Schedules that are compared, and where: it takes about as long again as all other planning."""

_PHASES_A_GATE = 0.75
"""Of a matrix of two qubits, before its blocks are known: some share a phase."""

_ONE_ROW = 12
"""A launch of one block, where the kernels of single circuits are bound by their many launches."""

_ROUNDINGS = 240
"""More than on a CPU, whose matrices on two qubits do not have their numbers chosen."""

_ROW_ROUNDINGS = 100
"""Fewer than on a CPU, as a row's derivatives are sums over threads: gradients of weight 144 to 240 were off by up to
1.0e-6 to 1.5e-6 of their length on an H200 (40 draws each)."""

_MOST_ROW_QUBITS = 16
"""Of rows of a batch: in shared memory up to 12 or 13 qubits, beyond in L2, for one block of threads each."""


@dataclass(frozen=True, slots=True)
class CudaTarget(Target):
    """Tiles of one shape: those of the forward run, or of ket and bra in the adjoint sweep. ``dtype`` is that of the
    amplitudes in memory, ``shape.dtype`` the arithmetic's."""

    shape: Shape = field(kw_only=True)

    def rows_unfit(self, num_qubits: int) -> str:
        return "" if num_qubits <= _MOST_ROW_QUBITS else f"ket and bra of {num_qubits} qubits do not fit caches"

    def chooses_numbers(self, block: Block) -> bool:
        return block.keeps_parity and is_lean(block)

    def has_room(self, num_bits: int, stage: Stage, blocks: Sequence[Block]) -> bool:
        # Each operation begins a phase at most, beside those that load and store.
        if _surely_fits(stage, blocks, sum(len(block.operations) for block in blocks) + 2, self.shape):
            return True
        if self.shape.states == 1 and not stage.is_wide:
            count = num_phases(stage.close, blocks, self.shape)
            if _surely_fits(stage, blocks, count, self.shape):
                return True
        return _fits(num_bits, stage, blocks, self.shape)

    def sweep_cost(self, num_bits: int, stage: Stage, blocks: Sequence[Block]) -> float:
        memory = self._memory(num_bits, stage)
        if stage.is_wide:
            return memory
        if self.shape.states == 1:
            count = num_phases(stage.close, blocks, self.shape)
            diagonals = sum(block.kind in ("diagonal", "table") for block in blocks)
            products = sum(map(_products, blocks))
            costs, more = _COSTS[self.shape.itemsize], self.shape.tile - shape_of(self.shape.dtype).tile
            work = costs.memory * memory + costs.phase * count + costs.diagonal * diagonals + costs.product * products
            return max(memory, costs.larger[min(max(0, more), len(costs.larger) - 1)] * work)
        # The adjoint sweep takes one more than it has: 0.8 ms each at 28 qubits in complex64 on an H200.
        count = num_phases(stage.close, undoing(blocks), self.shape)
        fewer = self._fewer_blocks(stage)
        return (_FEWER_BLOCKS[fewer] if fewer else 1.0) * max(memory, (1 + count) / _PHASES_A_SWEEP)

    def stage_cost(self, num_bits: int, stage: Stage, blocks: Sequence[Block]) -> float:
        if self.shape.states == 1 or stage.is_wide:
            return self.sweep_cost(num_bits, stage, blocks)
        count = num_phases(stage.close, undoing(blocks), self.shape) if self._fewer_blocks(stage) == 1 else 0
        return _BACK_COSTS.of(self._memory(num_bits, stage), count, blocks)

    def _memory(self, num_bits: int, stage: Stage) -> float:
        """The time to read and write the shard in the rows that the stage's tiles have."""
        inside = sum(1 << p for p in stage.close)
        row = next(p for p in range(num_bits + 1) if not inside >> p & 1)
        return max(1.0, _ROW_BYTES / (self.dtype.itemsize << row))

    def _fewer_blocks(self, stage: Stage) -> int:
        """How many tiles of the adjoint sweep a multiprocessor has room for, where they are larger than its shape's;
        0 where they are not."""
        usual = back_shape_of(self.shape.dtype)
        more = max(0, len(stage.close) - usual.tile)
        return max(1, usual.blocks >> more) if more else 0

    def tries(self, num_bits: int) -> int:
        return _TRIES if self.shape.states == 1 and num_bits >= _FEWEST_BITS_TO_TRY else 0

    def work(self, num_bits: int) -> float:
        if not self.tries(num_bits):
            return 0.0
        costs = _COSTS[self.shape.itemsize]
        return costs.product + _PHASES_A_GATE / 16 * costs.phase  # Matrices of two qubits weigh 16.

    def widened(self) -> CudaTarget:
        double = np.dtype(np.complex128)
        if self.shape.dtype == double:
            return self
        of = shape_of if self.shape.states == 1 else back_shape_of
        return target_of(self.dtype, replace(of(double), contiguous=self.shape.contiguous))

    def forward(self, num_bits: int, trained: bool) -> tuple[Target, ...]:
        if num_bits < _FEWEST_BITS_TO_CHOOSE:
            return ()
        return tuple(target_of(self.dtype, shape) for shape in larger_shapes(self.shape))

    def backward(self) -> tuple[Target, ...]:
        shape = replace(back_shape_of(self.shape.dtype), contiguous=self.shape.contiguous)
        others = [replace(shape, contiguous=shape.contiguous - 1), *larger_shapes(shape)]
        # Stages of larger tiles are undone as they are, or planned anew for the sweep's own.
        if self.shape.tile > shape.tile:
            others.insert(0, shape)
        return tuple(target_of(self.dtype, s) for s in (shape, *others))


def cuda_target(dtype: np.dtype) -> CudaTarget:
    """What a program in this dtype is planned for on a GPU."""
    return target_of(dtype, shape_of(dtype))


def target_of(dtype: np.dtype, shape: Shape) -> CudaTarget:
    """Tiles of this shape."""
    return CudaTarget(
        "tile",
        dtype,
        *(shape.tile, shape.contiguous, shape.registers, shape.widest),
        parities=PARITIES,
        joins_phases=True,
        moves_qubits=True,
        one_row=_ONE_ROW,
        row_strings=(_ONE_ROW, _MOST_ROW_QUBITS),
        roundings=_ROUNDINGS,
        row_roundings=_ROW_ROUNDINGS,
        worth_planning=_WORTH_PLANNING,
        shape=shape,
    )


def _products(block: Block) -> float:
    """Multiplications an amplitude of a block that is no diagonal: of matrices on two qubits those of a pair
    (backends/pairs.py) or of a lean matrix (lowering/lean.py). Joined ones are few of many, and seldom have the
    neighbours that a pair needs."""
    if block.kind in ("diagonal", "table"):
        return 0.0
    if block.keeps_parity:
        return 5.5
    if block.is_plain_dense and block.mixes.bit_count() == 2:
        return 16.0 if any(o.parts for o in block.operations) else 10.5
    return block_flops(block) / 2


def _surely_fits(stage: Stage, blocks: Sequence[Block], count: int, shape: Shape) -> bool:
    """Whether no lowering of the blocks in ``count`` phases can need more room than there is: the usual case, told
    without lowering."""
    # Matrices on one qubit or two are an operation each, whatever became part of them.
    matrices = sum(block.is_plain_dense and block.mixes.bit_count() <= WIDEST for block in blocks)
    others = [
        o for block in blocks if not block.is_plain_dense or block.mixes.bit_count() > WIDEST for o in block.operations
    ]
    phases = sum(len(o.terms) + len(o.wide) for o in others)
    size = max(len(stage.close), shape.narrowest)
    if shape.states == 1:
        # A matrix has up to 32 numbers, or four a register; a table of phases two for each setting of the registers.
        numbers = matrices * max(32, 4 * shape.registers) + len(others) * max(32, 2 << shape.registers)
        counts = (count, matrices + len(others) + phases, numbers, phases)
        few = phases * shape.itemsize // 2 <= shape.coefficient_bytes
        return few and layout(size, shape, *counts).end <= shape.shared_bytes
    phases = sum(len(o.terms) + len(o.wide) for block in blocks for o in block.operations)
    needed = count * (1024 + (4 << size - shape.registers)) + 256 * phases
    return needed <= shape.shared_bytes - (shape.states * shape.itemsize << size)


def _fits(num_bits: int, stage: Stage, blocks: Sequence[Block], shape: Shape) -> bool:
    if shape.states == 1:
        (lowered,) = Tables(num_bits, shape.dtype, [(stage, list(blocks))], shape).stages
        # Phases of one thread add up to one coefficient, so only tables tell.
        few = lowered.num_coefficients * shape.itemsize // 2 <= shape.coefficient_bytes
        return few and resident(lowered, shape).end <= shape.shared_bytes
    slots = {slot for block in blocks for o in block.operations for slot in o.reads}
    tables = BackTables(num_bits, shape.dtype, [(stage, list(blocks))], shape, slots)
    return back_resident.resident(tables.stages[0], tables.extents[0], shape)[1] <= shape.shared_bytes
