"""Circuits of Qiskit as ours and back, and its primitives and backends on qdist: Estimator, Sampler, Backend."""

from .backend import Backend
from .conversion import from_qiskit, to_qiskit
from .estimator import Estimator
from .sampler import Sampler

__all__ = ["Backend", "Estimator", "Sampler", "from_qiskit", "to_qiskit"]
