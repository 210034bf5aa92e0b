"""Changes in place, and conversions, by the names that programs for torch call them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import kind_of
from .autograd import mode

if TYPE_CHECKING:
    from .tensor import Tensor


class InPlace:
    """Mixed into Tensor. What changes it in place is outside the graph and refused where that would falsify a gradient;
    each returns the tensor itself."""

    __slots__ = ()
    listed = False
    """Whether modules list it among their parameters."""
    if TYPE_CHECKING:
        _data: Any
        requires_grad: bool

        @property
        def is_leaf(self) -> bool: ...
        @property
        def size(self) -> int: ...

        def to(self, target: Any) -> Tensor: ...
        def __getitem__(self, key: Any) -> Tensor: ...
        def __setitem__(self, key: Any, value: Any) -> None: ...

    def _change(self, value: Any) -> Any:
        self[...] = value
        return self

    def _become(self, result: Any) -> Any:
        """Takes the result of arithmetic. Raises TypeError where a part of it would be cut off in silence: fractions in
        a tensor of integers, imaginary parts in a real one."""
        dtype = self._data.dtype
        if _KINDS[kind_of(result.dtype)] > _KINDS[kind_of(dtype)]:
            raise TypeError(
                f"the result is {result.dtype}, and a tensor of {dtype} changed in place stays {dtype}: convert it "
                "with .to(dtype) before, or make a new tensor"
            )
        return self._change(result)

    def add_(self, other: Any) -> Tensor:
        """Adds in place; returns the tensor."""
        return self._become(_array(self) + _array(other))

    def sub_(self, other: Any) -> Tensor:
        """Subtracts in place; returns the tensor."""
        return self._become(_array(self) - _array(other))

    def mul_(self, other: Any) -> Tensor:
        """Multiplies in place; returns the tensor."""
        return self._become(_array(self) * _array(other))

    def div_(self, other: Any) -> Tensor:
        """Divides in place; returns the tensor."""
        return self._become(_array(self) / _array(other))

    # `x += y` makes a new tensor. An update such as `p -= lr * p.grad` would leave the parameter as it was.

    def __iadd__(self, other: Any) -> Tensor:
        return self._refuse_update("+=", "add_")

    def __isub__(self, other: Any) -> Tensor:
        return self._refuse_update("-=", "sub_")

    def __imul__(self, other: Any) -> Tensor:
        return self._refuse_update("*=", "mul_")

    def __itruediv__(self, other: Any) -> Tensor:
        return self._refuse_update("/=", "div_")

    def _refuse_update(self, sign: str, name: str) -> Any:
        if not mode.grad and self.is_leaf and (self.requires_grad or self.listed):
            raise TypeError(
                f"p {sign} y makes a new tensor, and inside no_grad() a parameter would stay what it was: p.{name}(y) "
                f"changes it, and p = p {sign[0]} y is a tensor of its own"
            )
        return NotImplemented

    def copy_(self, other: Any) -> Tensor:
        """The other's values, converted."""
        return self._change(_array(other))

    def fill_(self, value: Any) -> Tensor:
        """The same value everywhere."""
        return self._change(value)

    def zero_(self) -> Tensor:
        """0 everywhere."""
        return self._change(0)

    def numel(self) -> int:
        """How many elements it has."""
        return self.size

    def float(self) -> Tensor:
        """As float32; itself when it is."""
        return self.to(np.float32)

    def double(self) -> Tensor:
        """As float64; itself when it is."""
        return self.to(np.float64)

    def long(self) -> Tensor:
        """As int64; itself when it is."""
        return self.to(np.int64)

    def cpu(self) -> Tensor:
        """In the host's memory; itself when it is there."""
        return self.to("cpu")

    def cuda(self, index: int = 0) -> Tensor:
        """On a GPU. Raises RuntimeError where there is none of this number."""
        return self.to(f"cuda:{index}")


_KINDS = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
"""Kinds of numbers, each of which holds those before it."""


def _array(value: Any) -> Any:
    return getattr(value, "_data", value)
