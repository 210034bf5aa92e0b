"""From Circuit to Plan: the initial product state, the exchanges, then the sweeps between two exchanges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from qdist.circuit import Circuit, CircuitError, Gate
from qdist.circuit.channels import refuse_channels
from qdist.circuit.instruction import Instruction
from qdist.plan.cost import SERVERS_OF_GPUS, Cluster
from qdist.plan.layout import Layout
from qdist.plan.levels import Level
from qdist.plan.network.cnots import fewer_cnots
from qdist.plan.network.exchanges import VISITS_PER_SECOND, NetworkStage, in_order, tiled
from qdist.plan.network.nodes import Network, lazy_in_nodes
from qdist.plan.operations import Operation, keeps_parity, moved, operation
from qdist.plan.plan import Part, Plan, Segment
from qdist.plan.precision import angles_decide, computes_in_double
from qdist.plan.rewrites.cliffords import with_cliffords_behind
from qdist.plan.rewrites.euler import with_phases_apart
from qdist.plan.rewrites.hopping import with_hopping_apart
from qdist.plan.rewrites.ladders import narrowed
from qdist.plan.rewrites.monomials import as_moves
from qdist.plan.rewrites.pairs import with_pairs_joined
from qdist.plan.rewrites.sandwiches import without_sandwiches
from qdist.plan.rewrites.swaps import without_swaps
from qdist.plan.stages.backward import Backward
from qdist.plan.stages.cpu_target import cpu_target
from qdist.plan.stages.division import Tiles, cost_of, shares_of, staged, staged_cheaply, sweeps_of
from qdist.plan.stages.moving import staged_moving
from qdist.plan.stages.target import Target

__all__ = ["SCHEDULES", "check_schedule", "make_plan"]

SCHEDULES = ("lazy", "in-order", "paper")

MAX_QUBITS = 62
"""Indices of amplitudes are int64, and a sum of two must be one too."""

_WORTH = 0.97
"""A smaller relative gain is within the error of the cost model."""
_WORTH_MOVING = 0.95
"""The same for stages between which qubits change places, whose plans differ more."""

_WORTH_JOINING = 0.85
"""The same for pairs joined: such plans took up to a third longer than they cost, beside others that did not, on x86
and an H200 alike."""

_AMPLITUDES_A_TRY = 10_000
"""Amplitudes that a sweep reads and writes in the time that a try takes for each operation: two to three microseconds
on Neoverse-N1."""

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
    planner = _Planner(network, chosen, target, schedule, start, int(time_limit * VISITS_PER_SECOND))
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
    if levels is None:
        _join_pairs(plan, support)
    plan.gradients_in_double = computes_in_double(plan, trained)
    plan.in_double = plan.gradients_in_double if gradients else computes_in_double(plan, trained, gradients=False)
    widened = target.widened()
    if plan.in_double and widened != target:
        _stage_again(plan, widened, levels)
    if levels is None:
        # Where the sweep back has no stages of its own, larger tiles of two states would be too large.
        as_planned = trained and len(plan.target.backward()) == 1
        _stage_faster(plan, support, as_planned)
    if plan.gradients_in_double and not plan.in_double and start is None:
        plan.angles_decide = angles_decide(plan, trained)
    return plan


def _join_pairs(plan: Plan, support: int) -> None:
    """Gates on the same two qubits as one matrix each, where a segment costs less so. support: as for ``cost_of``, of
    the first; exchanges bring in what may be anything."""
    bits, target = plan.shard_bits, plan.target
    for k, segment in enumerate(plan.segments):
        joined = with_pairs_joined([o for stage, _ in segment.stages for o in stage.operations], bits)
        if joined is not None:
            found = staged(joined, bits, target, target.levels(bits))
            cost, before = (cost_of(target, stages, bits, -1 if k else support) for stages in (found, segment.stages))
            if cost < _WORTH_JOINING * before:
                segment.stages = found


def _stage_again(plan: Plan, target: Target, levels: Sequence[Level] | None) -> None:
    """The same exchanges, with stages for another target between them."""
    plan.target = target
    chosen = tuple(levels) if levels is not None else target.levels(plan.shard_bits)
    plan.levels = (plan.levels[0], *chosen)
    for segment in plan.segments:
        operations = [o for stage, _ in segment.stages for o in stage.operations]
        segment.stages = staged(operations, plan.shard_bits, target, chosen)


def _in_order(stages: list[Tiles]) -> list[Operation]:
    """Operations in the order in which they run."""
    return [o for _, blocks in stages for block in blocks for o in block.operations]


class _Cost(NamedTuple):
    """Of stages: their sweeps, and these with their arithmetic, which is known less well."""

    sweeps: float
    all: float

    def is_less(self, other: _Cost, worth: float) -> bool:
        return self.sweeps < worth * other.sweeps and self.all <= other.all


class _Choice(NamedTuple):
    """Stages of a plan's segments, what they are for and what they cost; still: those that they were before qubits
    changed places between them, with their target."""

    target: Target
    stages: list[list[Tiles]]
    cost: _Cost
    still: tuple[Target, list[list[Tiles]]]


def _stage_faster(plan: Plan, support: int, as_planned: bool) -> None:
    """The stages that cost least of those in the plan, of those that a search over schedules finds, and of what
    ``_faster`` makes of both. support: as for ``cost_of``, of the first segment; exchanges bring in what may be
    anything. as_planned: for tiles of the plan's own target alone."""
    bits, target = plan.shard_bits, plan.target
    targets = (target, *(() if as_planned else target.forward(bits)))
    stages = [segment.stages for segment in plan.segments]
    best = _faster(stages, bits, targets, support)
    if (searched := _searched(stages, bits, target, support)) is not None:
        found = _faster(searched, bits, targets, support)
        best = found if found.cost.all < _WORTH * best.cost.all else best
    still, unmoved = best.still
    plan.target, plan.levels = best.target, (plan.levels[0], *best.target.levels(bits))
    for segment, own, plain in zip(plan.segments, best.stages, unmoved):
        segment.stages = own
        segment.still = None if own is plain else Backward(still, plain)


