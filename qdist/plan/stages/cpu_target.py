"""A CPU as a target of plans: tiles of the first-level cache, and what blocks take beside reading and writing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from qdist.native import variant
from qdist.plan.cost import is_real
from qdist.plan.fuse import Block
from qdist.plan.stages.schedule import Stage
from qdist.plan.stages.target import Target

__all__ = ["arithmetic_share", "cpu_target"]

_PARITIES = 6
"""Tables of 64 angles: a few of them stay in the first-level cache beside a tile."""
_ROW_BLOCK = 1 << 22
"""A second-level cache, or nearly so."""

_WORTH_PLANNING = 22
"""Circuits whose gates go straight to kernels (backends/cpu/unplanned.py) take less time so up to about there, on two
cores of a Xeon."""

_FEWEST_BITS_TO_CHOOSE = 18
"""Of shards for which larger tiles are tried: smaller ones fit caches, where a sweep costs little."""

_X86_LARGER = (
    ((1.3, 1.2, 1.3), (1.5, 1.3, 1.4), (1.6, 1.4, 1.5)),
    ((1.4, 1.2, 1.0), (1.4, 1.3, 1.05), (1.4, 1.4, 1.1)),
)
_LARGER = {"aarch64": (((1.5, 1.1, 1.1),),) * 2}.get(variant, _X86_LARGER)
"""What sweeps of tiles of two, four and eight times the size cost, which are read from the second-level cache, where
the state is in a cache and where it is not: a sweep; where schedules are compared, its reading and writing; and its
arithmetic. On x86 chosen such that few of 29 circuits of 20, 22 and 24 qubits lose where they change, on two cores of
a Xeon, with AVX-512 and with AVX2, and of a Zen 5 (benchmarks/cpu_notes.md). On AArch64 (Neoverse-N1) circuits of half
the sweeps took 0.71 to 0.77 of the time in complex128, with four fifths of them 0.85 to 1.3, with as many 1.02 to
1.12."""

_TRAINS_LARGER = variant != "aarch64"
"""Whether they are tried for circuits with parameters too, whose stages are undone on two states: on Neoverse-N1 that
was not timed."""

_TRIES = 16
"""Of ten circuits of 20 qubits the plan of 16 costs up to 32 % less than the first, up to 13 % less than that of 4;
that of 48 costs 3 % less in one of them, and 2 to 4 % more in three, as gates are weighed before they are blocks."""

_DENSE = {1: 1.1, 2: 1.85, 3: 5.1, 4: 8.3}
_REAL = {1: 0.56, 2: 1.0}
_KEEPS_PARITY, _CONTROLLED, _ROTATION, _DIAGONAL, _MOVES = 0.65, 0.42, 0.61, 0.9, 0.73
"""Of blocks, by the qubits that a matrix mixes and by kind, in units of reading and writing a state in the cache.
Fitted to 43 circuits of 20 qubits in complex64 on two Neoverse-N1 cores (benchmarks/cpu_notes.md), but for that of
matrices which keep parities, a guess: such circuits run as Pauli rotations there; and that of real ones of two qubits,
which 100 random ones show beside as many complex ones."""

_IN_CACHE = 1 << 23
"""Bytes of a state that two cores read and write about twice as fast as larger ones, by amplitude."""

_ARITHMETIC = {"aarch64": (1.0, 0.37), "x86_64_v3": (0.25, 0.13), "x86_64_v4": (0.16, 0.08)}
"""What those numbers are to be multiplied by where the state is in the cache, and where it is not: two Neoverse-N1
cores, two of a Xeon with AVX2 and with AVX-512, fitted to the same circuits (of 20 and 24 qubits)."""


def arithmetic_share(nbytes: int) -> float:
    """What the numbers of blocks are to be multiplied by, for a state of so many bytes."""
    return (_ARITHMETIC.get(variant) or _ARITHMETIC["aarch64"])[nbytes > _IN_CACHE]


def _block_cost(block: Block) -> float:
    if block.kind in ("diagonal", "table"):
        return _DIAGONAL
    if block.kind in ("linear", "permute"):
        return _MOVES
    if block.kind == "rotation":
        return _ROTATION
    mixed = block.mixes.bit_count()
    if not block.is_plain_dense:
        return _CONTROLLED * mixed
    if mixed == 2 and block.keeps_parity:
        return _KEEPS_PARITY
    if mixed in _REAL and is_real(block):
        return _REAL[mixed]
    return _DENSE.get(mixed) or _DENSE[4] * 2.0 ** (mixed - 4)


@dataclass(frozen=True, slots=True)
class CpuTarget(Target):
    """Tiles of one size, or of a few times that."""

    doublings: int = 0

    def tries(self, num_bits: int) -> int:
        return _TRIES

    def work(self, num_bits: int) -> float:
        return arithmetic_share(self.dtype.itemsize << num_bits) * _DENSE[2] / 16  # Matrices of two qubits weigh 16.

    def stage_cost(self, num_bits: int, stage: Stage, blocks: Sequence[Block]) -> float:
        arithmetic = arithmetic_share(self.dtype.itemsize << num_bits) * sum(map(_block_cost, blocks))
        _, sweep, work = self._costs(num_bits)
        return sweep + work * arithmetic

    def sweep_cost(self, num_bits: int, stage: Stage, blocks: Sequence[Block]) -> float:
        return self._costs(num_bits)[0]

    def _costs(self, num_bits: int) -> tuple[float, float, float]:
        if not self.doublings:
            return 1.0, 1.0, 1.0
        return _LARGER[self.dtype.itemsize << num_bits > _IN_CACHE][self.doublings - 1]

    def forward(self, num_bits: int, trained: bool) -> tuple[Target, ...]:
        if self.doublings or num_bits < _FEWEST_BITS_TO_CHOOSE or (trained and not _TRAINS_LARGER):
            return ()
        return tuple(replace(self, tile=self.tile + k, doublings=k) for k in range(1, len(_LARGER[0]) + 1))


def cpu_target(dtype: np.dtype) -> Target:
    """Tiles that fit a core's first-level cache beside the copy that permutations need: 32 KiB of amplitudes, in rows
    of at least 128 bytes, so that every cache line read is used."""
    tile, row = ((size // dtype.itemsize).bit_length() - 1 for size in (32 * 1024, 128))
    return CpuTarget(
        "cache",
        dtype,
        tile,
        row,
        parities=_PARITIES,
        arithmetic_apart=True,
        worth_planning=_WORTH_PLANNING,
        row_block=_ROW_BLOCK,
    )
