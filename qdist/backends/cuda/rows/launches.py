"""What kernels of rows are launched with: the record that all of them take, grids, and memory for a call."""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.lowering.records import ROW_LAUNCH

__all__ = ["GRADIENTS_SINGLE", "Addresses", "CallPlan", "Common", "Reading", "aligned", "fixed_part", "record"]

GRADIENTS_SINGLE = 8
"""Of RowLaunch's singles; the bits before say the same of what is given."""

_IN_BYTES = np.dtype((np.void, ROW_LAUNCH.dtype.itemsize))
"""A launch without its fields, which CuPy would have NumPy list each time."""

_LAST = "row_bytes"
"""Of the fields that differ from launch to launch, which are the first."""


def _first_fields() -> Struct:
    places = ROW_LAUNCH.dtype.fields
    assert places is not None
    names = [field.name for field in ROW_LAUNCH.fields]
    names = names[: names.index(_LAST) + 1]
    packed = Struct("<" + "".join("Q" if places[name][0].itemsize == 8 else "i" for name in names))
    assert packed.size == places[_LAST][1] + 4, "they lie together, without gaps"
    return packed


_FIRST = _first_fields()


class Reading(NamedTuple):
    """Outputs on the device. fixed: the bytes of the record that are the same for all launches; what they point to is
    in arrays."""

    arrays: dict[str, Any]
    num_outputs: int
    num_masks: int
    fixed: bytes


def fixed_part(values: dict[str, Any]) -> bytes:
    """Of the record, with these fields; the others are 0."""
    return ROW_LAUNCH.filled({field.name: values.get(field.name, 0) for field in ROW_LAUNCH.fields}).tobytes()[
        _FIRST.size :
    ]


class Common(NamedTuple):
    """Addresses of what all rows share (RowLaunch), and whether an earlier run has computed it."""

    shared_slots: int
    turned: int
    phases: int
    far_turns: int
    known: bool


class Addresses(NamedTuple):
    """Of what a call reads and writes: RowLaunch's first fields. 0: there is none."""

    row_values: int
    shared_values: int
    values: int
    single_values: int = 0
    cotangents: int = 0
    by_angle: int = 0
    states: int = 0


class CallPlan(NamedTuple):
    """The launch of rows, forward or backward, and where in the memory of a call everything is.

    A backward run has its derivatives by angles first; then come numbers and states that shared memory has no room for;
    behind ``own`` bytes the outputs in double and what all rows share, which a forward run may have left.
    """

    kernel: Any
    grid: tuple[int]
    block: tuple[int, int]
    row_bytes: int
    shared_bytes: int
    scratch: int | None
    far_states: int | None
    own: int
    values: int
    common: int
    nbytes: int


def record(
    reading: Reading,
    given: Addresses,
    common: Common,
    plan: CallPlan,
    at: int,
    num_rows: int,
    way_back: tuple[int, int],
    singles: int,
    known: bool,
) -> NDArray[Any]:
    """As kernels take it. at: the call's memory; way_back: first_op and undo_start."""
    packed = _FIRST.pack(
        *given,
        *common[:3],
        0 if plan.scratch is None else at + plan.scratch,
        0 if plan.far_states is None else at + plan.far_states,
        common.far_turns,
        num_rows,
        *way_back,
        singles,
        known,
        plan.row_bytes,
    )
    return np.frombuffer(packed + reading.fixed, _IN_BYTES).reshape(())


def aligned(*sizes: int) -> list[int]:
    """Where parts of so many bytes begin, each at a multiple of 16; then their end."""
    found = [0]
    for size in sizes:
        found.append(found[-1] + -(-size // 16) * 16)
    return found
