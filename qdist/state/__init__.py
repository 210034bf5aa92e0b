"""StateVector: amplitudes distributed over ranks; how they are exchanged, measured, checked and stored."""

from qdist.backends.errors import StateError
from qdist.state.outputs import Expectation, Overlap, Probabilities, State, Variance
from qdist.state.statevector import StateVector

__all__ = ["Expectation", "Overlap", "Probabilities", "State", "StateError", "StateVector", "Variance"]
