"""Circuits of Qiskit as ours and back, and its primitives on qdist: Estimator and Sampler."""

from .estimator import Estimator
from .reading import from_qiskit
from .sampler import Sampler
from .writing import to_qiskit

__all__ = ["Estimator", "Sampler", "from_qiskit", "to_qiskit"]
