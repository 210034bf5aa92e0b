"""A pipeline, its optimiser and its data from one dictionary, with the names of DeepSpeed and VQNet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from qdist.comm import Communicator, Mesh, init
from qdist.comm.bootstrap.named_backend import world_over
from qdist.data import DataLoader
from qdist.parallel.pipeline.pipeline import Pipeline
from qdist.parallel.pipeline.stages import Layer
from qdist.parallel.zero.deepspeed_config import check_keys, optimizer_class

__all__ = ["PipelineTraining"]

_REQUIRED = ("train_batch_size", "train_micro_batch_size_per_gpu", "optimizer", "loss")
_OPTIONAL = (
    "pipeline_parallel_size", "seed", "steps", "gradient_clipping", "schedule", "virtual_stages", "partition",
    "recompute", "backend", "device", "local_rank", "epochs",
)  # fmt: skip


class PipelineTraining:
    """Trains layers on a dataset as a dictionary says.

    Args:
        config: these entries, the first four always:
            train_batch_size: rows of a step over all ranks.
            train_micro_batch_size_per_gpu: rows of a micro-batch.
            optimizer: {"type": sgd, adam, adamw, rmsprop or adagrad, "params": its options}.
            loss: what Pipeline takes.
            pipeline_parallel_size: ranks of a pipeline; all of them if not given. It divides the number of ranks;
                what is left over are pipelines side by side, which share out the rows of every batch.
            seed: of the order of the data and of dropout; 0 if not given.
            steps: how many batches a call of `train` takes, round and round the data; one pass if not given.
            gradient_clipping: the largest norm of a gradient.
            schedule, virtual_stages, partition, recompute: as of Pipeline.
            backend: "mpi" or "nccl", where no communicator is given; the one that runs already if not given.
            device: where this rank's layers and batches are moved to ("cuda:0"); they stay where they are if not given.
            local_rank, epochs: the program's own; local_rank must be this rank's.
        layers: as of Pipeline.
        trainset: items (inputs, targets) by number, and a length; only ranks with a first or last stage read it.
        comm: all ranks; those of the job if not given.

    Raises ValueError for entries that are missing, unknown or do not fit, before anything is sent, and CommError for a
    backend other than the one that runs already.
    """

    def __init__(
        self, config: Mapping[str, Any], layers: Sequence[Layer], trainset: Any, comm: Communicator | None = None
    ) -> None:
        check_keys("config", config, (*_REQUIRED, *_OPTIONAL))
        missing = [key for key in _REQUIRED if key not in config]
        if missing:
            raise ValueError(f"config: {', '.join(missing)} must be given")
        if comm is None:
            comm = world_over(config["backend"]) if "backend" in config else init()
        if config.get("local_rank", comm.local_rank) != comm.local_rank:
            raise ValueError(f"local_rank={config['local_rank']}, but this is local rank {comm.local_rank}")
        self.steps: int | None = config.get("steps")
        if self.steps is not None and self.steps < 1:
            raise ValueError(f"steps={self.steps}: at least 1")
        stages = config.get("pipeline_parallel_size", comm.size)
        if stages < 1 or comm.size % stages:
            raise ValueError(f"pipeline_parallel_size={stages} does not divide {comm.size} ranks")
        rows = config["train_batch_size"]
        if rows < 1 or not len(trainset):
            raise ValueError(f"train_batch_size={rows} of {len(trainset)} rows of data: at least 1 of each")
        make, options = optimizer_class(config["optimizer"])
        mesh = Mesh(comm, dp=-1, pp=stages)
        chosen = {key: config[key] for key in ("schedule", "virtual_stages", "partition", "recompute") if key in config}
        seed = config.get("seed", 0)
        self.pipeline = Pipeline(
            layers, config["loss"], mesh, micro_batch_size=config["train_micro_batch_size_per_gpu"], seed=seed, **chosen
        )
        self._device: str | None = config.get("device")
        if self._device is not None:
            for layer in self.pipeline.module.children():
                layer.to(self._device)
        self.optimizer = self.pipeline.make_optimizer(make, **options)
        self.max_norm: float | None = config.get("gradient_clipping")
        self.loss_dict: dict[int, float] = {}
        """The loss of every step so far, on every rank."""
        self._loader = DataLoader(trainset, rows, shuffle=True, seed=seed, ranks=mesh["dp"])
        self._batches = self._forever()

    def train(self) -> float:
        """Train on the next `steps` batches, or a pass over the data; returns the last loss."""
        for batch in islice(self._batches, self.steps or len(self._loader)):
            inputs, targets = (self._placed(part) for part in batch)
            loss = self.pipeline.train_batch(inputs, targets, self.optimizer, max_norm=self.max_norm)
            self.loss_dict[len(self.loss_dict)] = loss
        return loss

    def _placed(self, part: Any) -> Any:
        """A batch's inputs or targets on the device; a tuple's elements."""
        if isinstance(part, tuple):
            return tuple(map(self._placed, part))
        return part if part is None or self._device is None else part.to(self._device)

    def _forever(self) -> Iterator[tuple[Any, Any]]:
        """Pass after pass, each in an order of its own."""
        comm = self.pipeline.comm
        while True:
            if comm.rank in (0, comm.size - 1):
                yield from self._loader
            else:
                yield from [(None, None)] * len(self._loader)
