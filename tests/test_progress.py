"""Progress: who shows it, when, and that short work pays nothing for it."""

import io
import sys
import threading
import time
from collections.abc import Callable

import numpy as np
import pytest

import qdist as qd
from qdist import progress as module
from qdist.noise import compile as compile_noisy
from qdist.progress import Progress, counted, is_shown, showing


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Notebook(io.StringIO):
    pass


Notebook.__module__ = "ipykernel.iostream"


@pytest.fixture
def drawn(monkeypatch) -> list[tuple[str, int | None, int]]:
    """Everything that is shown, as (what, total, done), instead of being drawn; in a terminal."""
    found: list[tuple[str, int | None, int]] = []
    monkeypatch.setattr(module._drawer, "add", lambda progress: None)
    monkeypatch.setattr(module._drawer, "remove", lambda p: found.append((p.what, p.total, p.done)))
    monkeypatch.setattr(module, "_is_watched", lambda: True)  # As a terminal is.
    return found


def test_shown_in_terminals_and_notebooks_on_the_first_rank(monkeypatch) -> None:
    assert not is_shown()
    assert is_shown(wanted=True)
    for stream in (Terminal(), Notebook()):
        monkeypatch.setattr(sys, "stderr", stream)
        assert is_shown()
        assert is_shown(qd.comm.counting_communicator(2))
        assert not is_shown(qd.comm.counting_communicator(2, rank=1))
        assert not is_shown(wanted=False)
        with showing(False):
            assert not is_shown()
            with showing(None):
                assert not is_shown()
        assert is_shown()
    monkeypatch.setattr(sys, "stderr", None)
    assert not is_shown()


class Writer:
    """Has nothing but what print() needs, as many programs put in the place of a stream."""

    def __init__(self) -> None:
        self.written = ""

    def write(self, text: str) -> int:
        self.written += text
        return len(text)


