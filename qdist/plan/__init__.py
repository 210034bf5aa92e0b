"""When, and where: which qubit stands at which bit, the order in which gates run, and the blocks they become."""

from qdist.plan.layout import Layout

__all__ = ["Layout"]
