"""Embeddings and cross-entropy with the vocabulary divided over ranks (Megatron-LM, arXiv 1909.08053)."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from qdist.comm import Communicator
from qdist.nn import CrossEntropyLoss, Embedding, Module
from qdist.parallel.collectives import reduce, reduce_scatter
from qdist.parallel.partition import Partition, check_divides, divided
from qdist.tensor import Rule, Tensor, apply, functional
from qdist.tensor.arrays import Array
from qdist.tensor.functional import as_tensor
from qdist.tensor.losses import check_reduction, check_targets, counted, reduce_loss

__all__ = ["VocabParallelEmbedding", "vocab_parallel_cross_entropy"]


class VocabParallelEmbedding(Module):
    """A table (count, features) of vectors with its rows divided over ranks; integers of any shape in.

    Args:
        count, features: of the whole table; the group's size divides count.
        comm: the ranks that share the table. All give the same indices.
        sequence_parallel: give each rank its slice of the sequence, the last axis of the indices.
        whole: take the rows and their dtype from this layer, of the same sizes, instead of drawing them.

    For the same seed the rows are those of `nn.Embedding`.
    """

    def __init__(
        self,
        count: int,
        features: int,
        comm: Communicator,
        sequence_parallel: bool = False,
        dtype: Any = np.float32,
        *,
        whole: Embedding | None = None,
    ) -> None:
        super().__init__()
        check_divides("VocabParallelEmbedding: count", count, comm.size)
        self.count, self.features, self.comm, self.sequence_parallel = count, features, comm, sequence_parallel
        whole = Embedding(count, features, dtype) if whole is None else whole
        if (whole.count, whole.features) != (count, features):
            raise ValueError(f"{whole!r} cannot be the whole of a table of {count} rows of {features} features")
        self.weight = divided(whole.weight, Partition(comm, 0))

    @classmethod
    def from_embedding(cls, layer: Embedding, comm: Communicator, **options: Any) -> Self:
        """The parallel form of a layer, with a copy of its rows; options as in the constructor."""
        return cls(layer.count, layer.features, comm, whole=layer, **options)

    def forward(self, indices: Any) -> Tensor:
        """Indices (...) to (..., features). Raises IndexError for an index outside the whole table, TypeError for
        indices that are not integers."""
        tokens = as_tensor(indices)
        if tokens.dtype.kind not in "iu":
            raise TypeError(f"embedding takes integer indices, got {tokens.dtype}")
        if self.sequence_parallel:
            if tokens.ndim == 0:
                raise ValueError("VocabParallelEmbedding takes (..., sequence), got a single index")
            check_divides("VocabParallelEmbedding: the sequence's length", tokens.shape[-1], self.comm.size)
        if tokens.size:
            low, high = int(tokens.data.min()), int(tokens.data.max())
            if not 0 <= low <= high < self.count:
                raise IndexError(f"embedding: indices go from {low} to {high}, but the table has {self.count} rows")
        rows = len(self.weight)
        own = tokens.to(np.int64) - self.comm.rank * rows
        here = (own >= 0) & (own < rows)
        found = functional.embedding(self.weight, functional.where(here, own, 0))
        found = found * here.unsqueeze(-1).to(self.weight.dtype)
        return reduce_scatter(found, self.comm, -2) if self.sequence_parallel else reduce(found, self.comm)

    def extra_repr(self) -> str:
        return f"{self.count}, {self.features}, rank {self.comm.rank} of {self.comm.size}"


def vocab_parallel_cross_entropy(
    logits: Any,
    targets: Any,
    comm: Communicator,
    reduction: str = "mean",
    *,
    weight: Any = None,
    ignore_index: int | None = None,
) -> Any:
    """-log softmax(logits)[target] where each rank has (..., classes / ranks) of the logits, in the order of ranks.

    Args:
        logits: this rank's, as a ColumnParallelLinear without gather_output gives them.
        targets: integers (...), numbers of classes of the whole vocabulary, equal on all ranks.
        comm: the ranks that share the vocabulary.
        reduction: mean, sum or none.
        weight, ignore_index: as of functional.cross_entropy; weight is of all classes.

    Returns:
        The loss, equal on all ranks. Three numbers a target travel, whatever the size of the vocabulary.

    Raises:
        ValueError: for targets that are no integers or do not fit the logits' shape, or another reduction.
        IndexError: for a target outside 0 ... classes - 1.
    """
    logits, targets = as_tensor(logits), as_tensor(targets)
    if reduction != "terms":
        check_reduction(reduction)
    classes = logits.shape[-1] * comm.size
    check_targets("vocab_parallel_cross_entropy", logits, targets, classes, ignore_index, comm.size)
    each, numbers = counted("vocab_parallel_cross_entropy", targets, classes, weight, ignore_index, logits)
    flat = apply(_LOSS, logits.reshape(-1, logits.shape[-1]), numbers, comm=comm)
    flat = flat if each is None else flat * each
    return reduce_loss(flat if logits.ndim == 2 else flat.reshape(targets.shape), reduction, each)


class VocabParallelCrossEntropyLoss(CrossEntropyLoss):
    """nn.CrossEntropyLoss of logits whose classes are divided over ranks: `vocab_parallel_cross_entropy`.

    Args:
        comm: the ranks that share the classes, mesh["tp"].
        reduction, weight, ignore_index: as of nn.CrossEntropyLoss.
    """

    def __init__(
        self, comm: Communicator, reduction: str = "mean", *, weight: Any = None, ignore_index: int | None = None
    ) -> None:
        super().__init__(reduction, weight=weight, ignore_index=ignore_index)
        self.comm = comm

    def _reduced(self, output: Any, targets: Any, reduction: str) -> Any:
        options: dict[str, Any] = {"weight": self.weight, "ignore_index": self.ignore_index}
        return vocab_parallel_cross_entropy(output, targets, self.comm, reduction, **options)


def _loss(xp: Any, logits: Array, targets: Array, *, comm: Communicator) -> Any:
    top = comm.all_reduce(logits.max(axis=1), "max")
    shifted = logits - top[:, None]
    own = targets.astype(np.int64) - comm.rank * logits.shape[1]  # Unsigned numbers would wrap around.
    here = (own >= 0) & (own < logits.shape[1])
    own = xp.where(here, own, 0)
    weights = xp.exp(shifted)
    # The sums of the exponentials and the targets' logits, which only one rank has, travel together.
    sums = comm.all_reduce(xp.stack([weights.sum(axis=1), xp.where(here, shifted[xp.arange(own.size), own], 0)]))
    weights /= sums[0][:, None]
    return xp.log(sums[0]) - sums[1], (weights, own, here)


def _loss_vjp(xp: Any, g: Array, saved: Any, needs: Any, *, comm: Communicator) -> Any:
    weights, own, here = saved
    grad = weights.copy()
    grad[xp.arange(own.size), own] -= here
    grad *= g[:, None]
    return grad, None


_LOSS = Rule("vocab_parallel_cross_entropy", _loss, _loss_vjp, floating=True, apart=(1,))
