"""Functions of two parameters as a map, and what training did, step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .figures import new_figure

__all__ = ["plot_landscape", "plot_training"]


def plot_landscape(
    function: Callable[[float, float], float],
    x: Sequence[float] | None = None,
    y: Sequence[float] | None = None,
    *,
    names: tuple[str, str] = ("first parameter", "second parameter"),
    path: Sequence[tuple[float, float]] = (),
) -> Any:
    """Colours and contours of function(x, y); a matplotlib Figure.

    function: its value, a real number, at one pair of parameters: `lambda a, b: program.expectation(H, [a, b])`. It is
        called for each pair; on ranks that share a state all of them call.
    x, y: the values of each parameter, at least two; 25 from -pi to pi if they are left out.
    path: points that are joined by a line, an optimiser's way.

    Raises ValueError for fewer values, ImportError without matplotlib.
    """
    grid = [np.linspace(-np.pi, np.pi, 25) if values is None else np.asarray(values, float) for values in (x, y)]
    if any(values.ndim != 1 or values.size < 2 for values in grid):
        raise ValueError(
            f"a landscape takes at least two values of each parameter; got {grid[0].shape}, {grid[1].shape}"
        )
    figure = new_figure(5.0, 4.0)
    heights = np.array([[float(function(float(a), float(b))) for a in grid[0]] for b in grid[1]])
    axes = figure.add_subplot()
    figure.colorbar(axes.contourf(*grid, heights, levels=24, cmap="viridis"), ax=axes)
    if len(path):
        axes.plot(*np.asarray(path, float).T, color="white", marker=".", lw=1)
    axes.set(xlabel=names[0], ylabel=names[1])
    return figure


def plot_training(
    losses: Sequence[float] | Mapping[str, Sequence[float]],
    *,
    goal: float | None = None,
    ylabel: str = "loss",
    log: bool = False,
) -> Any:
    """Values after each step, of one training or of several by name; a matplotlib Figure.

    goal: a value to be reached, a dashed line; log: draw the distance from it (from 0 without) on a logarithmic scale.

    Raises ValueError for no values, ImportError without matplotlib.
    """
    curves = dict(losses) if isinstance(losses, Mapping) else {"": losses}
    if not curves or any(len(values) == 0 for values in curves.values()):
        raise ValueError("plot_training needs at least one value of each training")
    figure = new_figure(5.0, 3.2)
    axes = figure.add_subplot()
    for name, values in curves.items():
        shown = np.abs(np.asarray(values, float) - (goal or 0.0)) if log else values
        axes.plot(range(1, len(values) + 1), shown, label=name or None)
    if log:
        axes.set_yscale("log")
    elif goal is not None:
        axes.axhline(goal, color="0.5", ls="--")
    axes.locator_params("x", integer=True, min_n_ticks=1)
    axes.set(xlabel="step", ylabel=f"distance of {ylabel} from {goal or 0.0:g}" if log else ylabel)
    if any(curves):
        axes.legend()
    return figure
