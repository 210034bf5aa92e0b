"""The outputs of a row program (plan/observables/row_outputs.py) as tables that kernels read."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.lowering.records.rows import ROW_FLIP
from qdist.backends.cuda.rows.tables import sparse, swizzled
from qdist.plan.observables.row_outputs import RowOutputRecords

__all__ = ["OutputTables", "output_tables"]


class OutputTables(NamedTuple):
    """arrays and numbers: by the names of RowLaunch's fields."""

    arrays: dict[str, NDArray[Any]]
    numbers: dict[str, int]


def output_tables(records: RowOutputRecords) -> OutputTables:
    """Strings by the bits that they flip, and their different masks, each of which is one sum."""
    strings = records.strings.tolist()
    # Those that flip nothing come first, and the empty string is always there: the bra loses a multiple of the ket.
    masks: dict[tuple[int, int], dict[int, int]] = {(0, 0): {0: 0}}
    for flip, mask, imaginary, _ in strings:
        masks.setdefault((flip, imaginary), {}).setdefault(_packed(mask, flip), 0)
    flips = np.zeros(len(masks), ROW_FLIP.dtype)
    places: list[int] = []
    for record, ((flip, imaginary), own) in zip(flips, masks.items()):
        record["bits"], record["imaginary"] = flip, imaginary
        record["pivot"] = max(0, (flip & -flip).bit_length() - 1)
        record["first"] = len(places)
        for mask in own:
            own[mask] = len(places)
            places.append(swizzled(mask))
        record["end"] = len(places)
    number = np.array([masks[flip, imaginary][_packed(mask, flip)] for flip, mask, imaginary, _ in strings], np.int64)
    output = records.strings[:, 3]
    of_marginals = {k for first, count, *_ in records.marginals.tolist() for k in range(first, first + (1 << count))}
    sums = np.array([k for k in range(records.num_outputs) if k not in of_marginals], np.int64)
    arrays: dict[str, NDArray[Any]] = {"flips": flips, "masks": np.array(places, np.uint32)}
    by_sum = np.searchsorted(sums, output)
    arrays["sum_begins"], arrays["sum_entries"] = sparse(by_sum, number, records.coefficients, len(sums))
    arrays["sum_outputs"] = sums.astype(np.int32)
    arrays["mask_begins"], arrays["mask_entries"] = sparse(number, output, records.coefficients, len(places))
    marginals = records.marginals.copy()
    marginals[:, 2:] = swizzled(marginals[:, 2:])
    arrays["marginals"] = marginals.astype(np.int32).ravel()
    return OutputTables(
        arrays,
        {
            "num_flips": len(flips),
            "num_sums": len(sums),
            "num_outputs": records.num_outputs,
            "num_marginals": len(marginals),
            "identity": masks[0, 0][0],
        },
    )


def _packed(mask: int, flip: int) -> int:
    """Without the lowest flipped bit, which is 0 in all indices that are summed over."""
    if not flip:
        return mask
    pivot = (flip & -flip).bit_length() - 1
    return mask & (1 << pivot) - 1 | mask >> pivot + 1 << pivot
