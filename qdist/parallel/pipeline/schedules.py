"""Pipeline schedules as data: which rank runs the forward or backward pass of which micro-batch, in which order.

A pipeline has `stages` numbered from input to output; stage s lives on rank s % ranks, so with more stages than ranks
a rank has several, far apart ("virtual stages"). An action needs what the neighbouring stage made of the same
micro-batch: a forward pass the activations of the stage before, a backward pass the gradients of the stage after.

    naive          a micro-batch goes all the way down and up before the next one starts
    f-then-b       all forward passes, then all backward passes (GPipe, arXiv 1811.06965)
    1f1b           as soon as it can, a rank alternates between one forward and one backward pass; it keeps at most
                   `ranks` micro-batches instead of all (PipeDream-flush, arXiv 2006.09503)
    pipedream      the order of 1f1b, with an update after every backward pass and stashed weights: no flush in between
    interleaved    1f1b over virtual stages: the bubble is shorter by their number (arXiv 2104.04473)

A schedule is checked, drawn and timed here without running anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

__all__ = ["SCHEDULES", "Action", "Schedule", "ScheduleError", "Slot", "make_schedule"]

FORWARD, BACKWARD = "F", "B"


class ScheduleError(ValueError):
    """A schedule that would not come to its end, or not do what it should."""


class Action(NamedTuple):
    """One pass of one micro-batch through one stage."""

    kind: str
    """"F" or "B"."""
    stage: int
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.kind}{self.micro_batch}@{self.stage}"


class Slot(NamedTuple):
    """An action and when it runs, by a clock that counts slots."""

    action: Action
    start: int
    stop: int


@dataclass(frozen=True)
class Schedule:
    """The actions of every rank, in order.

    Any lists may be given: `check()` says whether they make a pipeline.
    """

    name: str
    ranks: int
    stages: int
    """At least `ranks`, and a multiple of it."""
    micro_batches: int
    actions: tuple[tuple[Action, ...], ...]
    """actions[rank]."""

    @property
    def virtual_stages(self) -> int:
        """How many stages a rank has."""
        return self.stages // self.ranks

    def rank_of(self, stage: int) -> int:
        """Where a stage lives."""
        return stage % self.ranks

    def __str__(self) -> str:
        """A line a rank; F2@5 is the forward pass of micro-batch 2 through stage 5."""
        return "\n".join(
            f"rank {rank}: {' '.join(str(a) for a in actions)}".rstrip() for rank, actions in enumerate(self.actions)
        )

    def forward_only(self) -> Schedule:
        """The same without the backward passes: for evaluation."""
        kept = tuple(tuple(a for a in actions if a.kind == FORWARD) for actions in self.actions)
        return Schedule(f"{self.name}, forward only", self.ranks, self.stages, self.micro_batches, kept)

    def needs(self, action: Action) -> Action | None:
        """The action of the neighbouring stage that this one takes its input from, if there is one."""
        kind, stage, micro_batch = action
        if kind == FORWARD:
            return None if stage == 0 else Action(FORWARD, stage - 1, micro_batch)
        return None if stage == self.stages - 1 else Action(BACKWARD, stage + 1, micro_batch)

    # Without running --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Raises ScheduleError unless every pass runs once on its rank, messages arrive in the order in which they are
        expected, and no rank waits for ever."""
        self._check_complete()
        self.timeline()
        for source, target in self._neighbours():
            for kind in (FORWARD, BACKWARD):
                self._check_order(kind, source, target)

    def timeline(self, forward: int = 1, backward: int = 1) -> tuple[tuple[Slot, ...], ...]:
        """When each action runs if passes take so many slots each and messages none; timeline[rank].

        Raises ScheduleError when the ranks wait for each other in a circle, naming what each waits for.
        """
        if forward < 1 or backward < 1:
            raise ValueError(f"forward={forward}, backward={backward}: a pass takes at least one slot")
        done: dict[Action, int] = {}
        slots: list[list[Slot]] = [[] for _ in range(self.ranks)]
        waiting = [iter(actions) for actions in self.actions]
        current = [next(actions, None) for actions in waiting]
        moving = True
        while moving:
            moving = False
            for rank in range(self.ranks):
                while (action := current[rank]) is not None and self._ready(action, done):
                    needed = self.needs(action)
                    start = max(slots[rank][-1].stop if slots[rank] else 0, 0 if needed is None else done[needed])
                    stop = start + (forward if action.kind == FORWARD else backward)
                    done[action] = stop
                    slots[rank].append(Slot(action, start, stop))
                    current[rank] = next(waiting[rank], None)
                    moving = True
        stuck = [f"rank {rank} at {action}" for rank, action in enumerate(current) if action is not None]
        if stuck:
            raise ScheduleError(f"the schedule {self.name!r} does not end: {', '.join(stuck)} wait for ever")
        return tuple(map(tuple, slots))

    def bubble(self, forward: int = 1, backward: int = 1) -> Fraction:
        """The share of all ranks' slots, from the first action to the last, in which a rank has nothing to do."""
        timeline = self.timeline(forward, backward)
        length = max(slot.stop for slots in timeline for slot in slots)
        busy = sum(slot.stop - slot.start for slots in timeline for slot in slots)
        return 1 - Fraction(busy, length * self.ranks)

    def peak_live(self) -> tuple[int, ...]:
        """For each rank the most passes at a time that were forward and are not yet backward: what they computed has
        to be kept."""
        peaks = []
        for actions in self.actions:
            live = peak = 0
            for action in actions:
                live += 1 if action.kind == FORWARD else -1
                peak = max(peak, live)
            peaks.append(peak)
        return tuple(peaks)

    def _ready(self, action: Action, done: dict[Action, int]) -> bool:
        needed = self.needs(action)
        own = Action(FORWARD, action.stage, action.micro_batch)
        return (needed is None or needed in done) and (action.kind == FORWARD or own in done)

    def _check_complete(self) -> None:
        if self.ranks < 1 or self.micro_batches < 1 or self.stages < 1 or self.stages % self.ranks:
            raise ScheduleError(
                f"{self.stages} stages, {self.ranks} ranks, {self.micro_batches} micro-batches: all are positive, and "
                "the ranks divide the stages"
            )
        if len(self.actions) != self.ranks:
            raise ScheduleError(f"{len(self.actions)} lists of actions for {self.ranks} ranks")
        kinds = {action.kind for actions in self.actions for action in actions} | {FORWARD}
        if not kinds <= {FORWARD, BACKWARD}:
            raise ScheduleError(f"actions are {FORWARD!r} and {BACKWARD!r}, not {sorted(kinds)}")
        for rank, actions in enumerate(self.actions):
            mine = range(rank, self.stages, self.ranks)
            due = {Action(kind, stage, m) for kind in kinds for stage in mine for m in range(self.micro_batches)}
            for action in actions:
                if action not in due:
                    raise ScheduleError(f"rank {rank} runs {action}, which is not its own or runs twice")
                due.remove(action)
            if due:
                raise ScheduleError(f"rank {rank} never runs {min(due)}")

    def _neighbours(self) -> Iterator[tuple[int, int]]:
        """Ranks that send to another one: next to each other in a ring."""
        for rank in range(self.ranks):
            for other in {(rank + 1) % self.ranks, (rank - 1) % self.ranks} - {rank}:
                yield rank, other

    def _check_order(self, kind: str, source: int, target: int) -> None:
        """Messages carry no names: the k-th that is sent is taken for the k-th that is expected."""
        expected = [
            needed
            for action in self.actions[target]
            if action.kind == kind and (needed := self.needs(action)) and self.rank_of(needed.stage) == source
        ]
        sent = [action for action in self.actions[source] if action in set(expected)]
        for got, want in zip(sent, expected):
            if got != want:
                raise ScheduleError(f"rank {source} sends the result of {got} where rank {target} expects {want}'s")


