"""Circuits of Qiskit as ours and back."""

from .reading import from_qiskit
from .writing import to_qiskit

__all__ = ["from_qiskit", "to_qiskit"]