class BrokenPipe(Terminal):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def wait_until(holds: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not holds() and time.monotonic() < end:
        time.sleep(0.001)


def closed(stream: io.StringIO) -> io.StringIO:
    stream.close()
    return stream


@pytest.mark.parametrize(
    "stream", [Writer(), closed(io.StringIO()), None, BrokenPipe()], ids=["writer", "closed", "none", "broken pipe"]
)
def test_work_ends_well_whatever_stderr_is(monkeypatch, capsys, stream) -> None:
    monkeypatch.setattr(module, "_PATIENCE", 0.0)
    monkeypatch.setattr(module, "_INTERVAL", 0.001)
    monkeypatch.setattr(sys, "stderr", stream)
    assert is_shown() == isinstance(stream, BrokenPipe)
    assert sum(qd.compile(RANDOM).counts(20, seed=1).values()) == 20
    with Progress("work", 4) as progress:
        progress.advance()
        wait_until(lambda: progress._longest > 0)  # For the thread that draws, which goes on.
    assert capsys.readouterr().out == ""
    if isinstance(stream, Writer):
        assert "1/4, about" in stream.written
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    with Progress("more", 2):
        wait_until(screen.getvalue)
    assert "more" in screen.getvalue()


def test_the_outermost_is_drawn_and_gathers_what_is_inside(drawn) -> None:
    with Progress("gradient", 5, gathers=True) as outer:
        with Progress("sweeps", 3) as inner:
            inner.advance(3)
        outer.advance(2)
    with Progress("rows", 2):
        assert list(counted("inside", [1, 2, 3])) == [1, 2, 3]
    assert drawn == [("gradient", 5, 5), ("rows", 2, 0)]


def test_lines_are_drawn_by_one_thread_and_end_with_the_work(monkeypatch) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(module, "_PATIENCE", 0.0)
    monkeypatch.setattr(module, "_INTERVAL", 0.001)
    for _ in range(3):
        with Progress("work", 4) as progress:
            progress.advance(3)
            before = len(screen.getvalue())
            while len(screen.getvalue()) == before:
                threading.Event().wait(0.001)
            progress.advance()
    lines = screen.getvalue().splitlines()
    assert "3/4, about" in screen.getvalue()
    assert lines[-1].rstrip().endswith("4/4, about 0 s left")
    assert sum(thread.name == "qdist progress" for thread in threading.enumerate()) == 1


RANDOM = qd.Circuit(2, 1).h(0).measure(0, 0).h(0)
ANSATZ = qd.library.hardware_efficient(3, 1)
THETA = np.linspace(0, 1, ANSATZ.num_parameters)


def long_program() -> qd.Program:
    program = qd.compile(ANSATZ)
    program.is_long = True
    return program


@pytest.mark.parametrize(
    ("work", "expected"),
    [
        (lambda **k: qd.compile(RANDOM).counts(7, **k), ("shots", 7, 7)),
        (lambda **k: qd.compile(RANDOM).sample(5, **k), ("shots", 5, 5)),
        (lambda **k: qd.compile(RANDOM).expectation("Z0", shots=6, **k), ("shots", 6, 6)),
        (lambda **k: qd.compile(ANSATZ).expectations(["Z0"], [THETA] * 3, shots=9, **k), ("rows", 3, 3)),
        (
            lambda **k: qd.compile(ANSATZ).value_and_grad("Z0", THETA, method="finite-difference", **k),
            ("parameters", 6, 6),
        ),
        (lambda **k: qd.compile(ANSATZ).value_and_grad("Z0", THETA, method="parameter-shift", **k), ("gates", 8, 8)),
        (lambda **k: long_program().run(THETA, **k), ("sweeps", 1, 1)),
        (lambda **k: qd.compile(ANSATZ).run_batch(THETA, initial=[qd.StateVector(3)] * 2, **k), ("rows", 2, 2)),
        (lambda **k: qd.simulate(ANSATZ, THETA, schedule="paper", **k), ("planning 8 operations", None, 0)),
        (lambda **k: compile_noisy(qd.Circuit(1).depolarizing(0.1, 0)).counts(9, **k), ("9 shots", None, 0)),
        (
            lambda **k: compile_noisy(qd.Circuit(1).depolarizing(0.1, 0)).expectation("Z0", shots=9, **k),
            ("trajectories", None, 1),
        ),
    ],
    ids=[
        "counts",
        "sample",
        "mean",
        "estimates",
        "differences",
        "shifts",
        "run",
        "batch",
        "plan",
        "noise",
        "noisy mean",
    ],
)
def test_what_users_start_shows_progress_and_can_be_silenced(drawn, work, expected) -> None:
    work()
    assert expected in drawn
    if expected[0].startswith("planning"):
        drawn.clear()
        work(progress=False)
        assert drawn == []
        return
    drawn[:] = []
    work(progress=False)
    assert [entry for entry in drawn if not entry[0].startswith("planning")] == []


def test_gradients_count_sweeps_of_ket_and_bra(drawn) -> None:
    circuit = qd.library.hardware_efficient(13, 3)
    program = qd.compile(circuit)
    theta = np.linspace(0, 1, circuit.num_parameters)
    plain = program.value_and_grad("Z0 Z1", theta)
    assert not any(what == "gradient" for what, _, _ in drawn)
    program.is_long = True
    if program._short is not None:
        program._short[0].is_long = True
    shown = program.value_and_grad("Z0 Z1", theta)
    (found,) = [entry for entry in drawn if entry[0] == "gradient"]
    assert found[1] == found[2] > 0
    np.testing.assert_array_equal(shown[1], plain[1])
    drawn.clear()
    program.value_and_grad("Z0 Z1", theta, progress=False)
    program.vjp(["Z0"], theta, [1.0], progress=False)
    assert drawn == []


def test_saving_and_reading_show_progress(drawn, tmp_path) -> None:
    state = qd.StateVector(4)
    state.save(tmp_path / "state")
    qd.StateVector.load(tmp_path / "state")
    qd.checkpoint.save(tmp_path / "point", {"x": np.zeros(3)})
    qd.checkpoint.load(tmp_path / "point")
    assert drawn == [
        ("saving state", 1, 1),
        ("reading state", 1, 1),
        ("saving point", None, 0),
        ("reading point", None, 0),
    ]
    drawn.clear()
    state.save(tmp_path / "state", progress=False)
    qd.StateVector.load(tmp_path / "state", progress=False)
    qd.checkpoint.save(tmp_path / "point", {"x": np.zeros(3)}, progress=False)
    qd.checkpoint.load(tmp_path / "point", progress=False)
    assert drawn == []


def test_training_can_be_silenced_in_a_terminal(drawn) -> None:
    from qdist.training import steps

    for _ in steps(3, progress=None):
        pass
    assert ("training", 3, 3) in drawn
    drawn.clear()
    for _ in steps(3, progress=False):
        pass
    assert drawn == []


def test_short_runs_make_no_progress_at_all(drawn, monkeypatch) -> None:
    """What a small run adds is one look at a flag: nothing is made, no terminal is asked."""
    program = qd.compile(ANSATZ)
    out = program.run(THETA)
    drawn.clear()

    def refuse(*args: object, **kwargs: object) -> None:
        raise AssertionError("a short run must not look for a terminal")

    monkeypatch.setattr(module, "_is_watched", refuse)
    monkeypatch.setattr(Progress, "__init__", refuse)
    program.run(THETA, out=out)
    program.value_and_grad("Z0", THETA)
    program.expectation("Z0", THETA)
    assert not program.is_long
