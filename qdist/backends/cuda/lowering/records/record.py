"""How a record that Python writes and a CUDA kernel reads is described: once, for NumPy and for C++.

A record's fields lie as C++ lays them out: each at a multiple of its type's alignment, the size a multiple of the
largest one. What is generated asserts sizes and offsets, so that a compiler that disagrees says so.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["Field", "Kinds", "Record"]

Count = int | tuple[int, int]
"""Elements of an array: the same in both precisions, or (in single, in double)."""

Kinds = tuple[tuple[str, dict[str, int]], ...]
"""What numbers are for, and their names."""

# NumPy's format, how many of it, alignment in bytes.
_TYPES = {
    "int": ("i4", 1, 4),
    "unsigned": ("u4", 1, 4),
    "unsigned short": ("u2", 1, 2),
    "Index": ("u8", 1, 8),
    "double": ("f8", 1, 8),
    "int2": ("i4", 2, 8),
    "uint4": ("u4", 4, 16),
}
_OF_PRECISION = {
    4: {"Real": ("f4", 1, 4), "Turn": ("u4", 1, 4), "Complex": ("c8", 1, 8)},
    8: {"Real": ("f8", 1, 8), "Turn": ("u8", 1, 8), "Complex": ("c16", 1, 16)},
}
_POINTER = ("u8", 1, 8)


@dataclass(frozen=True, slots=True)
class Field:
    """One field. type: as C++ has it; a pointer or a Table<> is an address of 8 bytes for NumPy."""

    name: str
    type: str
    doc: str = ""
    counts: tuple[Count, ...] = ()

    def format(self, real_bytes: int) -> tuple[str, tuple[int, ...], int]:
        """(NumPy's format, shape, alignment)."""
        is_address = self.type.endswith(("*", ">"))
        base, width, alignment = _POINTER if is_address else (_TYPES | _OF_PRECISION[real_bytes])[self.type]
        shape = tuple(count if isinstance(count, int) else count[real_bytes // 8] for count in self.counts)
        return base, shape if width == 1 else (*shape, width), alignment

    def declaration(self) -> str:
        """The field's line in a struct."""
        arrays = "".join(f"[{count if isinstance(count, int) else _either(*count)}]" for count in self.counts)
        return f"    {self.type} {self.name}{arrays};" + (f"  // {self.doc}" if self.doc else "")


@dataclass(frozen=True, slots=True)
class Record:
    """A struct. align: bytes, where that is more than its fields ask for."""

    name: str
    doc: str
    fields: tuple[Field, ...]
    align: int = 1

    @property
    def dtype(self) -> np.dtype[Any]:
        """The layout, of a record that is the same in both precisions."""
        assert self.dtype_of(4) == self.dtype_of(8), f"{self.name} depends on the precision"
        return self.dtype_of(4)

    def dtype_of(self, real_bytes: int) -> np.dtype[Any]:
        """The layout where Real has so many bytes: 4 or 8."""
        return _layout(self, real_bytes)

    def filled(self, values: dict[str, Any], real_bytes: int = 4) -> NDArray[Any]:
        """One record, as a kernel takes it by value. Raises KeyError for a field without a value, or the reverse."""
        dtype = self.dtype_of(real_bytes)
        if len(values) != len(self.fields):
            raise KeyError(f"{self.name} has other fields than {sorted(values)}")
        return np.array(tuple([values[field.name] for field in self.fields]), dtype)

    def struct(self) -> str:
        """The struct for C++, with its documentation."""
        aligned = f" __align__({self.align})" if self.align > 1 else ""
        size = _either(self.dtype_of(4).itemsize, self.dtype_of(8).itemsize)
        lines = [f"// {self.doc}", f"struct{aligned} {self.name} {{", *(f.declaration() for f in self.fields), "};"]
        return "\n".join([*lines, f'static_assert(sizeof({self.name}) == {size}, "size of {self.name}");\n'])

    def offsets(self) -> str:
        """Assertions for C++ that each field is where NumPy has it."""
        both = [of.fields for of in (self.dtype_of(4), self.dtype_of(8)) if of.fields is not None]
        return "".join(
            f'static_assert(OFFSET({self.name}, {name}) == {_either(*(of[name][1] for of in both))}, "{name}");\n'
            for name in both[0]
        )


@cache
def _layout(record: Record, real_bytes: int) -> np.dtype[Any]:
    names, formats, offsets, end, largest = [], [], [], 0, record.align
    for field in record.fields:
        base, shape, alignment = field.format(real_bytes)
        names.append(field.name)
        formats.append((base, shape) if shape else base)
        offsets.append(_up(end, alignment))
        end = offsets[-1] + np.dtype(base).itemsize * prod(shape)
        largest = max(largest, alignment)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": _up(end, largest)})


def _up(number: int, multiple: int) -> int:
    return -(-number // multiple) * multiple


def _either(single: int, double: int) -> str:
    return str(single) if single == double else f"(sizeof(Real) == 4 ? {single} : {double})"
