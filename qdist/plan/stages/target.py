"""Target: the device model a plan is made for. Size and limits of the tiles of a stage, and the cost of a sweep."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from qdist.native import kernels
from qdist.plan.fuse import Block, fuse
from qdist.plan.levels import Level
from qdist.plan.operations import Operation
from qdist.plan.stages.schedule import Stage

__all__ = ["Target"]

_VECTOR_BYTES = 4 << kernels.lane_bits[0]


@dataclass(frozen=True, slots=True)
class Target:
    """A kind of device, for amplitudes of one dtype. A backend with further limits derives from it."""

    name: str
    dtype: np.dtype
    tile: int
    """Index bits of a tile, unless a gate needs more."""
    contiguous: int
    """How many of the lowest bit positions every tile holds, so that memory is read in contiguous rows."""
    fewest: int = 0
    """Least index bits of a tile."""
    widest: int = 62
    """Most index bits of a tile: a gate that mixes more runs on the whole shard."""
    parities: int = 0
    """By how many parities of the index the Pauli rotations of one block may be told apart, in tables of 2**parities
    angles; 0 if the device runs each rotation by itself."""
    joins_phases: bool = False
    """Whether phases of the qubits of a two-qubit matrix become part of it."""
    moves_qubits: bool = False
    """Whether stages may leave qubits at other positions of their tiles at little cost (plan/stages/moving.py)."""
    arithmetic_apart: bool = False
    """Whether ``stage_cost`` counts arithmetic that ``sweep_cost`` does not."""
    worth_planning: int = 0
    """Qubits from which on a circuit that runs one time is worth more than the first plan: on smaller states, rewriting
    gates and comparing plans take longer than they save."""

    row_block: int = 0
    """Bytes of cache that a block of rows of a batch may take (plan/rows); 0 if the device has no kernels for them."""

    one_row: int = 8
    """Qubits up to which one parameter set goes as a batch of one row: a single call, though most lanes are idle."""

    row_strings: tuple[int, int] = (7, 9)
    """The same, and qubits up to which batches go as rows, of circuits whose Pauli rotations are blocks of several
    strings: rows take a pass for each string (``Plan.groups_strings``)."""

    roundings: int = 170
    """The weight (plan/precision.py) up to which gradients run in single precision."""

    roundings_a_qubit: int = 16
    """The same, divided by the number of qubits, where that allows more: in so few layers most errors do not reach what
    is observed on other qubits. Gradients of 14 to 20 qubits were off by up to 1.3e-6 of their length there: Trotter
    steps, entangling layers, scrambling layers of general gates (Neoverse-N1; on an H200 by up to 9e-7)."""

    row_roundings: int = 240
    """The weight (plan/precision.py) up to which row programs with parameters run in single precision."""

    def levels(self, num_bits: int) -> tuple[Level, ...]:
        """The memory levels inside a rank, for shards of so many index bits."""
        return (Level(self.name, min(num_bits, self.tile), min(num_bits, self.contiguous)),)

    def rows_unfit(self, num_qubits: int) -> str:
        """Why batches of states of so many qubits do not run as row programs; empty where they do."""
        if not self.row_block:
            return "the device has no kernels for rows"
        # Ket, bra and working memory: vectors of real numbers, whatever their precision is.
        if 3 * _VECTOR_BYTES << num_qubits + 1 > self.row_block:
            return f"blocks of rows of {num_qubits} qubits do not fit the cache"
        return ""

    def fused(self, operations: Iterable[Operation]) -> list[Block]:
        """The blocks that the device runs for these operations."""
        return fuse(operations, self.parities, self.joins_phases)

    def chooses_numbers(self, block: Block) -> bool:
        """Whether the numbers of a block's matrix are rounded to single precision such that errors of gates that share
        an angle do not add up, instead of each to the nearest (plan/precision.py)."""
        return False

    def has_room(self, num_bits: int, stage: Stage, blocks: Sequence[Block]) -> bool:
        """Whether the executor's tables for the stage fit into the memory they are read from."""
        return True

    def sweep_cost(self, num_bits: int, stage: Stage, blocks: Sequence[Block]) -> float:
        """The time of the stage, in units of reading and writing the whole shard once."""
        return 1.0

    def stage_cost(self, num_bits: int, stage: Stage, blocks: Sequence[Block]) -> float:
        """By what schedules are compared: the time of the stage with its arithmetic, in the same units. The same as the
        sweep's, if that is not apart."""
        return self.sweep_cost(num_bits, stage, blocks)

    def tries(self, num_bits: int) -> int:
        """Schedules that are compared where a run takes longer than that; 0 if the first one is taken."""
        return 0

    def work(self, num_bits: int) -> float:
        """What a unit of an operation's weight (plan/stages/schedule.py) costs about, in the same units."""
        return 0.0

    def widened(self) -> Target:
        """The target for amplitudes of this dtype whose tiles are computed in double precision (plan/precision.py);
        itself, if its tiles are the same then."""
        return self

    def forward(self, num_bits: int, trained: bool) -> tuple[Target, ...]:
        """Targets for the same device whose stages may take less time on shards of so many bits, to be tried beside
        this one. trained: whether the circuit has parameters, so that its stages may have to be undone."""
        return ()

    def backward(self) -> tuple[Target, ...]:
        """Targets for the adjoint sweep: first the one that undoes these stages as they are, then alternatives that may
        need fewer sweeps."""
        return (self,)
