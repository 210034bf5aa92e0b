"""Reductions: their names, which dtypes they make sense for, and what they compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

__all__ = ["NAMES", "NATIVE", "ReduceOp"]

# NumPy's ufunc for each reduction; the transports that cannot reduce natively fall back on these.
_UFUNC = {
    "sum": "add",
    "product": "multiply",
    "min": "minimum",
    "max": "maximum",
    "avg": "add",
    "premul_sum": "add",
    "band": "bitwise_and",
    "bor": "bitwise_or",
    "bxor": "bitwise_xor",
}

NAMES = tuple(_UFUNC)

# Reductions that transports know; avg and premul_sum are made of sum.
NATIVE = frozenset(_UFUNC) - {"avg", "premul_sum"}

# dtype kinds (NumPy's letters) that each reduction is defined for.
_KINDS = {
    "sum": "iufc",
    "product": "biufc",
    "min": "biuf",
    "max": "biuf",
    "avg": "fc",
    "premul_sum": "fc",
    "band": "biu",
    "bor": "biu",
    "bxor": "biu",
}
_KIND_NAMES = {"b": "bool", "i": "signed integers", "u": "unsigned integers", "f": "floats", "c": "complex"}
_WAY_OUT = {
    ("sum", "b"): "convert to an integer dtype to count, or use 'bor'",
    ("min", "c"): "complex numbers have no order: reduce abs(x), or the real and imaginary parts",
    ("max", "c"): "complex numbers have no order: reduce abs(x), or the real and imaginary parts",
    ("avg", "i"): "the mean of integers is not an integer: convert to a float dtype first",
    ("avg", "u"): "the mean of integers is not an integer: convert to a float dtype first",
}


@dataclass(frozen=True, slots=True)
class ReduceOp:
    """A reduction over ranks, by name: sum, product, min, max, avg, band, bor, bxor, or premul_sum with a factor.

    Wherever a reduction is asked for, its name as a string does as well: ``comm.all_reduce(x, op="max")``.
    """

    name: str
    factor: float | complex = 1.0

    SUM: ClassVar[ReduceOp]
    PRODUCT: ClassVar[ReduceOp]
    MIN: ClassVar[ReduceOp]
    MAX: ClassVar[ReduceOp]
    AVG: ClassVar[ReduceOp]
    BAND: ClassVar[ReduceOp]
    BOR: ClassVar[ReduceOp]
    BXOR: ClassVar[ReduceOp]

    @staticmethod
    def premul_sum(factor: float | complex) -> ReduceOp:
        """Sum of ``factor * x`` over the ranks; every rank may bring its own factor."""
        return ReduceOp("premul_sum", factor)

    @staticmethod
    def of(op: str | ReduceOp) -> ReduceOp:
        """The reduction of this name; a ReduceOp passes through. Raises ValueError for an unknown name."""
        if type(op) is ReduceOp:
            return op
        try:
            return _BY_NAME[op]  # type: ignore[index]
        except (KeyError, TypeError):
            raise ValueError(
                f"unknown reduction {op!r}: use one of {', '.join(_BY_NAME)}, or ReduceOp.premul_sum(factor)"
            ) from None

    def ufunc(self, xp: Any = np) -> Any:
        """The two-argument function of array module ``xp`` that combines two ranks' arrays."""
        return getattr(xp, _UFUNC[self.name])

    def check(self, dtype: np.dtype) -> None:
        """Raises TypeError when this reduction makes no sense for ``dtype``."""
        if dtype.kind not in _KINDS[self.name]:
            kinds = ", ".join(_KIND_NAMES[k] for k in _KINDS[self.name])
            way_out = _WAY_OUT.get((self.name, dtype.kind), "choose another reduction or convert first")
            raise TypeError(f"{self.name} is not defined for {dtype} (it is for {kinds}): {way_out}")


_BY_NAME = {name: ReduceOp(name) for name in _UFUNC if name != "premul_sum"}
for _name, _op in _BY_NAME.items():
    setattr(ReduceOp, _name.upper(), _op)
