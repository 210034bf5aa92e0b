"""Figures of results, by matplotlib: counts, states, landscapes of two parameters, training curves, timelines.

Every function returns a matplotlib Figure: notebooks show it, `figure.savefig("name.png")` saves it. No window opens.
"""

from .curves import plot_landscape, plot_training
from .histograms import plot_histogram
from .states import plot_state
from .timelines import plot_trace

__all__ = ["plot_histogram", "plot_landscape", "plot_state", "plot_trace", "plot_training"]
