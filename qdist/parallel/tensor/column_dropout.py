"""Dropout of features that are divided over ranks, and what tells that a dropout is given such features."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from qdist.comm import Communicator
from qdist.nn import Dropout
from qdist.nn.agreement import is_due, measures, tolerance
from qdist.parallel.sequence.positions import sequence_span
from qdist.tensor import Tensor, functional
from qdist.tensor.random import Span
from qdist.tensor.versions import digest

__all__ = ["ColumnParallelDropout", "refuse_parts"]


class ColumnParallelDropout(Dropout):
    """Dropout between a ColumnParallelLinear without gather_output and the RowParallelLinear that takes its outputs,
    with the mask that one process would draw for all of the features.

    Args:
        p: probability of dropping.
        comm: the ranks that the features, the last axis, are divided over.
        context: the ranks, of another axis of the mesh, that the sequence is divided over for ring attention, or None.

    The ranks' default generators must be in the same state: the same `manual_seed`, the same draws since.
    """

    def __init__(self, p: float, comm: Communicator, context: Communicator | None = None) -> None:
        super().__init__(p)
        self.comm, self.context = comm, context

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim < (1 if self.context is None else 3):
            sequence = "" if self.context is None else "batch, sequence, "
            raise ValueError(f"ColumnParallelDropout takes ({sequence}..., features / ranks), got shape {x.shape}")
        own, rank = x.shape[-1], self.comm.rank
        spans = [Span(x.ndim - 1, own * self.comm.size, ((rank * own, (rank + 1) * own),))]
        if self.context is not None:
            spans.append(sequence_span(1, x.shape[1], None, self.context))
        return functional.dropout(x, self.p, self.training, spans)


def refuse_parts(dropout: Dropout, name: str, comm: Communicator) -> None:
    """Has a dropout, whose input should be equal on all ranks of `comm`, compare it now and then while it drops: of
    parts that are all different, each rank would drop the same places, which one process would not.

    It raises ValueError, on every rank, for what rounding does not explain. name: of the dropout in the model.
    """
    passes = 0

    def compare(module: Any, inputs: tuple[Any, ...]) -> None:
        nonlocal passes
        if not module.training or module.p == 0:
            return
        passes += 1
        if is_due(passes) and not _is_equal(inputs[0]._data, comm):
            raise ValueError(
                f"{name!r}, a Dropout, is given other features on each of the {comm.size} ranks that share layers, "
                "such as a 'column' leaves them, and would drop the same places of all of them: make it a "
                "'column-dropout' in the plan's layers"
            )

    dropout.register_forward_pre_hook(compare)


def _is_equal(values: Any, comm: Communicator) -> bool:
    """Whether all ranks have the same values, up to rounding. 8 bytes travel, unless they differ."""
    mine = zlib.crc32(repr(digest(values)).encode())
    highest, lowest = comm.all_reduce(np.array([mine, -mine], np.int64), "max")
    if highest == -lowest:
        return True
    everyone = comm.all_gather_object((values.shape, *measures(values)))
    sums, norms = np.array([entry[1] for entry in everyone]), [entry[2] for entry in everyone]
    same_shape = all(entry[0] == everyone[0][0] for entry in everyone)
    return same_shape and bool(np.abs(sums - sums[0]).max() <= tolerance(str(values.dtype)) * max(norms))
