"""Pipeline schedules: complete, free of deadlock, as short and as sparing as their papers say; and their pictures."""

from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qdist.parallel import Action, Schedule, ScheduleError, make_schedule, save_schedule_picture, schedule_picture

RANKS, MICRO_BATCHES = (1, 2, 3, 4, 5, 8), (1, 2, 3, 4, 5, 7, 8, 9, 12, 17)
PLAIN = ("naive", "f-then-b", "1f1b")


@pytest.mark.parametrize("name", PLAIN)
def test_every_schedule_passes_its_own_check(name: str) -> None:
    for ranks in RANKS:
        for micro_batches in MICRO_BATCHES:
            schedule = make_schedule(name, ranks, micro_batches)
            schedule.check()
            schedule.forward_only().check()


@pytest.mark.parametrize("virtual_stages", [2, 3, 4])
def test_interleaving_works_for_any_number_of_micro_batches(virtual_stages: int) -> None:
    for ranks in RANKS:
        for micro_batches in MICRO_BATCHES:
            schedule = make_schedule("interleaved", ranks, micro_batches, virtual_stages)
            schedule.check()
            schedule.forward_only().check()
            if micro_batches >= ranks:
                # Narayanan et al. 2021, section 2.2: the bubble of 1f1b, divided by the number of virtual stages.
                assert schedule.bubble() == Fraction(ranks - 1, virtual_stages * micro_batches + ranks - 1)


def test_bubbles_are_those_of_the_papers_whatever_a_backward_pass_costs() -> None:
    for ranks in RANKS:
        for micro_batches in MICRO_BATCHES:
            for backward in (1, 2, 3):
                for name in ("f-then-b", "1f1b"):
                    bubble = make_schedule(name, ranks, micro_batches).bubble(1, backward)
                    assert bubble == Fraction(ranks - 1, micro_batches + ranks - 1)
                assert make_schedule("naive", ranks, micro_batches).bubble(1, backward) == Fraction(ranks - 1, ranks)


def test_1f1b_keeps_as_many_micro_batches_as_stages_follow_and_f_then_b_keeps_all() -> None:
    for ranks in RANKS:
        for micro_batches in MICRO_BATCHES:
            kept = {name: make_schedule(name, ranks, micro_batches).peak_live() for name in PLAIN}
            assert kept["naive"] == (1,) * ranks
            assert kept["f-then-b"] == (micro_batches,) * ranks
            assert kept["1f1b"] == tuple(min(ranks - rank, micro_batches) for rank in range(ranks))


@given(
    st.sampled_from([*PLAIN, "interleaved"]), st.integers(1, 6), st.integers(1, 9), st.integers(1, 3), st.integers(1, 3)
)
def test_the_clock_gives_the_longest_path_through_what_must_come_before(
    name: str, ranks: int, micro_batches: int, forward: int, backward: int
) -> None:
    schedule = make_schedule(name, ranks, micro_batches, 2 if name == "interleaved" else 1)
    before = {a: b for actions in schedule.actions for b, a in pairwise(actions)}
    cost = {"F": forward, "B": backward}

    @cache
    def end(action: Action) -> int:
        kind, stage, m = action
        neighbour = stage - 1 if kind == "F" else stage + 1
        needed = [Action(kind, neighbour, m)] if 0 <= neighbour < schedule.stages else []
        return cost[kind] + max([end(a) for a in (*needed, *([before[action]] if action in before else []))], default=0)

    for actions, slots in zip(schedule.actions, schedule.timeline(forward, backward)):
        assert [slot.action for slot in slots] == list(actions)
        assert [slot.stop for slot in slots] == [end(action) for action in actions]
        assert all(slot.stop - slot.start == cost[slot.action.kind] for slot in slots)


