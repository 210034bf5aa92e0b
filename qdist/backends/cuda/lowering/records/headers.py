"""The records as C++: headers that are kept in sources, for compilers and editors to read.

After a change of records, write them anew: ``python -m qdist.backends.cuda.lowering.records.headers``.
"""

from __future__ import annotations

from pathlib import Path

from qdist.backends.cuda.lowering.records import paulis, rows, tiles
from qdist.backends.cuda.lowering.records.record import Kinds, Record

__all__ = ["headers"]

_FOLDER = Path(__file__).parents[2] / "sources"


def headers() -> dict[Path, str]:
    """What each header is to say."""
    return {
        _FOLDER / "tile_records.cuh": _header(
            "tiles", "What the tile kernels read, and what a launch of them takes.", tiles.KINDS, tiles.RECORDS
        ),
        _FOLDER / "pauli_records.cuh": _header(
            "paulis", "What the passes over tiles for observables read.", (), paulis.RECORDS
        ),
        _FOLDER / "row_records.cuh": _header(
            "rows", "What the kernels for batches of small circuits read and take.", rows.KINDS, rows.RECORDS
        ),
    }


def _header(module: str, about: str, kinds: Kinds, records: tuple[Record, ...]) -> str:
    """Records of a module here, and numbers by name, as C++."""
    source = f"qdist/backends/cuda/lowering/records/{module}.py"
    opening = f"// {about}\n//\n// Generated from {source}: do not edit. __init__.py there explains the words.\n"
    enums = [f"// {what}\nenum {{ {', '.join(f'{n.upper()} = {k}' for n, k in of.items())} }};\n" for what, of in kinds]
    offsets = "#ifdef CHECK_OFFSETS\n" + "".join(record.offsets() for record in records) + "#endif\n"
    start = opening + '#pragma once\n\n#include "types.cuh"\n'
    return "\n".join([start, *enums, *(record.struct() for record in records), offsets])


if __name__ == "__main__":
    for path, text in headers().items():
        path.write_text(text)
