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
from qdist.plan.levels import Level, cache_level
from qdist.plan.operations import operation
from qdist.plan.schedule import Stage, schedule

__all__ = ["Part", "Plan", "make_plan"]


@dataclass(slots=True)
class Part:
    """A stretch of the circuit that runs in one go: gates as stages, or one instruction that is no plain gate."""

    stages: list[tuple[Stage, list[Block]]]
    instruction: Instruction | None = None
    """A measurement, reset or initialisation, or a gate under a classical condition (whose stages come with it)."""


@dataclass(slots=True)
class Plan:
    """How a circuit will run."""

    num_qubits: int
    dtype: np.dtype
    levels: tuple[Level, ...]
    parts: list[Part]

    @property
    def sweeps(self) -> int:
        """How often the whole state is read and written."""
        return sum(len(part.stages) for part in self.parts)

    @property
    def blocks(self) -> list[Block]:
        """All blocks, in the order they run."""
        return [block for part in self.parts for _, blocks in part.stages for block in blocks]

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
        lines = [
            f"{self.num_qubits} qubits, {self.dtype}: {self.sweeps} sweeps of {_size(self.state_bytes)}, "
            f"{len(self.blocks)} blocks, {self.flops:.3g} flops"
        ]
        for part in self.parts:
            if part.instruction is not None:
                condition = " if " + str(part.instruction.condition) if part.instruction.condition else ""
                lines.append(f"  {part.instruction.gate.name} {list(part.instruction.qubits)}{condition}")
            for stage, blocks in part.stages:
                kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(b.kind for b in blocks).items())
                lines.append(f"  close {_ranges(stage.close)}: {len(stage.operations)} gates as {kinds}")
        return "\n".join(lines)


def make_plan(circuit: Circuit, dtype: np.dtype, levels: Sequence[Level] | None = None) -> Plan:
    """The plan of a circuit on one shard that holds the whole state. Deterministic."""
    n = circuit.num_qubits
    chosen = tuple(levels) if levels is not None else (cache_level(n, dtype.itemsize),)
    parts: list[Part] = []
    waiting: list[tuple[Instruction, int]] = []

    def stages_of(gates: list[tuple[Instruction, int]]) -> list[tuple[Stage, list[Block]]]:
        found = [o for o in (operation(i, slot) for i, slot in gates) if o is not None]
        planned = [part for o in found for part in narrowed(o, chosen[-1].close - chosen[-1].contiguous)]
        return [(stage, fuse(stage.operations)) for stage in schedule(planned, n, chosen)]

    def flush() -> None:
        if waiting:
            stages = stages_of(waiting)
            if stages:
                parts.append(Part(stages))
            waiting.clear()

    slot = 0
    for instruction in circuit:
        if instruction.gate.is_unitary and not instruction.condition:
            waiting.append((instruction, slot))
        elif not instruction.gate.is_directive:
            flush()
            plain = [(instruction, slot)] if instruction.gate.is_unitary else []
            parts.append(Part(stages_of(plain), instruction))
        slot += len(instruction.params)
    flush()
    return Plan(n, dtype, chosen, parts)


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
