"""A piece of what `run.py` does: some thousands of inputs for each target, in this process."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import harness
from harness import OverBudget, Summary, Target, fuzz, load_target, target_names

from qdist.circuit.qasm import frame
from qdist.state import storage

INPUTS = 1500


@pytest.fixture(autouse=True)
def _limits_of_the_readers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Targets lower some limits of what they fuzz; other tests of this process need them."""
    monkeypatch.setattr(frame, "MAX_WORK", frame.MAX_WORK)
    monkeypatch.setattr(storage, "_SMALLEST_BLOCK", storage._SMALLEST_BLOCK)
    return


@pytest.mark.parametrize("name", target_names())
def test_readers_take_or_refuse_every_input(name: str):
    target = load_target(name)
    try:
        summary = fuzz(target, INPUTS, "ci")
    finally:
        target.close()
    assert not summary.findings
    assert summary.inputs == INPUTS
    # Both happen, or the inputs are no test.
    assert summary.accepted > INPUTS // 100
    assert sum(summary.refused.values()) > INPUTS // 100


class Faulty(Target):
    name = "faulty"
    documented = (KeyError,)

    def make(self, rng: random.Random) -> int:
        return int(rng.random() * 4)

    def read(self, given: int) -> None:
        if given == 1:
            raise KeyError
        if given == 2:
            raise ZeroDivisionError
        while given == 3:
            pass


def test_what_is_not_documented_and_what_does_not_end_are_findings(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(harness, "SECONDS", 0.01)
    summary = fuzz(Faulty(), 40, "0")
    found = {finding["error"] for finding in summary.findings}
    assert found == {"ZeroDivisionError()", repr(OverBudget())}
    assert summary.inputs == 40 == summary.accepted + summary.refused["KeyError"] + summary.num_findings
    total = Summary()
    total.add(summary)
    total.add(summary)
    assert total.num_findings == 2 * summary.num_findings
    assert total.slowest_seconds == summary.slowest_seconds >= 0.01
