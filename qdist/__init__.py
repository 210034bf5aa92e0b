"""qdist: distributed state-vector simulation of quantum circuits, and training on the same ranks."""

__all__ = ["__version__"]
__version__ = "0.1.0"
