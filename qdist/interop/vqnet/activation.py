"""VQNet's names of the activations."""

from ... import nn
from .module import Module

__all__ = ["ReLu", "Sigmoid", "Softmax", "Tanh"]


class ReLu(Module, nn.ReLU):
    """max(x, 0)."""


class Sigmoid(Module, nn.Sigmoid):
    """1 / (1 + exp(-x))."""


class Softmax(Module, nn.Softmax):
    """softmax over one axis."""


class Tanh(Module, nn.Tanh):
    """tanh(x)."""