def _searched(stages: list[list[Tiles]], bits: int, target: Target, support: int) -> list[list[Tiles]] | None:
    """The same operations in the stages that a search over schedules finds, where they cost less; None if they never
    do. It takes about as long as one run, at most."""
    found = list(stages)
    for k, own in enumerate(stages):
        before = -1 if k else support
        operations = [o for stage, _ in own for o in stage.operations]
        cost = cost_of(target, own, bits, before)
        tries = min(target.tries(bits), int(cost * 2.0**bits / (_AMPLITUDES_A_TRY * max(1, len(operations)))))
        if tries > 1:
            cheaper = staged_cheaply(operations, bits, target, before, tries)
            if cost_of(target, cheaper, bits, before) < _WORTH * cost:
                found[k] = cheaper
    return None if all(own is before for own, before in zip(found, stages)) else found


def _faster(start: list[list[Tiles]], bits: int, targets: tuple[Target, ...], support: int) -> _Choice:
    """Stages for one of the targets, of which the first is that of the start, if they take less time, or those for an
    order in which another one runs the gates: what tiles of one size bring together often runs together in those of
    another; or stages between which qubits change places."""

    def cost(target: Target, stages: list[list[Tiles]]) -> _Cost:
        own = [(target, part, bits, -1 if k else support) for k, part in enumerate(stages)]
        sweeps = sum(sweeps_of(*one) for one in own)
        return _Cost(sweeps, sum(cost_of(*one) for one in own) if target.arithmetic_apart else sweeps)

    def planned(operations: Iterable[list[Operation]], target: Target) -> list[list[Tiles]]:
        return [staged(own, bits, target, target.levels(bits)) for own in operations]

    target, chosen = targets[0], start
    least = cost(target, chosen)
    if len(targets) == 1:
        return _Choice(target, chosen, least, (target, chosen))
    for other in targets[1:]:
        stages = planned(([o for stage, _ in own for o in stage.operations] for own in chosen), other)
        needed = cost(other, stages)
        if needed.is_less(least, _WORTH):
            target, chosen, least = other, stages, needed
    first = chosen
    for other in [other for other in targets if other != target]:
        again = planned(map(_in_order, planned(map(_in_order, first), other)), target)
        needed = cost(target, again)
        if needed.is_less(least, _WORTH):
            chosen, least = again, needed
    still, worth = (target, chosen), _WORTH_MOVING
    for other in targets:
        moving = _staged_moving(still[1], bits, other, support)
        if moving is not None and (needed := cost(other, moving)).is_less(least, worth):
            target, chosen, least, worth = other, moving, needed, 1.0
    return _Choice(target, chosen, least, still)


def _staged_moving(stages: list[list[Tiles]], bits: int, target: Target, support: int) -> list[list[Tiles]] | None:
    """Stages of the segments' operations between which qubits change places; None where that cannot be planned, or
    saves no reading and writing in one of them."""
    if not target.moves_qubits:
        return None
    moving = []
    for k, own in enumerate(stages):
        before = -1 if k else support
        most = sum(shares_of((stage for stage, _ in own), bits, before))
        found = staged_moving(_in_order(own), bits, target, before, most)
        if found is None:
            return None
        moving.append(found)
    return moving


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
    ) -> None:
        self._n, self._close = network.num_qubits, network.close
        self._network, self._levels, self._schedule, self._limit = network, levels, schedule, limit
        self._target = target
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
        room = self._levels[-1].close - self._levels[-1].contiguous
        parts = [part for move in self._moves(found, instruction.gate) for part in narrowed(move, room)]
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
        joins_phases = self._target.joins_phases
        operations = without_sandwiches(operations)
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
        if gate.num_qubits == 1 and not found.all & touched:
            first.append(planned)
        else:
            rest.append(planned)
            touched |= found.all
    return first, rest
