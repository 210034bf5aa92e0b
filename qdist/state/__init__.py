"""The machine: what holds and changes amplitudes."""

from qdist.backends.errors import StateError
from qdist.state.outputs import Overlap, Probabilities, State, Variance
from qdist.state.statevector import StateVector

__all__ = ["Overlap", "Probabilities", "State", "StateError", "StateVector", "Variance"]
