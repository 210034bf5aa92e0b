"""VQNet's pipeline training, over qdist.parallel."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ....comm.bootstrap.named_backend import world_over
from ....parallel import PipelineTraining
from ....tensor import Tensor
from ..devices import DEV_GPU_0, as_device
from ..optim import plain_options

__all__ = ["PipelineParallelTrainingWrapper"]


class PipelineParallelTrainingWrapper:
    """Trains layers on a dataset, in stages on the ranks of the job, one forward and one backward pass in turn (1F1B).

    Args:
        args: what `qdist.parallel.PipelineTraining` reads, with VQNet's losses: loss(targets, outputs). With "backend":
            "nccl" the layers and every batch go to the GPU of this rank's number on its machine; "device" names
            another, 0 or 1000 + k.
        join_layers: Modules and functions, applied one after the other.
        trainset: items (input, target) by number, and a length.
    """

    def __init__(self, args: Mapping[str, Any], join_layers: Sequence[Callable[..., Any]], trainset: Any) -> None:
        if "loss" not in args:
            raise ValueError("args need 'loss', such as nn.CrossEntropyLoss()")
        given: Callable[[Any, Any], Tensor] = args["loss"]
        config = plain_options(args) | {"loss": lambda outputs, targets: given(targets, outputs)}
        if config.get("backend") == "nccl":
            # As in VQNet: ranks that talk over NCCL have a GPU each.
            comm = world_over("nccl")
            config.setdefault("device", DEV_GPU_0 + comm.local_rank % comm.devices)
        if "device" in config:
            config["device"] = as_device(config["device"])
        self._training = PipelineTraining(config, join_layers, trainset)

    @property
    def loss_dict(self) -> dict[int, float]:
        """The loss of every step so far, the same on all ranks."""
        return self._training.loss_dict

    def train_batch(self) -> float:
        """Trains for args["steps"] batches, or for one pass over the data without it; returns the last loss."""
        return self._training.train()
