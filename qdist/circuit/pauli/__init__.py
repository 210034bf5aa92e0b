"""Observables: Pauli strings, their sums, and Hermitian matrices on a few qubits."""

from .hermitian import Hermitian
from .operators import PauliString, PauliSum

__all__ = ["Hermitian", "PauliString", "PauliSum"]
