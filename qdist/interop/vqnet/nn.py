"""VQNet's Module, which is this library's, and its Parameter, which is made from a shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import nn
from ...nn import Module
from ...tensor import Tensor, no_grad
from .dtypes import as_dtype

__all__ = ["Module", "Parameter"]


class Parameter(nn.Parameter):
    """A trained tensor of a given shape.

    Args:
        shape: its sizes.
        initializer: fills a tensor in place, like the functions of `qdist.nn.init`; standard normal numbers from the
            default generator, which `utils.set_random_seed` restarts, when not given.
        dtype: a VQNet or NumPy dtype; float32 when not given.
    """

    def __init__(
        self,
        shape: Sequence[int] = (1, 1),
        initializer: Callable[[Tensor], Any] = nn.init.normal_,
        dtype: Any = None,
    ) -> None:
        super().__init__(np.empty(tuple(shape), np.float32 if dtype is None else as_dtype(dtype)))
        initializer(self)

    def init_from_tensor(self, other_tensor: Any) -> None:
        """Takes over the values of another tensor of this shape."""
        with no_grad():
            self.assign(Tensor(other_tensor).to(self.dtype))
