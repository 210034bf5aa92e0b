"""From Circuit to Plan: the initial product state, the exchanges, then the sweeps between two exchanges."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qdist.circuit import Circuit, CircuitError, Gate
from qdist.circuit.channels import refuse_channels
from qdist.circuit.instruction import Instruction
from qdist.plan.cost import SERVERS_OF_GPUS, Cluster
from qdist.plan.fastest import join_pairs, stage_faster
from qdist.plan.layout import Layout
from qdist.plan.levels import Level
from qdist.plan.network.cnots import fewer_cnots
from qdist.plan.network.exchanges import VISITS_PER_SECOND, NetworkStage, in_order, tiled
from qdist.plan.network.nodes import Network, lazy_in_nodes
from qdist.plan.operations import Operation, keeps_parity, moved, operation
from qdist.plan.plan import Part, Plan, Segment
from qdist.plan.precision import angles_decide, computes_in_double
from qdist.plan.rewrites.cliffords import with_cliffords_behind
from qdist.plan.rewrites.conjugated import with_rotations_found
from qdist.plan.rewrites.euler import with_phases_apart
from qdist.plan.rewrites.folding import with_phases_folded
from qdist.plan.rewrites.hopping import with_hopping_apart
from qdist.plan.rewrites.ladders import narrowed
from qdist.plan.rewrites.monomials import as_moves
from qdist.plan.rewrites.phases import with_phases_gathered
from qdist.plan.rewrites.reflections import with_reflections
from qdist.plan.rewrites.sandwiches import without_sandwiches
from qdist.plan.rewrites.swaps import without_swaps
from qdist.plan.stages.cpu_target import cpu_target
from qdist.plan.stages.division import staged
from qdist.plan.stages.target import Target

__all__ = ["SCHEDULES", "check_schedule", "make_plan"]

SCHEDULES = ("lazy", "in-order", "paper")

MAX_QUBITS = 62
"""Indices of amplitudes are int64, and a sum of two must be one too."""

# (operation, the gate it comes from, number of the gate's first angle)
_Planned = tuple[Operation, Gate, int]


def make_plan(
    circuit: Circuit,
    dtype: np.dtype,
    levels: Sequence[Level] | None = None,
    far: int = 0,
    *,
    target: Target | None = None,
    inside: int | None = None,
    schedule: str = "lazy",
    start: Layout | None = None,
    cluster: Cluster = SERVERS_OF_GPUS,
    time_limit: float = 1.0,
    gradients: bool = False,
    once: bool = False,
) -> Plan:
    """The plan of a circuit on 2**far shards. Deterministic, and so the same on every rank.

    Args:
        levels: of the memory inside a rank; by default those of the target.
        target: what the stages will run on; by default a CPU.
        inside: how many of the far positions number the shards of one node; all by default.
        schedule: "lazy" for few exchanges; to compare with, "in-order" (swap in, apply, swap back) and "paper" (the
            tiles of arXiv 2410.04252).
        start: the layout of a state to begin with. Without one the circuit begins with |0...0>: the first layout is
            then chosen, and first gates on far qubits are absorbed into the initial product state.
        cluster: the interconnect of the ranks; decides between few exchanges and few of them between nodes.
        time_limit: seconds for the search for few exchanges, counted in gate visits (exchanges.VISITS_PER_SECOND).
        gradients: whether they are computed from it, which takes a higher precision than values do.
        once: whether it runs one time: states of fewer qubits than ``Target.worth_planning`` are then not worth a
            better plan than the first.

    Raises:
        ValueError: for an unknown schedule, or more positions inside than are far.
        CircuitError: for a gate that mixes more qubits than a shard has, and for more than 62 qubits.
    """
    check_schedule(schedule)
    n = circuit.num_qubits
    if n > MAX_QUBITS:
        raise CircuitError(f"{n} qubits cannot be simulated: a state has at most {MAX_QUBITS}")
    close = n - far
    target = target or cpu_target(dtype)
    chosen = tuple(levels) if levels is not None else target.levels(close)
    if inside is not None and not 0 <= inside <= far:
        raise ValueError(
            f"inside={inside}: of the {far} index bits that select the rank, 0 to {far} can be inside a node"
        )
    network = Network(n, close, far if inside is None else inside, dtype.itemsize << close, cluster)
    plain = once and not far and n < target.worth_planning
    planner = _Planner(network, chosen, target, schedule, start, int(time_limit * VISITS_PER_SECOND), plain)
    parts: list[Part] = []
    waiting: list[_Planned] = []

    def flush() -> None:
        if waiting:
            parts.append(Part(planner.segments(waiting, from_zero=not parts and start is None)))
            waiting.clear()

    slot = 0
    for instruction in circuit:
        if instruction.gate.is_unitary and not instruction.condition:
            waiting += planner.planned(instruction, slot)
        elif not instruction.gate.is_directive:
            refuse_channels((instruction,), "a plan for state vectors")
            flush()
            own = planner.planned(instruction, slot) if instruction.gate.is_unitary else []
            parts.append(Part(planner.segments(own), instruction))
        slot += len(instruction.params)
    flush()
    plan = Plan(
        n,
        dtype,
        (Level("network", close), *chosen),
        far,
        start or planner.first or Layout.identity(n),
        parts,
        target,
        network.inside,
        schedule,
        folded=planner.folded,
        renames=planner.renames,
    )
    trained, support = circuit.num_parameters > 0, 0 if start is None else -1
    plan.rows_in_double = computes_in_double(plan, trained, one_by_one=True)
    apart = None
    if levels is None and not plain:
        before = _precision(plan, trained, gradients)
        apart = join_pairs(plan, support)
        # Where pairs that are joined are what makes single precision do, there is no way back.
        apart = apart if _precision(plan, trained, gradients) == before else None
    plan.gradients_in_double, plan.in_double = _precision(plan, trained, gradients)
    widened = target.widened()
    if plan.in_double and widened != target:
        _stage_again(plan, widened, levels)
        apart = None
    if levels is None and not plain:
        stage_faster(plan, support, trained, apart)
    if plan.gradients_in_double and not plan.in_double and start is None:
        plan.angles_decide = angles_decide(plan, trained)
    return plan


def _precision(plan: Plan, trained: bool, gradients: bool) -> tuple[bool, bool]:
    """Whether gradients, and the plan's runs, are computed in double precision; arguments as for ``make_plan``."""
    in_double = computes_in_double(plan, trained)
    return in_double, in_double if gradients else computes_in_double(plan, trained, gradients=False)


