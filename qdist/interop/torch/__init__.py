"""Circuits in PyTorch: QuantumLayer, a torch.nn.Module, and functions of a Program, as torch.library operators."""

from .functions import expectation, overlap, probabilities, state
from .layer import QuantumLayer

__all__ = ["QuantumLayer", "expectation", "overlap", "probabilities", "state"]
