"""Circuits in JAX: QuantumLayer and functions of a Program, for jit, vmap, grad and shard_map."""

from .functions import expectation, overlap, probabilities, state
from .layer import QuantumLayer

__all__ = ["QuantumLayer", "expectation", "overlap", "probabilities", "state"]
