"""VQNet's pipeline training, over qdist.parallel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....parallel import PipelineTraining
from ....tensor import Tensor

__all__ = ["PipelineParallelTrainingWrapper"]


class PipelineParallelTrainingWrapper:
    """Trains layers on a dataset, in stages on the ranks of the job, one forward and one backward pass in turn (1F1B).

    Args:
        args: what `qdist.parallel.PipelineTraining` reads, with VQNet's losses: loss(targets, outputs).
        join_layers: Modules and functions, applied one after the other.
        trainset: items (input, target) by number, and a length.
    """

    def __init__(self, args: Mapping[str, Any], join_layers: Sequence[Callable[..., Any]], trainset: Any) -> None:
        if "loss" not in args:
            raise ValueError("args need 'loss', such as nn.CrossEntropyLoss()")
        given: Callable[[Any, Any], Tensor] = args["loss"]
        self._training = PipelineTraining(
            {**args, "loss": lambda outputs, targets: given(targets, outputs)}, join_layers, trainset
        )

    @property
    def loss_dict(self) -> dict[int, float]:
        """The loss of every step so far, the same on all ranks."""
        return self._training.loss_dict

    def train_batch(self) -> float:
        """Trains for args["steps"] batches, or for one pass over the data without it; returns the last loss."""
        return self._training.train()
