"""qdist.training under its former name."""

from qdist.training import SAVE_EVERY, descend, parser, plot, train

__all__ = ["SAVE_EVERY", "descend", "parser", "plot", "train"]
