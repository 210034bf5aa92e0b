"""A batch before it enters a pipeline: what all ranks must agree on, and its cut into micro-batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from qdist.comm import Communicator
from qdist.parallel.pipeline.stages import Draws, as_tuple
from qdist.tensor import Tensor
from qdist.tensor.arrays import Array

__all__ = ["CALLS", "Batch", "agree", "arrays_of", "cut_by_count", "cut_by_size", "cutter"]

CALLS = ("train_batch", "eval_batch", "predict")
_NONE, _REFUSED = -1, -2


@dataclass
class Batch:
    """The rows of a batch, cut into micro-batches."""

    inputs: tuple[Array, ...]
    """Of the first stage; not looked at on other ranks."""
    targets: tuple[Array, ...]
    """Of the loss; not looked at on ranks without the last stage."""
    bounds: Sequence[range]
    """The rows of each micro-batch."""
    draws: Draws
    """What is drawn at random for the batch."""

    def inputs_of(self, micro_batch: int) -> tuple[Tensor, ...]:
        return self._rows(self.inputs, micro_batch)

    def draws_of(self, micro_batch: int, before: int) -> Draws:
        """Of a micro-batch, after so many draws of earlier stages."""
        (first, _, whole), part = self.draws.rows, self.bounds[micro_batch]
        rows = first + part.start, first + part.stop, whole
        return self.draws._replace(draw=self.draws.draw + before, rows=rows)

    def targets_of(self, micro_batch: int) -> Any:
        """A Tensor, or a tuple of them where several targets were given."""
        targets = self._rows(self.targets, micro_batch)
        return targets[0] if len(targets) == 1 else targets

    def _rows(self, arrays: tuple[Array, ...], micro_batch: int) -> tuple[Tensor, ...]:
        rows = self.bounds[micro_batch]
        return tuple(Tensor(a[rows.start : rows.stop]) for a in arrays)


def cutter(count: int | None, size: int | None) -> Callable[[int], list[range]]:
    """What cuts so many rows into `count` micro-batches, or into micro-batches of `size` rows.

    Raises ValueError unless one of the two is given, and positive.
    """
    if (count is None) == (size is None):
        raise ValueError("give either micro_batches or micro_batch_size")
    if count is not None:
        if count < 1:
            raise ValueError(f"micro_batches={count}: at least 1")
        return partial(cut_by_count, count=count)
    assert size is not None
    if size < 1:
        raise ValueError(f"micro_batch_size={size}: at least 1")
    return partial(cut_by_size, size=size)


def cut_by_count(rows: int, count: int) -> list[range]:
    """`count` parts, the first ones a row longer where it does not divide; one row each if there are fewer rows."""
    count = min(count, rows)
    starts = [-(-rows * k // count) for k in range(count + 1)] if count else []
    return [range(a, b) for a, b in pairwise(starts)]


def cut_by_size(rows: int, size: int) -> list[range]:
    """Parts of `size` rows; the last has what is left."""
    return [range(a, min(a + size, rows)) for a in range(0, rows, size)]


def arrays_of(what: str, given: Any) -> tuple[Array, ...]:
    """An array or Tensor, or a tuple of them, as arrays with equally many rows; None as none.

    Raises ValueError if they have not.
    """
    if given is None:
        return ()
    arrays = tuple(Tensor(value).data for value in as_tuple(given))
    if len({a.shape[:1] for a in arrays} - {()}) != 1 or not all(a.ndim for a in arrays):
        shapes = ", ".join(str(a.shape) for a in arrays)
        raise ValueError(f"{what} must have a row for each sample, all equally many, not the shapes {shapes}")
    return arrays


def agree(
    comm: Communicator,
    call: str,
    inputs: tuple[Array, ...],
    targets: tuple[Array, ...],
    problem: Exception | None,
    fingerprint: int,
    state: dict[str, Any],
) -> tuple[int, bytes, dict[str, Any]]:
    """How many rows the batch has, a key under which all ranks remember what they learned of its shapes, and the first
    rank's state of its generator.

    Args:
        call: one of CALLS, what this rank was asked for.
        inputs, targets: what this rank was given.
        problem: why this rank cannot take its batch, if it cannot: it is raised here, when the others know.
        fingerprint: of all that decides on the shapes that this rank sends.
        state: of this rank's random generator.

    Raises ValueError on every rank when they cannot go on together.
    """
    rows = [arrays[0].shape[0] if arrays else _NONE for arrays in (inputs, targets)]
    if problem is not None:
        rows = [_REFUSED, _REFUSED]
    # Keys have 64 bits without a sign.
    keys = np.array(state["key"], np.uint64).view(np.int64)
    gathered = comm.all_gather(np.array([CALLS.index(call), *rows, fingerprint, *keys, state["draw"]]))
    table = gathered[:, :4]
    if problem is not None:
        raise problem
    for rank, (code, given, wanted, _) in enumerate(table.tolist()):
        if code != table[0, 0]:
            raise ValueError(
                f"rank {rank} calls {CALLS[code]}, rank 0 calls {CALLS[int(table[0, 0])]}: all call the same"
            )
        if _REFUSED in (given, wanted):
            raise ValueError(f"rank {rank} cannot take its batch; its own error says why")
    if table[0, 1] == _NONE:
        raise ValueError("rank 0 has the first stage and was given no inputs")
    if call != "predict" and table[-1, 2] == _NONE:
        raise ValueError(f"rank {comm.size - 1} has the last stage and was given no targets")
    count = int(table[0, 1])
    for rank, (_, *given, _) in enumerate(table.tolist()):
        for what, number in zip(("inputs", "targets"), given):
            if number not in (count, _NONE):
                raise ValueError(f"rank {rank} has {what} of {number} rows, rank 0 inputs of {count}")
    first, second = np.ascontiguousarray(gathered[0, 4:6]).view(np.uint64).tolist()
    return count, table[:, [0, 3]].tobytes(), {"key": [first, second], "draw": int(gathered[0, 6])}
