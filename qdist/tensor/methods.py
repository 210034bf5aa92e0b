"""The named operations of a Tensor: elementwise functions, reductions, changes of shape.

They only normalise their arguments; each is one entry (or a line or two of entries) of the table of rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .arrays import FLOAT32, as_dtype, device_of

if TYPE_CHECKING:
    from .tensor import Tensor

Axis = int | tuple[int, ...] | list[int] | None


def normal_axis(axis: int, ndim: int) -> int:
    """A non-negative axis; ValueError names what would be accepted."""
    if not -ndim <= axis < ndim:
        raise ValueError(f"axis {axis} is out of range for {ndim} dimension(s): use {-ndim} to {ndim - 1}")
    return axis % ndim


_ALL = tuple([tuple(range(ndim)) for ndim in range(8)])
"""All axes, by their number."""


def normal_axes(axis: Axis, ndim: int) -> tuple[int, ...]:
    """A tuple of different non-negative axes; None means all."""
    if axis is None:
        return _ALL[ndim] if ndim < len(_ALL) else tuple(range(ndim))
    axes = tuple(normal_axis(a, ndim) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if len(set(axes)) < len(axes):
        raise ValueError(f"axis {axis} names a dimension twice")
    return axes


class Methods:
    """Mixed into Tensor, which gives shape, ndim, dtype, data and `_run`: `apply` itself."""

    __slots__ = ()
    if TYPE_CHECKING:
        _run: Callable[..., Any]

        @property
        def shape(self) -> tuple[int, ...]: ...
        @property
        def ndim(self) -> int: ...
        @property
        def dtype(self) -> np.dtype: ...
        @property
        def data(self) -> Any: ...

    # Elementwise

    def exp(self) -> Tensor:
        """e to the power of each element."""
        return self._run("exp", self)

    def expm1(self) -> Tensor:
        """exp(x) - 1, exact for small x."""
        return self._run("expm1", self)

    def log(self) -> Tensor:
        """Natural logarithm of each element."""
        return self._run("log", self)

    def log1p(self) -> Tensor:
        """log(1 + x), exact for small x."""
        return self._run("log1p", self)

    def sqrt(self) -> Tensor:
        """Square root of each element."""
        return self._run("sqrt", self)

    def sin(self) -> Tensor:
        """Sine of each element."""
        return self._run("sin", self)

    def cos(self) -> Tensor:
        """Cosine of each element."""
        return self._run("cos", self)

    def tan(self) -> Tensor:
        """Tangent of each element."""
        return self._run("tan", self)

    def arcsin(self) -> Tensor:
        """Inverse sine of each element."""
        return self._run("arcsin", self)

    def arccos(self) -> Tensor:
        """Inverse cosine of each element."""
        return self._run("arccos", self)

    def arctan(self) -> Tensor:
        """Inverse tangent of each element."""
        return self._run("arctan", self)

    def sinh(self) -> Tensor:
        """Hyperbolic sine of each element."""
        return self._run("sinh", self)

    def cosh(self) -> Tensor:
        """Hyperbolic cosine of each element."""
        return self._run("cosh", self)

    def tanh(self) -> Tensor:
        """Hyperbolic tangent of each element."""
        return self._run("tanh", self)

    def abs(self) -> Tensor:
        """The absolute value; real for complex tensors."""
        return self._run("abs", self)

    def abs2(self) -> Tensor:
        """The squared absolute value, real: the probability of an amplitude."""
        return self._run("abs2", self)

    def conj(self) -> Tensor:
        """Complex conjugate."""
        return self._run("conj", self)

    @property
    def real(self) -> Tensor:
        """Real part."""
        return self._run("real", self)

    @property
    def imag(self) -> Tensor:
        """Imaginary part."""
        return self._run("imag", self)

    def clip(self, low: float | None = None, high: float | None = None) -> Tensor:
        """Keep every element within [low, high]; None leaves that side open."""
        low, high = [bound.item() if isinstance(bound, np.generic) else bound for bound in (low, high)]
        floats = self.dtype.kind in "biu" and float in (type(low), type(high))
        return self._run("clip", self._run("cast", self, dtype=FLOAT32) if floats else self, low=low, high=high)

    def sign(self) -> Tensor:
        """-1, 0 or 1; without a gradient."""
        return self._run("sign", self)

    def floor(self) -> Tensor:
        """The largest whole numbers not above; without a gradient."""
        return self._run("floor", self)

    def ceil(self) -> Tensor:
        """The smallest whole numbers not below; without a gradient."""
        return self._run("ceil", self)

    def round(self) -> Tensor:
        """To the nearest integer, halves to the even one."""
        return self._run("round", self)

    def isfinite(self) -> Tensor:
        """Where elements are neither infinite nor NaN."""
        return self._run("isfinite", self)

    # Reductions

    def sum(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The sum over the given axes, or all; keepdims leaves them with length one."""
        return self._run("sum", self, axis=normal_axes(axis, self.ndim), keepdims=keepdims)

    def mean(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The mean over the given axes, or all."""
        return self._run("mean", self, axis=normal_axes(axis, self.ndim), keepdims=keepdims)

    def var(self, axis: Axis = None, keepdims: bool = False, ddof: int = 0) -> Tensor:
        """The variance; ddof=1 divides by n - 1."""
        count = math.prod(self.shape[a] for a in normal_axes(axis, self.ndim))
        if count <= ddof:
            raise ValueError(f"a variance with ddof={ddof} needs more than {ddof} element(s), got {count}")
        deviation: Any = self - self.mean(axis, keepdims=True)  # type: ignore[operator]
        return deviation.abs2().sum(axis, keepdims) / (count - ddof)

    def prod(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The product over the given axes, or all."""
        return self._run("prod", self, axis=normal_axes(axis, self.ndim), keepdims=keepdims)

    def max(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The largest element over the given axes, or all."""
        return self._run("max", self, axis=normal_axes(axis, self.ndim), keepdims=keepdims)

    def min(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """The smallest element over the given axes, or all."""
        return self._run("min", self, axis=normal_axes(axis, self.ndim), keepdims=keepdims)

    def logsumexp(self, axis: Axis = None, keepdims: bool = False) -> Tensor:
        """log(sum(exp(x))) over the given axes, or all; large numbers do not overflow."""
        return self._run("logsumexp", self, axis=normal_axes(axis, self.ndim), keepdims=keepdims)

    def cumsum(self, axis: int) -> Tensor:
        """Sums of all elements up to each, along an axis."""
        return self._run("cumsum", self, axis=normal_axis(axis, self.ndim))

    def argmax(self, axis: int | None = None) -> Tensor:
        """Positions of the largest elements, int64; of the flattened tensor when axis is None."""
        return self._run("argmax", self, axis=axis)

    def argmin(self, axis: int | None = None) -> Tensor:
        """Positions of the smallest elements, int64; of the flattened tensor when axis is None."""
        return self._run("argmin", self, axis=axis)

    # Shape

    def reshape(self, *shape: Any) -> Tensor:
        """Same elements, new shape; one entry may be -1."""
        return self._run("reshape", self, shape=_shape(shape))

    def flatten(self, start: int = 0) -> Tensor:
        """Join all axes from `start` on."""
        start = normal_axis(start, max(self.ndim, 1))
        return self.reshape(*self.shape[:start], math.prod(self.shape[start:]))

    def transpose(self, *axes: Any) -> Tensor:
        """Reorder the axes; reversed when none are given."""
        order = _shape(axes) if axes else tuple(range(self.ndim))[::-1]
        order = normal_axes(order, self.ndim)
        if len(order) != self.ndim:
            raise ValueError(f"transpose needs all {self.ndim} axes, got {order}")
        if len(axes) == 2 and order == (0, 1):
            raise ValueError(
                f"transpose{axes} names the new order of the axes, which is the old one: swapaxes(0, 1) and .T "
                "exchange two axes; transpose((0, 1)), a tuple, leaves them"
            )
        return self._run("transpose", self, axes=order)

    @property
    def T(self) -> Tensor:
        """All axes reversed."""
        return self.transpose()

    def swapaxes(self, a: int, b: int) -> Tensor:
        """Two axes exchanged."""
        order = list(range(self.ndim))
        a, b = normal_axis(a, self.ndim), normal_axis(b, self.ndim)
        order[a], order[b] = order[b], order[a]
        return self._run("transpose", self, axes=tuple(order))

    def expand(self, *shape: Any) -> Tensor:
        """Repeat axes of length one, without a copy."""
        return self._run("expand", self, shape=_shape(shape))

    def unsqueeze(self, axis: int) -> Tensor:
        """Insert an axis of length one."""
        axis = normal_axis(axis, self.ndim + 1)
        return self.reshape(*self.shape[:axis], 1, *self.shape[axis:])

    def squeeze(self, axis: Axis = None) -> Tensor:
        """Drop axes of length one: the given ones, or all."""
        chosen = normal_axes(axis, self.ndim)
        if axis is not None and any(self.shape[a] != 1 for a in chosen):
            raise ValueError(f"squeeze({axis}): shape {self.shape} is not 1 there")
        return self.reshape(*(n for i, n in enumerate(self.shape) if i not in chosen or n != 1))

    def split(self, sizes: int | tuple[int, ...] | list[int], axis: int = 0) -> tuple[Tensor, ...]:
        """Cut along an axis into pieces of the given sizes; an int is the size of all but the last."""
        axis = normal_axis(axis, self.ndim)
        length = self.shape[axis]
        if isinstance(sizes, int):
            if sizes < 1:
                raise ValueError(f"split({sizes}): pieces need at least one element")
            sizes = [min(sizes, length - start) for start in range(0, length, sizes)]
        if sum(sizes) != length or min(sizes, default=0) < 0:
            raise ValueError(f"sizes {tuple(sizes)} do not add up to {length} along axis {axis}")
        return self._run("split", self, sizes=tuple(sizes), axis=axis)

    def pad(self, widths: Any, value: float = 0.0) -> Tensor:
        """Add `widths[i] = (before, after)` elements of `value` around axis i."""
        widths = tuple((int(before), int(after)) for before, after in widths)
        if len(widths) != self.ndim:
            raise ValueError(f"pad needs a (before, after) pair for each of {self.ndim} axes, got {len(widths)}")
        return self._run("pad", self, widths=widths, value=value)

    def flip(self, axis: Axis = None) -> Tensor:
        """Reversed along the given axes, or all."""
        return self._run("flip", self, axes=normal_axes(axis, self.ndim))

    def roll(self, shift: int, axis: int) -> Tensor:
        """Elements moved by `shift` places along an axis; those that leave come in at the other end."""
        return self._run("roll", self, shift=shift, axis=normal_axis(axis, self.ndim))

    def tril(self, k: int = 0) -> Tensor:
        """Zero above the k-th diagonal of the last two axes."""
        return self._run("tril", self, k=k)

    def triu(self, k: int = 0) -> Tensor:
        """Zero below the k-th diagonal of the last two axes."""
        return self._run("triu", self, k=k)

    def gather(self, indices: Any, axis: int) -> Tensor:
        """Pick along one axis: out[i, j] = self[i, indices[i, j]] for axis 1 of two, in the shape of the indices, which
        are at most self's sizes along the other axes."""
        return self._run("gather", self, indices, axis=normal_axis(axis, self.ndim))

    def scatter_add(self, indices: Any, source: Any, axis: int) -> Tensor:
        """A copy with source[i, j] added at [i, indices[i, j]] for axis 1 of two; repeated places add up. The shapes
        are as for gather(); what source has beyond the indices is not added."""
        needed, given = np.shape(indices), getattr(source, "shape", ())
        if given != needed and len(given) == len(needed):
            pairs = list(zip(given, needed))
            if any(n > m for n, m in pairs) and all(n >= m or n == 1 for n, m in pairs):
                source = source[tuple(slice(m) for m in needed)]
        return self._run("scatter_add", self, indices, source, axis=normal_axis(axis, self.ndim))

    def clone(self) -> Tensor:
        """A copy with memory of its own; gradients go back through it."""
        return self._run("cast", self, dtype=self.dtype)  # type: ignore

    def to(self, target: Any) -> Tensor:
        """To a device ("cpu", "cuda:1") or a dtype; itself when nothing changes. Gradients flow back."""
        if isinstance(target, str) and (target == "cpu" or target.partition(":")[0] == "cuda"):
            return self if device_of(self._data) == target else self._run("move", self, device=target)  # type: ignore
        dtype = as_dtype(target)
        return self if dtype == self.dtype else self._run("cast", self, dtype=dtype)  # type: ignore[return-value]


def _shape(given: tuple[Any, ...]) -> tuple[int, ...]:
    """Accept both f(2, 3) and f((2, 3))."""
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = tuple(given[0])
    # An int stays what it is: static programs have lengths that know where they are from.
    return tuple([n if isinstance(n, int) else int(n) for n in given])
