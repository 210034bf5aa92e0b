"""When, and where: which qubit stands at which bit of an amplitude's index."""

from .layout import Layout

__all__ = ["Layout"]
