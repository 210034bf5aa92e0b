"""States as bars of their amplitudes, coloured by phase, or as Bloch vectors of their qubits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .figures import new_figure, room_below

__all__ = ["plot_state"]


_TOP = 64
"""Amplitudes that are shown."""


def plot_state(state: Any, kind: str = "amplitudes", *, top: int | None = None) -> Any:
    """A state's picture as a matplotlib Figure. On ranks, all of them call.

    state: a StateVector, or amplitudes: an array of 2^n of them.
    kind: "amplitudes": |amplitude| of the `top` likeliest basis states (64) by their index, the colour is the phase;
        "bloch": a sphere for each qubit with its reduced state's Bloch vector, which is shorter than 1 where the qubit
        is entangled.

    Raises ValueError for another kind, a `top` below 1 or for spheres, and an array of no state, ImportError without
    matplotlib.
    """
    if kind not in ("amplitudes", "bloch"):
        raise ValueError(f"kind={kind!r}: use 'amplitudes' or 'bloch'")
    if kind == "bloch" and top is not None:
        raise ValueError(f"top={top}: the Bloch vectors of all qubits are shown; leave it out")
    if top is not None and top < 1:
        raise ValueError(f"top={top}: at least one amplitude")
    ket = np.asarray(state.amplitudes() if hasattr(state, "amplitudes") else state)
    if ket.ndim != 1 or ket.size < 2 or ket.size & ket.size - 1:
        raise ValueError(f"an array of shape {ket.shape} is no state: it takes 2^n amplitudes")
    if not np.isfinite(ket).all() or not ket.any():
        raise ValueError(f"an array of shape {ket.shape} is no state: its amplitudes are not finite, or all 0")
    return _amplitudes(ket, _TOP if top is None else top) if kind == "amplitudes" else _bloch(ket)


def bloch_vector(ket: NDArray[Any], qubit: int) -> NDArray[np.float64]:
    """(<X>, <Y>, <Z>) of one qubit."""
    pairs = ket.reshape(-1, 2, 1 << qubit)
    zero, one = pairs[:, 0].ravel(), pairs[:, 1].ravel()
    coherence = 2 * np.vdot(zero, one)
    return np.array([coherence.real, coherence.imag, np.vdot(zero, zero).real - np.vdot(one, one).real])


def _amplitudes(ket: NDArray[Any], top: int) -> Any:
    chosen = np.sort(np.argsort(-np.abs(ket), kind="stable")[:top])
    bits = ket.size.bit_length() - 1
    names = [f"{index:0{bits}b}" for index in chosen]
    figure = new_figure(max(4.0, 0.3 * len(chosen) + 1.5), 3.2 + room_below(names))
    axes = figure.add_subplot()
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    colours = ScalarMappable(Normalize(-np.pi, np.pi), colormaps["twilight"])
    axes.bar(range(len(chosen)), np.abs(ket[chosen]), 0.8, color=colours.to_rgba(np.angle(ket[chosen])))
    axes.set_xticks(range(len(names)), names, rotation=90, family="monospace")
    axes.set_ylabel("|amplitude|")
    scale = figure.colorbar(colours, ax=axes, label="phase")
    scale.set_ticks([-np.pi, 0, np.pi], labels=["-π", "0", "π"])
    return figure


def _bloch(ket: NDArray[Any]) -> Any:
    bits = ket.size.bit_length() - 1
    columns = min(bits, 6)
    figure = new_figure(2.2 * columns, 2.4 * -(-bits // columns))
    around = np.linspace(0, 2 * np.pi, 61)
    circle, flat = np.stack([np.cos(around), np.sin(around)]), np.zeros_like(around)
    for qubit in range(bits):
        axes = figure.add_subplot(-(-bits // columns), columns, qubit + 1, projection="3d")
        for x, y, z in ((*circle, flat), (circle[0], flat, circle[1]), (flat, *circle)):
            axes.plot(x, y, z, color="0.8", lw=0.8)
        axes.quiver(0, 0, 0, *bloch_vector(ket, qubit), color="C3", arrow_length_ratio=0.15)
        axes.text(0, 0, 1.25, "|0⟩", ha="center")
        axes.text(0, 0, -1.5, "|1⟩", ha="center")
        axes.set_title(f"q{qubit}")
        axes.set_box_aspect((1, 1, 1))
        axes.set_axis_off()
    return figure
