"""Plan: the stages and blocks of a circuit's unitary parts, as data that can be printed, counted and costed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qdist.circuit import Circuit
from qdist.circuit.instruction import Instruction
from qdist.plan.cost import Machine, block_flops
from qdist.plan.fuse import Block, fuse
from qdist.plan.ladders import narrowed
from qdist.plan.layout import Layout
from qdist.plan.levels import Level, cache_level
from qdist.plan.operations import moved, operation
from qdist.plan.schedule import Stage, schedule

__all__ = ["Part", "Plan", "Segment", "make_plan"]


@dataclass(slots=True)
class Segment:
    """Stages that run under one layout, after swaps of bit positions between shards that lead to it."""

    swaps: tuple[tuple[int, int], ...]
    """(close position, far position)"""
    layout: Layout
    stages: list[tuple[Stage, list[Block]]]


@dataclass(slots=True)
class Part:
    """A stretch of the circuit that runs in one go: gates in segments, or one instruction that is no plain gate."""

    segments: list[Segment]
    instruction: Instruction | None = None
    """A measurement, reset or initialisation, or a gate under a classical condition (whose stages come with it)."""


@dataclass(slots=True)
class Plan:
    """How a circuit will run."""

    num_qubits: int
    dtype: np.dtype
    levels: tuple[Level, ...]
    far: int
    """Bit positions that tell shards apart: 0 where one shard holds the whole state."""
    layout: Layout
    """Where the qubits are at the beginning."""
    parts: list[Part]

    @property
    def segments(self) -> list[Segment]:
        return [segment for part in self.parts for segment in part.segments]

    @property
    def sweeps(self) -> int:
        """How often the whole state is read and written."""
        return sum(len(segment.stages) for segment in self.segments)

    @property
    def exchanges(self) -> int:
        """How often amplitudes travel between shards."""
        return sum(bool(segment.swaps) for segment in self.segments)

    @property
    def bytes_sent(self) -> float:
        """Bytes that one shard sends in all exchanges: what k swapped bits leave is 1/2^k of it."""
        shard = self.state_bytes >> self.far
        return sum(shard * (1 - 0.5 ** len(segment.swaps)) for segment in self.segments)

    @property
    def blocks(self) -> list[Block]:
        """All blocks, in the order they run."""
        return [block for segment in self.segments for _, blocks in segment.stages for block in blocks]

    @property
    def state_bytes(self) -> int:
        return self.dtype.itemsize << self.num_qubits

    @property
    def bytes_moved(self) -> int:
        """Bytes read and written by all sweeps."""
        return 2 * self.sweeps * self.state_bytes

    @property
    def flops(self) -> float:
        """Floating-point operations of all blocks, if every tile is computed."""
        return sum(block_flops(block) for block in self.blocks) * 2.0**self.num_qubits

    def seconds(self, machine: Machine) -> float:
        """What the plan takes on such a machine if nothing but bandwidth or arithmetic limits it."""
        return machine.seconds(self.bytes_moved, self.flops, self.dtype)

    def summary(self) -> str:
        """Stages with their close qubits and blocks, and the totals."""
        shards = f" in {1 << self.far} shards, {self.exchanges} exchanges" if self.far else ""
        lines = [
            f"{self.num_qubits} qubits, {self.dtype}{shards}: {self.sweeps} sweeps of {_size(self.state_bytes)}, "
            f"{len(self.blocks)} blocks, {self.flops:.3g} flops"
        ]
        for part in self.parts:
            if part.instruction is not None:
                condition = " if " + str(part.instruction.condition) if part.instruction.condition else ""
                lines.append(f"  {part.instruction.gate.name} {list(part.instruction.qubits)}{condition}")
            for segment in part.segments:
                if segment.swaps:
                    lines.append("  exchange " + ", ".join(f"{a} with {b}" for a, b in segment.swaps))
                for stage, blocks in segment.stages:
                    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(b.kind for b in blocks).items())
                    lines.append(f"  close {_ranges(stage.close)}: {len(stage.operations)} gates as {kinds}")
        return "\n".join(lines)


def make_plan(circuit: Circuit, dtype: np.dtype, levels: Sequence[Level] | None = None, far: int = 0) -> Plan:
    """The plan of a circuit on 2**far shards. Deterministic, and so the same on every rank.

    levels: below the network; by default the cache alone.
    """
    n = circuit.num_qubits
    close = n - far
    chosen = tuple(levels) if levels is not None else (cache_level(close, dtype.itemsize),)
    planner = _Planner(n, close, chosen)
    parts: list[Part] = []
    waiting: list[tuple[Instruction, int]] = []

    def flush() -> None:
        if waiting:
            segments = planner.segments(waiting)
            if segments:
                parts.append(Part(segments))
            waiting.clear()

    slot = 0
    for instruction in circuit:
        if instruction.gate.is_unitary and not instruction.condition:
            waiting.append((instruction, slot))
        elif not instruction.gate.is_directive:
            flush()
            plain = [(instruction, slot)] if instruction.gate.is_unitary else []
            parts.append(Part(planner.segments(plain), instruction))
        slot += len(instruction.params)
    flush()
    return Plan(n, dtype, (Level("network", close), *chosen), far, planner.first or Layout.identity(n), parts)


class _Planner:
    """Plans one stretch after another, knowing where the qubits are."""

    def __init__(self, num_qubits: int, close: int, levels: tuple[Level, ...]) -> None:
        self._n, self._close, self._levels = num_qubits, close, levels
        self._layout = Layout.identity(num_qubits)
        self.first: Layout | None = None

    def segments(self, gates: list[tuple[Instruction, int]]) -> list[Segment]:
        found = [o for o in (operation(i, slot) for i, slot in gates) if o is not None]
        narrow = [part for o in found for part in narrowed(o, self._levels[-1].close - self._levels[-1].contiguous)]
        segments = []
        for stage in schedule(narrow, self._n, [Level("network", self._close)]):
            swaps = self._bring_close(stage.close)
            placed = stage.operations
            if not self._layout.is_identity:
                # The levels below work on bit positions and do not know of qubits.
                placed = [moved(o, self._layout.positions) for o in placed]
            inner = schedule(placed, self._close, self._levels)
            segments.append(Segment(swaps, self._layout, [(s, fuse(s.operations)) for s in inner]))
        return segments

    def _bring_close(self, wanted: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
        """Changes the layout so that these qubits are close; returns the swaps, highest close positions first, whose
        parts are the longest runs of memory. The first layout of all is free: |0...0> looks the same under any."""
        here = self._layout.qubits
        coming = [p for p in range(self._close, self._n) if here[p] in wanted]
        leaving = [p for p in reversed(range(self._close)) if here[p] not in wanted]
        swaps = tuple(zip(leaving, coming))
        for a, b in swaps:
            self._layout = self._layout.swap(a, b)
        if self.first is None:
            self.first = self._layout
            return ()
        return swaps


def _size(nbytes: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if nbytes < 1024:
            return f"{nbytes:.4g} {unit}"
        nbytes /= 1024
    return f"{nbytes:.4g} PiB"


def _ranges(numbers: Sequence[int]) -> str:
    """0-3, 7"""
    runs: list[list[int]] = []
    for k in numbers:
        if runs and k == runs[-1][1] + 1:
            runs[-1][1] = k
        else:
            runs.append([k, k])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
