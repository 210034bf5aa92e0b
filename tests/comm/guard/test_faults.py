"""Nothing hangs: each way of going wrong ends all ranks, soon, with a message that says what happened."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from qdist.comm.guard.pipes import unread
from qdist.comm.transports.libmpi import find_mpirun

FAULTY = Path(__file__).parent / "faulty.py"


def fail(run_ranks, what: str, ranks: int = 4, within: float = 10, **environ: str) -> str:
    """The output of a run that must end with an error within so many seconds of its own making."""
    start = time.monotonic()
    done = run_ranks(ranks, [FAULTY, what], timeout=60, **environ)
    # The time-out of faulty.py, starting up, and what the fault itself may take.
    assert time.monotonic() - start < within + 10
    assert done.returncode != 0
    assert "went through" not in done.stdout
    return done.stdout + done.stderr


def test_a_rank_that_raises_ends_all_with_its_traceback(run_ranks) -> None:
    text = fail(run_ranks, "raise")
    assert "rank 3 of 4 failed and ends all ranks" in text
    assert "ValueError: this rank cannot go on" in text
    assert "faulty.py" in text


def test_a_rank_whose_words_cannot_be_written_ends_all_the_same(run_ranks) -> None:
    """Its stdout is on a disk that is full, its stderr is closed."""
    text = fail(run_ranks, "raise-unheard", ranks=2)
    assert "waits in" not in text, text  # The others hear from the launcher, before they would miss it themselves.
    fail(run_ranks, "sleep-unheard", ranks=2)


def test_a_killed_rank_ends_all(run_ranks) -> None:
    assert re.search(r"Killed \(signal 9\)|signal 9 \(Killed\)", fail(run_ranks, "kill"))


def test_a_rank_that_sleeps_past_the_time_out_is_named(run_ranks) -> None:
    text = fail(run_ranks, "sleep")
    assert "all_reduce(float32[4], sum), call 2 on group 'world' (world ranks 0-3)" in text
    assert "Not there: rank 3." in text
    assert "There: ranks 0-2." in text
    assert re.search(r"Called at .*faulty\.py:\d+ in main", text)


def test_the_group_of_a_missing_rank_is_named(run_ranks) -> None:
    text = fail(run_ranks, "sleep-in-group", ranks=3)
    assert "barrier(), call 1 on group 'team'" in text
    assert "Not there: rank 2." in text


def test_waiting_for_work_times_out_too(run_ranks) -> None:
    text = fail(run_ranks, "async", ranks=2)
    assert "all_reduce(float32[4], sum)" in text
    assert "Not there: rank 1." in text


def test_a_message_that_never_comes_names_its_sender(run_ranks) -> None:
    text = fail(run_ranks, "recv", ranks=3)
    assert "recv(float32[4], source=2)" in text
    assert "Not there: rank 2." in text


@pytest.mark.parametrize(("what", "rank"), [("exit", 2), ("exit-first", 0)])
def test_a_rank_that_ended_its_program_is_not_waited_for(run_ranks, what: str, rank: int) -> None:
    assert f"rank {rank} has already ended its program" in fail(run_ranks, what, ranks=3)


@pytest.mark.parametrize(
    ("what", "different", "usual"),
    [
        ("shape", "rank 3 called all_reduce(float32[5], sum)", "ranks 0-2 called all_reduce(float32[4], sum)"),
        ("dtype", "rank 3 called all_reduce(float64[4], sum)", "ranks 0-2 called all_reduce(float32[4], sum)"),
        ("root", "rank 3 called broadcast(float32[4], root=1)", "ranks 0-2 called broadcast(float32[4], root=0)"),
        ("op", "rank 3 called barrier()", "ranks 0-2 called all_reduce(float32[4], sum)"),
    ],
)
def test_debug_names_the_rank_that_calls_something_else(run_ranks, what: str, different: str, usual: str) -> None:
    text = fail(run_ranks, what, QDIST_DEBUG="comm")
    assert "CollectiveMismatch" in text
    assert f"{different}, where {usual}" in text


SUM = "all_reduce(float32[4], sum)"


@pytest.mark.parametrize(
    ("what", "different", "usual"),
    [
        ("shape", "all_reduce(float32[5], sum)", SUM),
        ("dtype", "all_reduce(float64[4], sum)", SUM),
        ("reduction", "all_reduce(float32[4], max)", SUM),
        ("root", "broadcast(float32[4], root=1)", "broadcast(float32[4], root=0)"),
        ("op", "barrier()", SUM),
        ("direct", "all_reduce(int64[4], sum)", "all_reduce(float64[4], sum)"),
        ("direct-shape", "all_to_all(float64[4, 3])", "all_to_all(float64[4, 2])"),
        ("split", "split() into groups of digest ", "split() into groups of digest "),
    ],
)
def test_a_rank_that_calls_something_else_is_named_without_debug(
    run_ranks, what: str, different: str, usual: str
) -> None:
    text = fail(run_ranks, what)
    assert "CollectiveMismatch: " in text
    assert "the ranks of 'world' do not call the same (call 2): " in text
    named = rf"rank 3 called {re.escape(different)}[0-9a-f]*, where ranks? [-0-2, ]+ called {re.escape(usual)}"
    assert re.search(named, text), text


def test_ranks_that_wait_for_one_that_caught_its_mismatch_are_told(run_ranks) -> None:
    text = fail(run_ranks, "caught", ranks=3)
    assert f"waits in {SUM} on group 'world' in vain: rank 2 raised CollectiveMismatch" in text
    assert f"rank 2 called barrier(), where ranks 0-1 called {SUM}" in text
    assert "again: 'world' cannot be used any more: the ranks of 'world' do not call the same" in text


# Ranks that no launcher watches over ---------------------------------------------------------------------------------


without_launcher = pytest.mark.skipif(
    find_mpirun().family != "mpich", reason="only MPICH can start without its own mpirun"
)


def unattended(what: str, port: int, ranks: int = 3) -> list[tuple[int, str]]:
    """Exit code and output of each of ``ranks`` processes that find each other through MASTER_ADDR."""
    base = os.environ | {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = [
        subprocess.Popen(
            [sys.executable, str(FAULTY), what],
            env=base | {"RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        return [(p.returncode, text) for p in processes for text in [p.communicate(timeout=40)[0]]]
    finally:
        for p in processes:
            p.kill()


@without_launcher
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("raise", "rank 2 failed: ValueError: this rank cannot go on"),
        ("kill", "rank 2 died: it was killed or crashed"),
        ("sleep", "Not there: rank 2."),
        ("exit-first", "rank 0 has already ended its program"),
    ],
)
def test_ranks_without_a_launcher_end_together_too(free_port: int, what: str, message: str) -> None:
    outcome = unattended(what, free_port)
    assert all(code != 0 for code, _ in outcome)
    assert message in outcome[1][1]


@without_launcher
def test_ranks_without_a_launcher_succeed(free_port: int) -> None:
    outcome = unattended("nothing", free_port)
    assert [code for code, _ in outcome] == [0, 0, 0], outcome
    assert all("went through" in text for _, text in outcome)


def test_what_was_printed_is_read_before_ranks_are_ended(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"why it ended")
    assert unread(writer) == 12
    os.read(reader, 12)
    assert unread(writer) == 0
    os.close(reader)
    os.close(writer)
    with (tmp_path / "log").open("w") as file:
        file.write("nobody has to read a file")
        assert unread(file.fileno()) == 0
