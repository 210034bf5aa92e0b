"""The signs of a Tensor: arithmetic, comparisons and logic between tensors, arrays and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from .tensor import Tensor


class Operators:
    """Mixed into Tensor, which gives `_run`: `apply` itself, for a sign must not cost a second call."""

    __slots__ = ()
    if TYPE_CHECKING:
        _run: Callable[..., Any]

        @property
        def dtype(self) -> np.dtype: ...

    def __add__(self, other: Any) -> Tensor:
        return self._run("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return self._run("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return self._run("sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return self._run("sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return self._run("square", self) if other is self else self._run("mul", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return self._run("mul", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return self._run("div", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return self._run("div", other, self)

    def __pow__(self, other: Any) -> Tensor:
        if other.__class__ is int and other == 2 and self.dtype.kind in "fc":
            return self._run("square", self)
        return self._run("pow", self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return self._run("pow", other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return self._run("matmul", self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return self._run("matmul", other, self)

    def __neg__(self) -> Tensor:
        return self._run("neg", self)

    def __abs__(self) -> Tensor:
        return self._run("abs", self)

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        return self._run("equal", self, other)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        return self._run("not_equal", self, other)

    def __lt__(self, other: Any) -> Tensor:
        return self._run("less", self, other)

    def __le__(self, other: Any) -> Tensor:
        return self._run("less_equal", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return self._run("greater", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return self._run("greater_equal", self, other)

    def __and__(self, other: Any) -> Tensor:
        return self._run("and", self, other)

    def __or__(self, other: Any) -> Tensor:
        return self._run("or", self, other)

    def __invert__(self) -> Tensor:
        return self._run("not", self)
