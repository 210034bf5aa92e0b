"""Plan: the stages and blocks of a circuit's unitary parts, as data that can be printed, counted and costed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

import numpy as np

from qdist.circuit import Gate, PauliSum
from qdist.circuit.instruction import Instruction
from qdist.plan.cost import Cluster, Machine, block_flops, bytes_of_swaps
from qdist.plan.fuse import Block
from qdist.plan.layout import Layout
from qdist.plan.levels import Level
from qdist.plan.network.exchanges import Swaps
from qdist.plan.observables.plan import ObservablePlan, plan_observables
from qdist.plan.operations import Operation
from qdist.plan.rows.steps import unsupported
from qdist.plan.stages.backward import Backward, backward
from qdist.plan.stages.division import sweeps_of
from qdist.plan.stages.schedule import Stage
from qdist.plan.stages.target import Target

__all__ = ["Part", "Plan", "Segment", "readable_size"]


_STRINGS_OF_GROUPS = 4
"""A block: with fewer, batches take less time as rows."""


@dataclass(slots=True)
class Segment:
    """Stages that run under one layout, after the exchange (swaps of close and far positions) that leads to it."""

    swaps: Swaps
    layout: Layout
    stages: list[tuple[Stage, list[Block]]]
    still: Backward | None = None
    """Where qubits change places between the stages (plan/stages/moving.py): stages that do the same without, which the
    adjoint sweep begins with, and their target."""


@dataclass(slots=True)
class Part:
    """Consecutive unconditional gates of the circuit, in segments, or one instruction that is not a plain gate."""

    segments: list[Segment]
    instruction: Instruction | None = None
    """A measurement, reset or initialisation, or a gate under a classical condition (whose stages come with it)."""


@dataclass(slots=True, repr=False, eq=False)
class Plan:
    """How a circuit will run."""

    num_qubits: int
    dtype: np.dtype
    levels: tuple[Level, ...]
    far: int
    """How many bit positions (the highest) number the shards: 0 where one shard holds the whole state."""
    layout: Layout
    """The first layout of the qubits."""
    parts: list[Part]
    target: Target
    """The device model that the stages were planned for."""
    inside: int = 0
    """How many of the far positions, from the lowest, number the shards of one node."""
    schedule: str = "lazy"
    in_double: bool = False
    """Whether tiles are computed in complex128, whatever the amplitudes are stored in (plan/precision.py)."""
    gradients_in_double: bool = False
    """Whether a plan for gradients is computed so, where one for values need not be."""
    angles_decide: bool = False
    """Whether they are computed from this plan after all where angles spread the state (plan/precision.py)."""
    rows_in_double: bool = False
    """The same for batches as row programs, whose rotations run one after the other."""
    folded: Mapping[int, Sequence[tuple[Gate, int]]] = field(default_factory=dict)
    """First one-qubit gates on qubits that are far in the first layout: absorbed into the initial product state instead
    of being among the parts. For each qubit its gates, with the number of their first angle."""
    renames: bool = False
    """Whether SWAP gates were left out, since qubits may have any names in |0...0>."""

    @property
    def segments(self) -> list[Segment]:
        return [segment for part in self.parts for segment in part.segments]

    @property
    def only_from_zero(self) -> bool:
        """Whether it is no plan for given states: it leaves out what does nothing to |0...0>, or qubits change places
        between stages in a way that was found for it."""
        return bool(self.folded) or self.renames or any(segment.still for segment in self.segments)

    @property
    def sweeps(self) -> int:
        """Passes over memory, each of which reads and writes the whole state."""
        return sum(len(segment.stages) for segment in self.segments)

    @property
    def exchanges(self) -> int:
        """Exchanges of amplitudes between shards."""
        return sum(bool(segment.swaps) for segment in self.segments)

    @property
    def exchanges_between_nodes(self) -> int:
        """How many of the exchanges cross nodes."""
        return sum(bool(self.crossing(segment)) for segment in self.segments)

    @property
    def shard_bits(self) -> int:
        """Index bits of a shard."""
        return self.num_qubits - self.far

    @property
    def shard_bytes(self) -> int:
        return self.state_bytes >> self.far

    @property
    def bytes_sent(self) -> float:
        """Bytes that one shard sends in all exchanges."""
        return sum(map(sum, self._bytes_of_exchanges()))

    @property
    def bytes_between_nodes(self) -> float:
        """Bytes of those that leave the node."""
        return sum(between for _, between in self._bytes_of_exchanges())

    def _bytes_of_exchanges(self) -> list[tuple[float, float]]:
        return [bytes_of_swaps(self.shard_bytes, len(s.swaps), self.crossing(s)) for s in self.segments]

    def crossing(self, segment: Segment) -> int:
        """How many of the swaps are with positions whose bits number the nodes."""
        first = self.num_qubits - self.far + self.inside
        return sum(b >= first for _, b in segment.swaps)

    @property
    def blocks(self) -> list[Block]:
        """All blocks, in the order they run."""
        return [block for segment in self.segments for _, blocks in segment.stages for block in blocks]

    def backward(self, segment: Segment, support: int) -> Backward:
        """The stages that undo a segment on ket and bra. support: nonzero-support mask before the segment runs: 0 if it
        is the first on |0...0>, -1 if any amplitude may be nonzero."""
        still = segment.still or Backward(self.target, segment.stages)
        return backward(still.stages, self.shard_bits, still.target, support)

    def observables(self, sums: Sequence[PauliSum], gates: Sequence[Operation] = ()) -> ObservablePlan:
        """How observables are computed where the plan ends. gates: see ``plan_observables``."""
        layout = self.segments[-1].layout if self.segments else self.layout
        return plan_observables(sums, layout, self.shard_bits, gates)

    @property
    def num_gates(self) -> int:
        """Operations of all blocks: what is left of the circuit's gates after simplification."""
        return sum(o.num_gates for block in self.blocks for o in block.operations)

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

    @property
    def rows_unfit(self) -> str:
        """Why batches do not run as row programs (plan/rows), but state by state; empty where they do."""
        if self.far:
            return "the amplitudes are split over ranks"
        if any(part.instruction is not None for part in self.parts):
            return "the circuit is not unitary"
        found = (unsupported(operation) for block in self.blocks for operation in block.operations)
        why = next((why for why in found if why), "")
        if why:
            return f"the circuit has {why}"
        if self.groups_strings and self.num_qubits > self.target.row_strings[1]:
            return "its Pauli rotations take less time in blocks of several strings"
        return self.target.rows_unfit(self.num_qubits)

    @property
    def one_row(self) -> int:
        """Qubits up to which one parameter set goes as a batch of one row."""
        return self.target.row_strings[0] if self.groups_strings else self.target.one_row

    @property
    def groups_strings(self) -> bool:
        """Whether most blocks are Pauli rotations of several strings, as those of molecules are."""
        strings = sum(len(block.operations) for block in self.blocks if block.kind == "rotation")
        return strings >= _STRINGS_OF_GROUPS * len(self.blocks) > 0

    def seconds(self, machine: Machine) -> float:
        """The time of the plan on a machine that is limited by memory bandwidth or arithmetic alone."""
        return machine.seconds(self._bytes_of_sweeps, self.flops, self._arithmetic)

    @property
    def _arithmetic(self) -> np.dtype:
        return np.dtype(np.complex128) if self.in_double else self.dtype

    @property
    def _bytes_of_sweeps(self) -> float:
        """Bytes that memory could move in the time of all sweeps from |0...0>: fewer than all where amplitudes known
        to be zero are skipped, more where something other than memory limits a stage."""
        sweeps, support = 0.0, 0
        for segment in self.segments:
            sweeps += sweeps_of(self.target, segment.stages, self.shard_bits, support)
            support = -1
        return 2 * self.state_bytes * sweeps

    def shards_per_rank(self, ranks: int) -> int:
        """Shards of the rank that holds most."""
        return -(-(1 << self.far) // ranks)

    def seconds_of_sweeps(self, cluster: Cluster, ranks: int) -> float:
        """The part of ``seconds_on`` in which nothing is sent."""
        share = self.shards_per_rank(ranks) / (1 << self.far)
        return cluster.machine.seconds(share * self._bytes_of_sweeps, share * self.flops, self._arithmetic)

    def seconds_on(self, cluster: Cluster, ranks: int) -> float:
        """The time of the plan on so many ranks of a cluster, where sweeps and exchanges do not overlap."""
        computing = self.seconds_of_sweeps(cluster, ranks)
        messages = sum((1 << len(segment.swaps)) - 1 for segment in self.segments)
        between = self.bytes_between_nodes
        shards = self.shards_per_rank(ranks)
        return computing + cluster.exchange_seconds(
            shards * (self.bytes_sent - between), shards * between, shards * messages
        )

    def __repr__(self) -> str:
        return f"<Plan of {self.summary().partition(chr(10))[0]}>"

    def _repr_html_(self) -> str:
        """What notebooks show: the summary."""
        return f"<pre>{escape(self.summary())}</pre>"

    def summary(self) -> str:
        """The totals, then each exchange between ranks and each sweep over memory with its gates and blocks."""
        shards = f" in {1 << self.far} shards, {several(self.exchanges, 'exchange')}" if self.far else ""
        size = readable_size(self.state_bytes)
        double = ""
        if self.dtype == np.complex64 and self.gradients_in_double:
            double = " computed in double" if self.in_double else " with gradients computed in double"
            double += " unless angles spread the state" if self.angles_decide else ""
        lines = [
            f"{several(self.num_qubits, 'qubit')}, {self.dtype}{double}{shards}: "
            f"{several(self.sweeps, 'sweep')} of {size}, {several(len(self.blocks), 'block')}, {self.flops:.3g} flops"
        ]
        why = self.rows_unfit
        lines.append("  batches: " + (f"state by state, because {why}" if why else "rows of one kernel"))
        if self.folded:
            lines.append("  first gates absorbed into the initial state: of qubits " + _ranges(sorted(self.folded)))
        for part in self.parts:
            if part.instruction is not None:
                condition = " if " + str(part.instruction.condition) if part.instruction.condition else ""
                lines.append(f"  {part.instruction.gate.name} {list(part.instruction.qubits)}{condition}")
            for segment in part.segments:
                if segment.swaps:
                    lines.append("  exchange " + ", ".join(f"{a} with {b}" for a, b in segment.swaps))
                for stage, blocks in segment.stages:
                    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(b.kind for b in blocks).items())
                    gates = several(stage.num_gates, "gate")
                    lines.append(f"  sweep of tiles of bits {_ranges(stage.close)}: {gates} as {kinds}")
        return "\n".join(lines)


def several(count: int, what: str) -> str:
    """1 gate, 2 gates"""
    return f"{count} {what}" + ("" if count == 1 else "s")


def readable_size(nbytes: float) -> str:
    """1.5 GiB"""
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
