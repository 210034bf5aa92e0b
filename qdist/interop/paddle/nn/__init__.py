"""Paddle's layers: this library's, with weights as (in, out) and Paddle's names of methods."""

from . import functional
from .clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from .layers import (
    GELU,
    CrossEntropyLoss,
    Dropout,
    Embedding,
    Layer,
    LayerList,
    LayerNorm,
    Linear,
    ReLU,
    Sequential,
    Tanh,
)

__all__ = [
    "GELU",
    "ClipGradByGlobalNorm",
    "ClipGradByNorm",
    "ClipGradByValue",
    "CrossEntropyLoss",
    "Dropout",
    "Embedding",
    "Layer",
    "LayerList",
    "LayerNorm",
    "Linear",
    "ReLU",
    "Sequential",
    "Tanh",
    "functional",
]