def changed(rank: int, *actions: str) -> Schedule:
    """1f1b on two ranks with two micro-batches, one rank's actions written anew: "F0" and so on."""
    schedule = make_schedule("1f1b", 2, 2)
    lists = list(schedule.actions)
    lists[rank] = tuple(Action(a[0], rank, int(a[1:])) for a in actions)
    return replace(schedule, actions=tuple(lists))


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        (changed(0, "F0", "B0", "F1"), "rank 0 never runs B1@0"),
        (changed(1, "F0", "B0", "F1", "B1", "B1"), "rank 1 runs B1@1, which is not its own or runs twice"),
        (changed(0, "F0", "F1", "B0", "B2"), "rank 0 runs B2@0, which is not its own"),
        (changed(0, "B0", "F0", "F1", "B1"), "does not end: rank 0 at B0@0, rank 1 at F0@1 wait for ever"),
        (changed(0, "F0", "B0", "F1", "B1"), None),
        # Rank 1 wants both activations before it gives a gradient, rank 0 a gradient before it gives the second.
        (replace(make_schedule("naive", 2, 2), actions=(changed(0, "F0", "B0", "F1", "B1").actions[0],
                 changed(1, "F0", "F1", "B0", "B1").actions[1])), "does not end: rank 0 at B0@0, rank 1 at F1@1"),
        (changed(1, "F1", "B1", "F0", "B0"), "rank 0 sends the result of F0@0 where rank 1 expects F1@0's"),
        (replace(make_schedule("1f1b", 2, 2), stages=3), "the ranks divide the stages"),
        (replace(make_schedule("1f1b", 2, 2), ranks=1, stages=2), "2 lists of actions for 1 ranks"),
        (replace(make_schedule("1f1b", 1, 1), actions=((Action("W", 0, 0),),)), "actions are 'F' and 'B'"),
    ],
)  # fmt: skip
def test_a_schedule_that_cannot_work_is_refused_without_running(schedule: Schedule, message: str | None) -> None:
    if message is None:
        schedule.check()
        return
    with pytest.raises(ScheduleError) as caught:
        schedule.check()
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("2f2b", 2, 2), "'2f2b' is not known: use one of 'naive', 'f-then-b', '1f1b', 'pipedream', 'interleaved'"),
        (("1f1b", 0, 2), "ranks=0"),
        (("1f1b", 2, 0), "micro_batches=0"),
        (("1f1b", 2, 2, 2), "'interleaved' takes 2 or more, the others take 1"),
        (("interleaved", 2, 2), "virtual_stages=1 with schedule 'interleaved'"),
    ],
)
def test_wrong_numbers_are_refused(arguments: tuple, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_schedule(*arguments)


def test_the_text_picture() -> None:
    assert schedule_picture(make_schedule("1f1b", 3, 4), 1, 2).splitlines() == [
        "1f1b: 3 ranks, 4 micro-batches, bubble 1/3 = 33.3%, kept at most: 3 2 1",
        "rank 0  F0 F1 F2 .. .. .. .. B0 -- F3 B1 -- .. B2 -- .. B3 --",
        "rank 1  .. F0 F1 .. .. B0 -- F2 B1 -- F3 B2 -- .. B3 -- .. ..",
        "rank 2  .. .. F0 B0 -- F1 B1 -- F2 B2 -- F3 B3 -- .. .. .. ..",
    ]
    assert schedule_picture(make_schedule("interleaved", 2, 2, 2)).splitlines()[1:] == [
        "rank 0  F0a F1a F0b F1b ... B0b ... B1b B0a B1a",
        "rank 1  ... F0a F1a F0b B0b F1b B1b B0a B1a ...",
    ]
    assert str(make_schedule("naive", 2, 2)) == "rank 0: F0@0 B0@0 F1@0 B1@0\nrank 1: F0@1 B0@1 F1@1 B1@1"


def test_the_image(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / "schedule.png"
    save_schedule_picture(make_schedule("interleaved", 4, 8, 2), path, 1, 2)
    assert path.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(path.read_bytes()[16:20], "big") > int.from_bytes(path.read_bytes()[20:24], "big") > 100