# The four schedules ---------------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def make_schedule(name: str, ranks: int, micro_batches: int, virtual_stages: int = 1) -> Schedule:
    """A schedule by its name.

    Args:
        name: one of SCHEDULES.
        ranks: how many ranks the stages are spread over.
        micro_batches: how many a batch is cut into.
        virtual_stages: stages on each rank; "interleaved" takes two or more, the others have one.

    Raises ValueError for numbers that do not fit.
    """
    if name not in SCHEDULES:
        raise ValueError(f"schedule {name!r} is not known: use one of {', '.join(map(repr, SCHEDULES))}")
    for what, number in (("ranks", ranks), ("micro_batches", micro_batches), ("virtual_stages", virtual_stages)):
        if number < 1:
            raise ValueError(f"{what}={number}: at least 1")
    if (name == "interleaved") != (virtual_stages > 1):
        raise ValueError(
            f"virtual_stages={virtual_stages} with schedule {name!r}: 'interleaved' takes 2 or more, the others take 1"
        )
    actions = tuple(tuple(SCHEDULES[name](rank, ranks, micro_batches, virtual_stages)) for rank in range(ranks))
    return Schedule(name, ranks, ranks * virtual_stages, micro_batches, actions)


def _naive(rank: int, ranks: int, micro_batches: int, virtual_stages: int) -> Iterator[Action]:
    for m in range(micro_batches):
        yield Action(FORWARD, rank, m)
        yield Action(BACKWARD, rank, m)


