"""What kernels of rows are launched with: the record that all of them take, grids, and memory for a call."""

from __future__ import annotations

from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from qdist.backends.cuda.graphs import Graphs
from qdist.backends.cuda.lowering.records.rows import ROW_LAUNCH

__all__ = ["GRADIENTS_SINGLE", "Call", "CallPlan", "Reading", "aligned", "fixed_part", "record"]

GRADIENTS_SINGLE = 8
"""Of RowLaunch's singles; the bits before say the same of what is given."""

_IN_BYTES = np.dtype((np.void, ROW_LAUNCH.dtype.itemsize))
"""A launch without its fields, which CuPy would have NumPy list each time."""

_ADDRESSES, _NUMBERS = Struct("<14Q"), Struct("<Q5i")
"""The first fields: addresses, which differ from launch to launch, and numbers, which differ from call to call."""


class Reading(NamedTuple):
    """Outputs on the device. fixed: the bytes of the record that are the same for all launches; what they point to is
    in arrays. calls: those that were made before, by what they depend on."""

    arrays: dict[str, Any]
    num_outputs: int
    num_masks: int
    fixed: bytes
    calls: dict[tuple[int, ...], Call]


def fixed_part(values: dict[str, Any]) -> bytes:
    """Of the record, with these fields; the others are 0."""
    places = ROW_LAUNCH.dtype.fields
    assert places is not None
    assert (places["num_rows"][1], places["num_masks"][1]) == (_ADDRESSES.size, _ADDRESSES.size + _NUMBERS.size)
    whole = ROW_LAUNCH.filled({field.name: values.get(field.name, 0) for field in ROW_LAUNCH.fields})
    return whole.tobytes()[_ADDRESSES.size + _NUMBERS.size :]


class CallPlan(NamedTuple):
    """The launch of rows, forward or backward, and where in the memory of a call everything is.

    A backward run has its derivatives by angles first; then come numbers and states that shared memory has no room for;
    behind ``own`` bytes the outputs in double and what all rows share, which a forward run may have left. kets: bytes
    of the states of all rows, which such a run leaves behind that.
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
    kets: int


class Call(NamedTuple):
    """A forward or backward run of so many rows. rest: the record behind its addresses; result: the dtype of results,
    of which single says whether it is float32; ends: of outputs, of derivatives by shared parameters and of those by
    parameters of rows, one behind the other in what a backward run gives, which may go to the host in one copy; graphs:
    of its launches, by the addresses that they are made with: a step of a training finds its memory where the one
    before has left it."""

    plan: CallPlan
    rest: bytes
    result: np.dtype[Any]
    single: bool
    ends: tuple[int, int, int]
    graphs: Graphs

    @staticmethod
    def of(
        plan: CallPlan,
        reading: Reading,
        num_rows: int,
        way_back: tuple[int, int],
        singles: int,
        known: bool,
        single: bool,
        ends: tuple[int, int, int],
    ) -> Call:
        """way_back: first_op and undo_start; singles: of what is given; known: whether the outputs are."""
        singles |= GRADIENTS_SINGLE if single else 0
        numbers = _NUMBERS.pack(num_rows, *way_back, singles, known, plan.row_bytes)
        result = np.dtype(np.float32 if single else np.float64)
        return Call(plan, numbers + reading.fixed, result, single, ends, Graphs())


def record(
    call: Call,
    memory: int,
    common: tuple[int, int, int, int],
    row_values: int,
    shared_values: int,
    values: int,
    single_values: int = 0,
    cotangents: int = 0,
    by_angle: int = 0,
    states: int = 0,
    kets: int = 0,
) -> NDArray[Any]:
    """As kernels take it: addresses by the names of RowLaunch's fields, those of what all rows share together."""
    _, _, _, _, _, scratch, far_states, *_ = call.plan
    slots, turned, phases, far_turns = common
    addresses = _ADDRESSES.pack(
        row_values,
        shared_values,
        values,
        single_values,
        cotangents,
        by_angle,
        states,
        kets,
        slots,
        turned,
        phases,
        0 if scratch is None else memory + scratch,
        0 if far_states is None else memory + far_states,
        far_turns,
    )
    return np.frombuffer(addresses + call.rest, _IN_BYTES).reshape(())


def aligned(*sizes: int) -> list[int]:
    """Where parts of so many bytes begin, each at a multiple of 16; then their end."""
    found = [0]
    for size in sizes:
        found.append(found[-1] + -(-size // 16) * 16)
    return found
