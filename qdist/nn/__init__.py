"""Modules: layers, containers, losses and initialisers on Tensor."""

from typing import TYPE_CHECKING, Any

from . import init
from .attention import GatedMLP, GroupedQueryAttention, KVCache, LlamaBlock
from .containers import Identity, ModuleDict
from .convolution import Conv1d, ConvTranspose1d, ConvTranspose2d
from .deferred import DeferredParameter, deferred, materialize
from .layers import (
    GELU,
    AvgPool2d,
    BatchNorm2d,
    Conv2d,
    Dropout,
    Embedding,
    Flatten,
    LayerNorm,
    Linear,
    MaxPool2d,
    ReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)
from .losses import BCELoss, BCEWithLogitsLoss, CrossEntropyLoss, MSELoss, NLLLoss
from .module import Module, ModuleList, Parameter, Sequential
from .normalization import BatchNorm1d, RMSNorm
from .positions import positions
from .recurrent import GRU, LSTM
from .transformer import MultiHeadAttention, TransformerBlock

if TYPE_CHECKING:
    from .quantum import QuantumLayer

__all__ = [
    "GELU",
    "GRU",
    "LSTM",
    "AvgPool2d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "Conv1d",
    "Conv2d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "CrossEntropyLoss",
    "DeferredParameter",
    "Dropout",
    "Embedding",
    "Flatten",
    "GatedMLP",
    "GroupedQueryAttention",
    "Identity",
    "KVCache",
    "LayerNorm",
    "Linear",
    "LlamaBlock",
    "MSELoss",
    "MaxPool2d",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiHeadAttention",
    "NLLLoss",
    "Parameter",
    "QuantumLayer",
    "RMSNorm",
    "ReLU",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Tanh",
    "TransformerBlock",
    "deferred",
    "init",
    "materialize",
    "positions",
]


def __getattr__(name: str) -> Any:
    # A model without circuits imports nothing that simulates them, which takes nearly half of the time to import both.
    if name != "QuantumLayer":
        raise AttributeError(f"module 'qdist.nn' has no attribute {name!r}")
    from .quantum import QuantumLayer

    globals()[name] = QuantumLayer
    return QuantumLayer


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
