"""qdist: distributed state-vector simulation of quantum circuits, and training on the same ranks."""

__version__ = "0.1.0"

from qdist import comm
from qdist.comm.launch import spawn

__all__ = ["__version__", "comm", "spawn"]
