"""The machine: what holds and changes amplitudes."""

from .errors import StateError
from .statevector import StateVector

__all__ = ["StateError", "StateVector"]