def _f_then_b(rank: int, ranks: int, micro_batches: int, virtual_stages: int) -> Iterator[Action]:
    for kind in (FORWARD, BACKWARD):
        for m in range(micro_batches):
            yield Action(kind, rank, m)


def _one_forward_one_backward(rank: int, ranks: int, micro_batches: int, virtual_stages: int) -> Iterator[Action]:
    forward = [Action(FORWARD, rank, m) for m in range(micro_batches)]
    backward = [Action(BACKWARD, rank, m) for m in range(micro_batches)]
    # The later stages start later, so that many forward passes fit in before the first gradient comes back.
    return _alternate(forward, backward, ranks - rank - 1)


def _interleaved(rank: int, ranks: int, micro_batches: int, virtual_stages: int) -> Iterator[Action]:
    """Groups of `ranks` micro-batches go through the rank's first stage, then its second, and so on.

    The paper asks for a number of micro-batches that the ranks divide. Others are dealt out to as many groups, which
    are then a little larger: a smaller group would leave a rank without the work that its neighbours wait for.
    """
    rounds = max(1, micro_batches // ranks)
    starts = [-(-micro_batches * k // rounds) for k in range(rounds + 1)]
    groups = [range(first, stop) for first, stop in pairwise(starts)]
    stages = range(rank, ranks * virtual_stages, ranks)
    forward = [Action(FORWARD, stage, m) for group in groups for stage in stages for m in group]
    backward = [Action(BACKWARD, stage, m) for group in groups for stage in reversed(stages) for m in group]
    # Twice the distance to the last rank, since a pass of one stage takes 1 / virtual_stages of the time, and all
    # stages but the last one of the first group.
    return _alternate(forward, backward, 2 * (ranks - rank - 1) + (virtual_stages - 1) * len(groups[0]))


def _alternate(forward: list[Action], backward: list[Action], ahead: int) -> Iterator[Action]:
    """`ahead` forward passes, then one forward and one backward in turn, then the backward passes that are left."""
    ahead = min(ahead, len(forward))
    yield from forward[:ahead]
    for f, b in zip(forward[ahead:], backward):
        yield f
        yield b
    yield from backward[len(forward) - ahead :]


SCHEDULES: dict[str, Callable[[int, int, int, int], Iterator[Action]]] = {
    "naive": _naive,
    "f-then-b": _f_then_b,
    "1f1b": _one_forward_one_backward,
    "pipedream": _one_forward_one_backward,
    "interleaved": _interleaved,
}
"""For each name the actions of (rank, ranks, micro_batches, virtual_stages)."""
