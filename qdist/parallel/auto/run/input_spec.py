"""Inputs of a captured graph: described by shape and dtype, or given as samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from qdist.tensor import Tensor
from qdist.tensor.arrays import to_device

__all__ = ["InputSpec", "as_tensor", "has_open_rows", "samples", "several", "split_batch"]


@dataclass(frozen=True)
class InputSpec:
    """The shape and dtype of an input, and its name in graphs, for `Engine.prepare`.

    A first length of None, or -1, stands for the rows of a batch: the graph is captured when their number is known,
    by `Engine.dataloader` or the first `run`.
    """

    shape: Sequence[int | None]
    dtype: Any = np.float32
    name: str | None = None

    def __post_init__(self) -> None:
        shape = tuple(None if n == -1 else n for n in self.shape)
        if None in shape[1:] or any(n is not None and n < 0 for n in shape):
            raise ValueError(f"InputSpec({list(self.shape)}): only the first length, of the rows, may be left open")
        object.__setattr__(self, "shape", shape)

    def sample(self, rows: int | None, device: str) -> Tensor:
        """Zeros of this shape, with so many rows where they are open."""
        shape = [rows if n is None else n for n in self.shape]
        return Tensor(to_device(np.zeros(shape, self.dtype), device))


def several(spec: Any) -> Sequence[Any]:
    """What was given, as a list."""
    return spec if isinstance(spec, (list, tuple)) else [spec]


def has_open_rows(spec: Any) -> bool:
    """Whether the number of rows is not known yet."""
    return any(isinstance(s, InputSpec) and None in s.shape for s in several(spec))


def samples(spec: Any, rows: int | None = None, device: str = "cpu") -> list[Tensor]:
    """Tensors for InputSpecs and for what else is given."""
    return [s.sample(rows, device) if isinstance(s, InputSpec) else as_tensor(s) for s in several(spec)]


def as_tensor(x: Any) -> Tensor:
    """A Tensor as it is, anything else made one."""
    return x if isinstance(x, Tensor) else Tensor(x)


def split_batch(data: Any, mode: str) -> tuple[list[Tensor], list[Tensor]]:
    """Inputs and labels of a batch; for "predict" the inputs alone.

    Raises TypeError for anything but a pair where labels are needed.
    """
    if mode == "predict":
        return samples(data), []
    if not isinstance(data, (list, tuple)) or len(data) != 2:
        raise TypeError(f"a batch for {mode!r} is a pair (inputs, labels)")
    return samples(data[0]), samples(data[1])
