"""Counts of any number of classical bits."""

import itertools

import numpy as np
import pytest

import qdist as qd
from qdist.histogram import histogram
from qdist.state.measuring.shots import tally


def text(width: int, *ones: int) -> str:
    return "".join("1" if k in ones else "0" for k in reversed(range(width)))


@pytest.mark.parametrize("clbit", [0, 31, 62, 63, 64, 65, 69])
def test_bits_of_wide_registers_are_where_they_were_measured(clbit: int) -> None:
    circuit = qd.Circuit(2, 70).x(0).measure(0, clbit)
    assert qd.compile(circuit).counts(5) == {text(70, clbit): 5}
    assert qd.simulate(circuit).counts(5) == {text(70, clbit): 5}
    # On the way: every shot is a run.
    assert qd.compile(circuit.h(0)).counts(5) == {text(70, clbit): 5}


def test_conditions_on_wide_registers() -> None:
    circuit = qd.Circuit(3, 100).x(0).measure(0, 80).measure(0, 3)
    with circuit.if_(range(100), 1 << 80 | 1 << 3):
        circuit.x(1)
    with circuit.if_(range(100), 1 << 80):
        circuit.x(2)
    circuit.measure(1, 99).measure(2, 64)
    assert qd.compile(circuit).counts(3) == {text(100, 3, 80, 99): 3}


def test_shots_of_many_bits_follow_the_state() -> None:
    circuit = qd.Circuit(3, 200).h(0).cx(0, 1).ry(0.8, 2).measure([0, 1, 2], [199, 63, 64])
    counts = qd.compile(circuit).counts(4000, seed=1)
    chance = np.sin(0.4) ** 2
    for both, third in itertools.product((0, 1), (0, 1)):
        key = text(200, *([199, 63] if both else []), *([64] if third else []))
        want = 4000 * 0.5 * (chance if third else 1 - chance)
        assert abs(counts[key] - want) < 5 * np.sqrt(want)
    assert list(counts) == sorted(counts)


def test_outcomes_are_written_out_in_parts_and_only_once_each(monkeypatch) -> None:
    from qdist.state.measuring import shots

    samples = np.random.default_rng(0).integers(0, 1 << 6, 5000)
    sources = {0: 5, 70: 1, 3: 1}
    want = {}
    for sample in samples.tolist():
        ones = [c for c, q in sources.items() if sample >> q & 1]
        want[text(71, *ones)] = want.get(text(71, *ones), 0) + 1
    assert tally(samples, sources, 71) == want
    monkeypatch.setattr(shots, "_CHARACTERS", 100)
    assert tally(samples, sources, 71) == want
    assert tally(samples, {}, 2) == {"00": 5000}
    assert tally(samples[:0], sources, 71) == {}


def test_histograms_show_bit_strings_of_any_width() -> None:
    counts = qd.compile(qd.Circuit(1, 100).h(0).measure(0, 99)).counts(10, seed=2)
    lines = histogram(counts, ascii_only=True).splitlines()
    assert sorted(line.split()[0] for line in lines) == sorted(counts)


def test_counting_no_qubits_gives_the_empty_bit_string() -> None:
    assert qd.StateVector(2).counts(3, qubits=[]) == {"": 3}
