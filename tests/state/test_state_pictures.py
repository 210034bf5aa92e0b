"""What notebooks show of states and counts: pictures that are read back as XML."""

import json
import pickle
from xml.etree import ElementTree

import pytest

import qdist as qd
from qdist.state.measuring.pictures import MOST_ROWS


def texts(svg: str) -> list[str]:
    return [node.text or "" for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("text")]


def bars(svg: str) -> list[tuple[float, str]]:
    """(length, colour) of the bars, without the background and the squares of the legend."""
    found = [node.attrib for node in ElementTree.fromstring(svg).iter() if node.tag.endswith("rect")]
    return [(float(a["width"]), a["fill"]) for a in found[1:] if a["height"] != "10"]


def test_counts_are_a_dict_that_notebooks_show_as_bars() -> None:
    circuit = qd.Circuit(2).h(0).cx(0, 1)
    middle = qd.Circuit(1, 1).h(0).measure(0, 0).x(0)
    noisy = qd.noise.compile(qd.Circuit(1).x(0).depolarizing(0.2, 0))
    for counts in (
        qd.simulate(circuit).counts(100, seed=1),
        qd.compile(circuit).counts(100, seed=1),
        qd.compile(middle).counts(20, seed=1),
        noisy.counts(50, seed=1),
    ):
        assert json.loads(json.dumps(counts)) == dict(counts) == pickle.loads(pickle.dumps(counts))
        shots, picture = sum(counts.values()), counts._repr_svg_()
        assert texts(picture)[0] == f"{shots} shots"
        assert texts(picture)[1::2] == list(counts)
        assert texts(picture)[2::2] == [f"{n}  {100 * n / shots:.1f}%" for n in counts.values()]
        longest = max(counts.values())
        lengths = [length for length, _ in bars(picture)]
        assert lengths == pytest.approx([240 * n / longest for n in counts.values()], abs=0.06)


def test_counts_of_nothing_and_of_many_outcomes_are_shown_too() -> None:
    assert texts(qd.simulate(qd.Circuit(1)).counts(0)._repr_svg_()) == ["0 shots"]
    many = qd.simulate(qd.library.qft(5)).counts(2000, seed=0)
    picture = many._repr_svg_()
    assert texts(picture)[-1] == f"... and {len(many) - MOST_ROWS} more outcomes"
    shown = texts(picture)[1:-1:2]
    assert shown == sorted(shown)
    assert min(many[bits] for bits in shown) >= max(n for bits, n in many.items() if bits not in shown)


def test_states_are_shown_by_size_and_phase(device: str) -> None:
    """Basis states in the order of their index, |amplitude| as length, the phase as hue."""
    state = qd.StateVector.from_amplitudes([0.6, 0, 0.6j, -0.4, 0, 0, 0, 0.2], device=device)
    picture = state._repr_svg_()
    assert picture is not None
    assert texts(picture)[0] == "3 qubits, complex128"
    assert texts(picture)[1:9:2] == ["000", "010", "011", "111"]
    assert texts(picture)[2:9:2] == [f"{a:+.4f} {b:+.4f}i" for a, b in [(0.6, 0), (0, 0.6), (-0.4, 0), (0.2, 0)]]
    lengths, colours = zip(*bars(picture))
    assert lengths == pytest.approx([240, 240, 160, 80], abs=0.06)
    assert [colour.split("(")[1].split(",")[0] for colour in colours] == ["0", "90", "180", "0"]
    layout = qd.simulate(qd.library.qft(6), device=device)
    assert texts(layout._repr_svg_() or "")[-1] == f"... and {64 - MOST_ROWS} more basis states"


def test_states_that_are_large_or_of_several_ranks_are_not_drawn() -> None:
    """A picture is one rank's alone, and takes a copy."""
    assert qd.StateVector(21, device="cpu")._repr_svg_() is None
    shared = qd.StateVector(4, comm=qd.comm.counting_communicator(2))
    assert shared._repr_svg_() is None
    assert shared.local.size == 8
