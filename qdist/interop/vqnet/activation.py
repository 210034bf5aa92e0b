"""VQNet's names of the activations."""

from ...nn import ReLU as ReLu
from ...nn import Sigmoid, Softmax, Tanh

__all__ = ["ReLu", "Sigmoid", "Softmax", "Tanh"]
