"""The texts that kernels are compiled from, and what they are compiled with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from qdist.backends.cuda.lowering.records.headers import headers
from qdist.backends.cuda.lowering.tile import Shape, back_shape_of, shape_of

__all__ = ["MODULES", "all_texts", "expanded", "source", "stage_source"]

MODULES = ("measure", "pauli", "pauli_tiles", "moves", "rows", "far_rows")
"""Sources that are compiled beside the tile kernel's."""

_FOLDER = Path(__file__).parents[1] / "sources"

Text = tuple[str, tuple[str, ...]]
"""A source with all that it includes, and the compiler's options."""


def stage_source(stored: np.dtype, shape: Shape, rare: bool, long: bool, exchanges: bool = False) -> Text:
    """The tile kernel's source and the compiler's options. For two states it is that of the adjoint sweep. stored: of
    the amplitudes in memory. rare: with what few circuits need (tables.py says what that is). long: with norms that are
    kept (norm.cuh). exchanges: with matrices that exchange amplitudes (backends/pairs.py)."""
    name = "forward" if shape.states == 1 else "backward"
    defined = {"REGISTER_BITS": shape.registers, "STATES": shape.states, "RARE": int(rare), "KEEP_NORM": int(long)}
    defined |= {"WIDENED": int(stored != shape.dtype), "EXCHANGES": int(exchanges)}
    sizes = (f"-D{name}={value}" for name, value in defined.items())
    return expanded(f"{name}.cu"), (*_options(shape.dtype), *sizes, f"--maxrregcount={shape.registers_per_thread}")


def source(module: str, dtype: np.dtype) -> Text:
    """The source of one of the other modules, which are compiled when a kernel of theirs is first asked for, and the
    compiler's options."""
    return expanded(f"{module}.cu"), _options(dtype)


def all_texts() -> Iterator[Text]:
    """Everything that programs can ask for: each module in both precisions, and all variants of the tile kernel."""
    single, double = np.dtype(np.complex64), np.dtype(np.complex128)
    for module in MODULES:
        yield from (source(module, dtype) for dtype in (single, double))
    for (stored, computed), of in product(
        ((single, single), (double, double), (single, double)), (shape_of, back_shape_of)
    ):
        exchanges = (False, True) if of is shape_of else (False,)
        for rare, long, some in product((False, True), (False, True), exchanges):
            yield stage_source(stored, of(computed), rare, long, some)


def expanded(name: str) -> str:
    """A source with everything that it includes from its folder, each file once. The compiler's messages name the
    files.

    One text, and no -I: CuPy's cache knows a kernel by its text, and would not notice that an included file changed.
    Raises RuntimeError where a header is not what the records describe.
    """
    for path, text in headers().items():
        if path.read_text() != text:
            raise RuntimeError(f"{path} is out of date: run python -m {headers.__module__}")
    return _expanded(name, set())


def _expanded(name: str, seen: set[str]) -> str:
    seen.add(name)
    lines = [f'#line 1 "{name}"']
    for number, line in enumerate((_FOLDER / name).read_text().splitlines(), 1):
        if include := re.fullmatch(r'#include "(.+)"', line):
            if include[1] not in seen:
                lines.append(_expanded(include[1], seen))
            lines.append(f'#line {number + 1} "{name}"')
        else:
            lines.append("" if line == "#pragma once" else line)
    return "\n".join(lines)


def _options(dtype: np.dtype) -> tuple[str, ...]:
    real, turn = ("float", "unsigned") if dtype == np.complex64 else ("double", "unsigned long long")
    return "-std=c++17", f"-DReal={real}", f"-DPair={real}2", f"-DTurn={turn}"
