"""The few names of torch itself that programs for torch.distributed use, over qdist's tensors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .... import checkpoint
from ....interop import torch_distributed as distributed
from ....tensor import Tensor, no_grad, ones, rand, randn, random, zeros
from ....tensor.functional import sigmoid
from . import cuda, multiprocessing, nn, optim, utils

__all__ = [
    "Tensor",
    "chunk",
    "cuda",
    "distributed",
    "load",
    "manual_seed",
    "multiprocessing",
    "nn",
    "no_grad",
    "ones",
    "optim",
    "rand",
    "randint",
    "randn",
    "save",
    "sigmoid",
    "tensor",
    "utils",
    "zeros",
]


def tensor(data: Any, dtype: Any = None, device: str | None = None, requires_grad: bool = False) -> Tensor:
    """A Tensor with a copy of the data."""
    made = Tensor(data, dtype=dtype, device=device).detach().clone()
    return made.requires_grad_() if requires_grad else made


def randint(low: int, high: int, size: tuple[int, ...]) -> Tensor:
    """int64 numbers in [low, high)."""
    return Tensor(random.default_generator().integers(low, high, tuple(size)))


def manual_seed(seed: int) -> None:
    """Restarts the generator of all random numbers, the same on every rank."""
    random.manual_seed(seed)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most so many pieces along an axis, all but the last of one length."""
    if chunks < 1:
        raise ValueError(f"chunks={chunks}: at least one")
    return input.split(max(1, -(-input.shape[dim] // chunks)), dim)


def save(obj: Any, f: str | Path) -> None:
    """Writes nested dicts, lists and tuples of Tensors, numbers and text to a file of qdist's own: no pickle."""
    checkpoint.save(f, obj)


def load(f: str | Path) -> Any:
    """Reads what save() wrote."""
    return checkpoint.load(f)
