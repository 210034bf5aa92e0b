"""Circuits of Qiskit as ours and back, and its primitives and backends on qdist: Estimator, Sampler, Backend."""

from .backend import Backend
from .estimator import Estimator
from .reading import from_qiskit
from .sampler import Sampler
from .writing import to_qiskit

__all__ = ["Backend", "Estimator", "Sampler", "from_qiskit", "to_qiskit"]
