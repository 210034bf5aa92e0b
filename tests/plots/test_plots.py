"""What figures show, read back from them."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import qdist as qd
from qdist.plots import plot_histogram, plot_landscape, plot_state, plot_trace, plot_training
from qdist.plots.states import bloch_vector


@pytest.fixture
def matplotlib() -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib: pip install 'qdist[plot]'")


def test_without_matplotlib_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "qdist.circuit.drawing.notebook_figure", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    for plot in (lambda: plot_histogram({"0": 1}), lambda: plot_state([1, 0]), lambda: plot_training([1.0])):
        with pytest.raises(ImportError, match=r"plots need matplotlib: pip install 'qdist\[plot\]'"):
            plot()
    with pytest.raises(ImportError, match="matplotlib"):
        plot_landscape(lambda a, b: 1 / 0)  # Before anything is computed.


@pytest.mark.usefixtures("matplotlib")
def test_histograms_show_shares_and_sum_what_is_left() -> None:
    figure = plot_histogram([{"00": 60, "11": 30, "01": 10}, {"11": 5}], labels=["a", "b"], top=2)
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["00", "11", "1 others"]
    assert [bar.get_height() for bar in axes.patches] == pytest.approx([0.6, 0.3, 0.1, 0.0, 1.0, 0.0])
    (legend,) = figure.legends  # above the axes, where it covers no bar
    assert [text.get_text() for text in legend.get_texts()] == ["a", "b"]


def test_values_that_make_no_plot_are_refused() -> None:
    with pytest.raises(ValueError, match="came at least once"):
        plot_histogram({})
    with pytest.raises(ValueError, match="2 labels for 1 runs"):
        plot_histogram({"0": 1}, labels=["a", "b"])
    with pytest.raises(ValueError, match="kind='city': use 'amplitudes' or 'bloch'"):
        plot_state([1, 0], "city")
    with pytest.raises(ValueError, match=r"shape \(3,\) is no state"):
        plot_state([1, 0, 0])
    for state, kind in (([0, 0], "amplitudes"), ([0, 0], "bloch"), ([np.nan, 1], "bloch"), ([1, np.inf], "amplitudes")):
        with pytest.raises(ValueError, match="is no state: its amplitudes are not finite, or all 0"):
            plot_state(state, kind)
    for top in (0, -3):
        with pytest.raises(ValueError, match=f"top={top}: at least one"):
            plot_state([1, 0], top=top)
    with pytest.raises(ValueError, match="top=2: the Bloch vectors of all qubits are shown"):
        plot_state([1, 0], "bloch", top=2)
    with pytest.raises(ValueError, match="from 1 s on"):
        plot_trace({"traceEvents": []}, begin=1)
    with pytest.raises(ValueError, match="at least two values"):
        plot_landscape(lambda a, b: 0.0, [1.0])
    with pytest.raises(ValueError, match="at least one value"):
        plot_training([])


@pytest.mark.usefixtures("matplotlib")
def test_long_outcomes_leave_room_for_their_bars(tmp_path) -> None:
    for length in (8, 60, 200):
        figure = plot_histogram({"01" * (length // 2): 3, "1" * length: 1})
        figure.savefig(tmp_path / "counts.png")
        (axes,) = figure.axes
        assert axes.get_position().height * figure.get_figheight() > 1.5, length
    axes = (figure := plot_state(np.ones(1 << 20), top=4)).axes[0]
    figure.savefig(tmp_path / "state.png")
    assert axes.get_position().height * figure.get_figheight() > 1.5


@pytest.mark.usefixtures("matplotlib")
def test_outcomes_by_number_are_shown_as_they_are() -> None:
    (axes,) = plot_histogram({0: 3, 12: 1}).axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "12"]


@pytest.mark.usefixtures("matplotlib")
def test_amplitudes_are_heights_and_phases_are_colours() -> None:
    state = qd.simulate(qd.Circuit(3).h(0).cx(0, 2).s(2))
    axes = plot_state(state, top=3).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["000", "001", "101"]
    assert [bar.get_height() for bar in axes.patches] == pytest.approx([0.5**0.5, 0.0, 0.5**0.5])
    first, _, last = (bar.get_facecolor() for bar in axes.patches)
    assert first != last


def test_bloch_vectors_are_expectation_values() -> None:
    state = qd.simulate(qd.Circuit(3).h(0).t(0).ry(0.7, 1).crx(0.9, 0, 1).cx(1, 2))
    for qubit in range(3):
        expected = [state.expectation(f"{letter}{qubit}") for letter in "XYZ"]
        np.testing.assert_allclose(bloch_vector(state.amplitudes(), qubit), expected, atol=1e-6)


@pytest.mark.usefixtures("matplotlib")
def test_bloch_spheres_have_one_picture_a_qubit() -> None:
    figure = plot_state(qd.simulate(qd.Circuit(7).h(0)), "bloch")
    assert [axes.get_title() for axes in figure.axes] == [f"q{q}" for q in range(7)]
    figure.canvas.draw()


@pytest.mark.usefixtures("matplotlib")
def test_landscapes_call_the_function_at_every_pair() -> None:
    seen = []
    axes = plot_landscape(lambda a, b: seen.append((a, b)) or a - b, [0, 1], [2, 3, 4], path=[(0, 2), (1, 4)]).axes[0]
    assert seen == [(a, b) for b in (2.0, 3.0, 4.0) for a in (0.0, 1.0)]
    assert axes.lines[0].get_xydata().tolist() == [[0, 2], [1, 4]]


@pytest.mark.usefixtures("matplotlib")
def test_training_curves_begin_at_step_1_and_show_the_goal() -> None:
    axes = plot_training({"adam": [3.0, 2.0], "sgd": [3.0, 2.5]}, goal=1.0).axes[0]
    assert axes.lines[0].get_xydata().tolist() == [[1, 3], [2, 2]]
    assert axes.lines[2].get_ydata()[0] == 1.0
    axes = plot_training([3.0, 2.0], goal=1.0, log=True).axes[0]
    assert axes.lines[0].get_ydata().tolist() == [2.0, 1.0]
    assert axes.get_yscale() == "log"


@pytest.mark.usefixtures("matplotlib")
@pytest.mark.parametrize("steps", [1, 2, 3, 5, 40])
def test_steps_are_counted_in_whole_numbers(steps: int) -> None:
    axes = plot_training([1.0 / k for k in range(1, steps + 1)]).axes[0]
    low, high = axes.get_xlim()
    shown = [place for place in axes.get_xticks() if low <= place <= high]
    assert shown
    assert all(place == round(place) for place in shown)


@pytest.mark.usefixtures("matplotlib")
def test_notebooks_show_figures_though_pyplot_is_not_imported() -> None:
    """Jupyter knows how to draw plain Figures only once pyplot is there."""
    for figure in (plot_training([2.0, 1.0]), qd.Circuit(1).h(0).draw("mpl")):
        assert figure._repr_png_().startswith(b"\x89PNG")


@pytest.mark.parametrize("given", [[0.5, 0.5], None, qd.Circuit(1), "00"])
def test_what_are_no_counts_is_named(given):
    with pytest.raises(TypeError, match=rf"state\.counts\(1000\), or a list of them, not {type(given).__name__}"):
        plot_histogram(given)