def _stage_again(plan: Plan, target: Target, levels: Sequence[Level] | None) -> None:
    """The same exchanges, with stages for another target between them."""
    plan.target = target
    chosen = tuple(levels) if levels is not None else target.levels(plan.shard_bits)
    plan.levels = (plan.levels[0], *chosen)
    for segment in plan.segments:
        operations = [o for stage, _ in segment.stages for o in stage.operations]
        segment.stages = staged(operations, plan.shard_bits, target, chosen)


def check_schedule(schedule: str) -> None:
    """Raises ValueError for a schedule that does not exist."""
    if schedule not in SCHEDULES:
        raise ValueError(f"schedule={schedule!r}: there are {', '.join(map(repr, SCHEDULES))}")


class _Planner:
    """Plans consecutive gates into segments, keeping track of the layout."""

    def __init__(
        self,
        network: Network,
        levels: tuple[Level, ...],
        target: Target,
        schedule: str,
        start: Layout | None,
        limit: int,
        plain: bool,
    ) -> None:
        self._plain = plain
        self._n, self._close = network.num_qubits, network.close
        self._network, self._levels, self._schedule, self._limit = network, levels, schedule, limit
        self._target = target
        self._room = levels[-1].close - levels[-1].contiguous
        """Qubits that one operation may mix."""
        chosen_later = start is None and schedule == "lazy"
        self._layout = None if chosen_later else start or Layout.identity(self._n)
        self.first = self._layout
        self.folded: dict[int, list[tuple[Gate, int]]] = {}
        self.renames = False

    def planned(self, instruction: Instruction, slot: int) -> list[_Planned]:
        """The gate as operations: none for an identity, several for a Pauli rotation too wide for a tile."""
        found = operation(instruction, slot)
        if found is None:
            return []
        parts = [part for move in self._moves(found, instruction.gate) for part in narrowed(move, self._room)]
        widest = max(o.mixes.bit_count() for o in parts)
        if widest > self._close:
            raise CircuitError(
                f"{instruction.gate.name} acts on {widest} qubits at once, and a rank's share of the state has "
                f"{self._close}: use at most {1 << self._n - widest} ranks"
            )
        return [(o, instruction.gate, slot) for o in parts]

    def _moves(self, found: Operation, gate: Gate) -> list[Operation]:
        """A gate as moves and phases, where that takes less. One of one qubit stays one operation, since it may be
        absorbed into the initial state (and see rewrites/cliffords.py). Where phases join matrices, those that keep
        parities cost little, and take in what is beside them."""
        if gate.num_qubits == 1 or (self._target.joins_phases and keeps_parity(found)):
            return [found]
        return as_moves(found)

    def segments(self, gates: list[_Planned], from_zero: bool = False) -> list[Segment]:
        """The segments of these gates. from_zero: they act on |0...0>."""
        if from_zero and self._schedule == "lazy":
            named = without_swaps([o for o, _, _ in gates], self._n)
            kept = [(o, gate, slot) for o, (_, gate, slot) in zip(named, gates) if o is not None]
            self.renames = len(kept) < len(gates)
            gates = kept
        first: list[_Planned] = []
        if from_zero and self._layout is None and self._close < self._n:
            first, gates = _leading(gates)
        stages = self._network_stages([o for o, _, _ in gates])
        if first:
            stages = stages or [NetworkStage((), Layout.identity(self._n), [])]
            self._fold(first, stages[0])
        if stages:
            self._layout = stages[-1].layout
            self.first = self.first or stages[0].layout
        return [self._segment(stage) for stage in stages]

    def _fold(self, first: list[_Planned], stage: NetworkStage) -> None:
        """Of the gates on qubits in |0>, those on close qubits run first; the others go into the initial state."""
        near = []
        for found, gate, slot in first:
            qubit = found.all.bit_length() - 1
            if stage.layout.positions[qubit] < self._close:
                near.append(found)
            else:
                self.folded.setdefault(qubit, []).append((gate, slot))
        stage.operations[:0] = with_cliffords_behind(near, self._target.joins_phases)

    def _network_stages(self, operations: list[Operation]) -> list[NetworkStage]:
        if self._plain:
            return [NetworkStage((), self._layout or Layout.identity(self._n), operations)] if operations else []
        joins_phases = self._target.joins_phases
        operations = with_rotations_found(without_sandwiches(operations), self._room)
        operations = with_phases_folded(with_reflections(operations))
        operations = with_phases_gathered(with_reflections(operations))
        if not joins_phases:
            operations = with_hopping_apart(operations)
        operations = with_phases_apart(with_cliffords_behind(operations, joins_phases), joins_phases)
        if not operations:
            return []
        if self._close == self._n:
            return [NetworkStage((), self._layout or Layout.identity(self._n), operations)]
        if self._schedule == "lazy":
            stages, work = lazy_in_nodes(fewer_cnots(operations), self._network, self._layout, self._limit)
            self._limit = max(0, self._limit - work)
            return stages
        assert self._layout is not None
        order = in_order if self._schedule == "in-order" else tiled
        return order(operations, self._close, self._layout)

    def _segment(self, stage: NetworkStage) -> Segment:
        placed = stage.operations
        if not stage.layout.is_identity:
            # Below the network level, operations are on bit positions instead of qubits.
            placed = [moved(o, stage.layout.positions) for o in placed]
        return Segment(stage.swaps, stage.layout, staged(placed, self._close, self._target, self._levels))


def _leading(gates: list[_Planned]) -> tuple[list[_Planned], list[_Planned]]:
    """The one-qubit gates before which nothing acts on their qubits, and the rest."""
    first: list[_Planned] = []
    rest: list[_Planned] = []
    touched = 0
    for planned in gates:
        found, gate, _ = planned
        if gate.num_qubits == 1 and found.all and not found.all & touched:
            first.append(planned)
        else:
            rest.append(planned)
            touched |= found.all
    return first, rest
