"""The machine: what holds and changes amplitudes."""

from .errors import StateError
from .outputs import Overlap, Probabilities, State, Variance
from .statevector import StateVector

__all__ = ["Overlap", "Probabilities", "State", "StateError", "StateVector", "Variance"]
