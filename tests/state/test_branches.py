"""Shots of circuits that measure before their end: runs with the same outcomes are one run."""

from collections import Counter

import numpy as np
import pytest

import qdist as qd
from qdist.state.measuring.branches import Branches
from qdist.state.measuring.measure import drawn_from

SHOTS = 3000


def code(rounds: int) -> qd.Circuit:
    """A state encoded into three qubits, and rounds of its two syndromes, which are 0 without noise."""
    circuit = qd.Circuit(5, 2 * rounds + 3).ry(0.7, 0).cx(0, 1).cx(0, 2)
    for first in range(0, 2 * rounds, 2):
        circuit.cx(0, 3).cx(1, 3).cx(1, 4).cx(2, 4).measure([3, 4], [first, first + 1]).reset(3).reset(4)
    return circuit.measure([0, 1, 2], [2 * rounds, 2 * rounds + 1, 2 * rounds + 2])


def branching() -> qd.Circuit:
    circuit = qd.Circuit(3, 3).ry(1.1, 0).cx(0, 1).measure(0, 0).reset(0).ry(0.8, 2).measure(2, 1)
    with circuit.if_(0, 1):
        circuit.ry(0.5, 0)
    return circuit.cx(2, 0).measure(0, 2)


@pytest.fixture
def runs(monkeypatch) -> list[int]:
    """A list that gets an entry a run."""
    done: list[int] = []
    whole = qd.Program.run_with

    def counted(self, *args, **kwargs):
        done.append(1)
        return whole(self, *args, **kwargs)

    monkeypatch.setattr(qd.Program, "run_with", counted)
    return done


def test_rounds_whose_syndromes_repeat_are_one_run(runs) -> None:
    found = qd.compile(code(10)).counts(1000, seed=1)
    assert sum(found.values()) == 1000
    assert len(runs) == 1
    ones = found["111" + 20 * "0"]
    assert found == {"000" + 20 * "0": 1000 - ones, "111" + 20 * "0": ones}
    assert abs(ones - 1000 * np.sin(0.35) ** 2) < 5 * np.sqrt(1000) / 2


def test_each_history_of_outcomes_is_a_run(runs) -> None:
    program = qd.compile(branching())
    program.counts(SHOTS, seed=2)
    assert len(runs) == 4  # of the first bit, which the reset repeats, and the second


def test_counts_samples_and_means_are_those_of_the_exact_state() -> None:
    program = qd.compile(branching(), dtype="complex128")
    exact = qd.noise.compile(branching(), method="density_matrix")
    drawn = 200_000
    weights = Counter(exact.counts(drawn, seed=5))
    found = program.counts(SHOTS, seed=4)
    assert set(found) <= set(weights)
    for bits, times in weights.items():
        p = times / drawn
        spread = np.sqrt(p * (1 - p) * (1 / SHOTS + 1 / drawn))
        assert abs(found.get(bits, 0) / SHOTS - p) < 5 * spread
    mean = program.expectation("Z0 Z2", shots=SHOTS, seed=6)
    assert mean == pytest.approx(exact.expectation("Z0 Z2"), abs=5 * mean.standard_error)
    samples = program.sample(SHOTS, seed=7)
    assert len(samples) == SHOTS
    ones = np.mean(samples & 1)
    assert ones == pytest.approx((1 - exact.expectation("Z0")) / 2, abs=5 * 0.5 / SHOTS**0.5)


def test_runs_that_part_are_told_what_they_have_had() -> None:
    branches, seen = Branches(50, np.random.default_rng(0)), {}
    while branches.begin():
        history = tuple(branches.outcome(np.array([0.5, 0.5])) for _ in range(70))  # more than one key's random numbers
        seen.update(dict.fromkeys(branches.members.tolist(), history))
    assert sorted(seen) == list(range(50))
    assert len(set(seen.values())) == 50
    table = np.array([seen[k] for k in range(50)])
    assert np.abs(table.mean(axis=0) - 0.5).max() < 5 * 0.5 / 50**0.5
    assert np.abs(np.corrcoef(table.T) - np.eye(70)).max() < 0.7


def test_shots_without_any_are_no_runs(runs) -> None:
    assert qd.compile(code(1)).counts(0, seed=1) == {}
    assert not runs
    assert drawn_from(np.array([0.0, 1.0]), np.arange(3), 1).tolist() == [1, 1, 1]
