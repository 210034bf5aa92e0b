"""Recomputation: keep fewer activations and compute them again in the backward pass.

`tensor.checkpoint` does it for a function; here it is switched on for parts of a model. Recomputing only the attention
between projections drops what grows with the square of the sequence and costs little (Korthikanti et al., arXiv
2205.05198, "selective"). Random numbers are drawn again from the state at the first run, so dropout masks are equal.
"""

from __future__ import annotations

from functools import partial
from typing import TypeVar

from qdist.nn import Module, MultiHeadAttention
from qdist.tensor import checkpoint

__all__ = ["checkpoint", "recompute", "recompute_attention"]

M = TypeVar("M", bound=Module)


def recompute(module: M) -> M:
    """Have a module keep only its inputs for the backward pass; returns the module, changed in place.

    Its names and numbers stay as they are. Communication inside it happens again as well.
    """
    module.forward = partial(checkpoint, module.forward)  # type: ignore[method-assign]
    return module


def recompute_attention(model: M) -> M:
    """Have every attention below keep only queries, keys and values; returns the model, changed in place.

    Raises ValueError when there is none.
    """
    found = [module for module in model.modules() if isinstance(module, MultiHeadAttention)]
    if not found:
        raise ValueError(f"{type(model).__name__} has no MultiHeadAttention to recompute")
    for module in found:
        module.attend = partial(checkpoint, module.attend)  # type: ignore[method-assign]
    return model
