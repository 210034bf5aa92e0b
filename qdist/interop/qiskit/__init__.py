"""Circuits of Qiskit as ours and back, and its primitives on qdist: Estimator and Sampler."""


from .reading import from_qiskit

from .writing import to_qiskit

__all__ = ["from_qiskit", "to_qiskit"]
