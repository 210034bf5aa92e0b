"""Data parallel: every rank has the whole model and a part of the batch; gradients are averaged.

Buckets are filled in the reverse of the order in which the model lists its parameters, which is about the order in
which the backward pass completes their gradients. Between nodes and between GPUs, a full bucket is all-reduced while
the pass goes on (Li et al., "PyTorch Distributed", VLDB 2020, arXiv 2006.15704).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from qdist.comm import Communicator, world
from qdist.nn import Module, materialize
from qdist.nn.agreement import agree, is_due
from qdist.parallel.replica.buckets import BUCKET_BYTES, MeanBucket, agree_on_use, arrange
from qdist.parallel.replica.replica import Replica
from qdist.parallel.replica.shared_circuits import check_circuits
from qdist.tensor.autograd import mode

__all__ = ["DataParallel", "average_gradients", "check_replicas"]

_WAY_OUT = (
    "all ranks do the same to their parameters, with the same optimiser and options; what only one of them changes or "
    "loads comes before DataParallel(model, comm), which gives its first rank's values to all"
)


class DataParallel(Replica):
    """The model, trained by many ranks as if one had the whole batch.

    Args:
        module, comm, reduction: as for Replica: the model, the ranks, and whether the loss is a "mean" or a "sum".
        bucket_bytes: size of the messages that gradients travel in.

    After ``loss.backward()`` every parameter's ``.grad`` is the whole batch's, and None where no rank used the
    parameter. ``module`` is the plain model; ``state_dict()`` and ``named_parameters()`` are those of the plain model.
    Buffers (running averages) are the first rank's at the start of every forward pass that records gradients.

    A QuantumLayer inside takes ``mesh["state"]`` for its amplitudes, not the whole mesh, whose axis "dp" it would
    average over once more. Parameters that do not stay equal on all ranks are told by a ValueError with their name:
    they are compared at the 2nd, 4th, 8th ... 64th forward pass that records gradients, and at every 64th.

    >>> model = DataParallel(nn.Linear(3, 1), comm)
    >>> optimizer = optim.SGD(model.parameters(), lr=0.1)
    >>> model(x).mean().backward()
    >>> optimizer.step()
    """

    def __init__(
        self,
        module: Module,
        comm: Communicator | None = None,
        *,
        reduction: str = "mean",
        bucket_bytes: int = BUCKET_BYTES,
    ) -> None:
        if bucket_bytes < 1:
            raise ValueError(f"bucket_bytes must be at least 1, got {bucket_bytes}")
        if isinstance(module, Module):
            materialize(module)
        super().__init__(module, comm, reduction)
        # MPI moves data while it is asked to, and on one node by the cores that compute: nothing is gained by asking
        # again and again while the pass goes on, so all is sent at its end.
        self._eager = self.comm.num_nodes > 1 or self.comm.backend != "mpi"
        self._bucket_bytes = bucket_bytes
        self._signature: list[Any] = []
        self._passes = 0
        if self.comm.size > 1:
            self._arrange()

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes, for this rank's rows."""
        if self.comm.size > 1:
            self._arrange()
            if mode.grad and self._sending:
                self._passes += 1
                if self._passes > 1 and is_due(self._passes):
                    agree(self.module.named_parameters(), self.comm, _WAY_OUT)
        return super().forward(*args, **kwargs)

    def _arrange(self) -> None:
        """Make the buckets, again when parameters were frozen, thawed, moved or exchanged."""
        parameters = list(self.module.parameters())
        signature = [(id(p), p.requires_grad, p.dtype, p.device) for p in parameters]
        if signature != self._signature:
            self._signature = signature
            trained = [p for p in reversed(parameters) if p.requires_grad]
            self._follow([MeanBucket(group, self.comm) for group in arrange(trained, self._bucket_bytes)])

    def _let_go(self) -> None:
        super()._let_go()
        self._signature = []  # To be followed again, should this wrapper be used once more.


def average_gradients(model: Module, comm: Communicator | None = None, rows: int | None = None) -> None:
    """Replace every ``.grad`` of a model by its mean over ranks, for those who write the training loop themselves.

    Args:
        model: the same on every rank, after ``loss.backward()``.
        comm: the ranks; all when not given.
        rows: how many rows of the batch this rank had, where ranks have different numbers and the loss is a mean.

    A parameter that has no gradient on some ranks counts as zero there; without any it stays None. Call it on all ranks
    together. Raises ValueError for a QuantumLayer that averages over these ranks by itself.
    """
    if rows is not None and rows < 0:
        raise ValueError(f"rows must not be negative, got {rows}")
    comm = world() if comm is None else comm
    check_circuits([model], comm)
    if comm.size == 1:
        return
    parameters = [p for p in model.parameters() if p.requires_grad]
    if rows is not None:
        total = int(comm.all_reduce(np.array(rows, np.int64)))
        for p in parameters:
            if p.grad is not None:
                p.grad.data *= rows * comm.size / max(1, total)
    buckets = [MeanBucket(group, comm) for group in arrange(reversed(parameters), BUCKET_BYTES)]
    for bucket in buckets:
        bucket.launch()
    for bucket, used in zip(buckets, agree_on_use(comm, buckets)):
        bucket.finish(used)


def check_replicas(model: Module, comm: Communicator | None = None) -> None:
    """Raises ValueError, on every rank, with the name of a parameter whose values differ between ranks.

    Args:
        model: one that all ranks hold whole; parameters that are divided over ranks are left out.
        comm: the ranks; all when not given.

    Differences that rounding explains are none. Collective; a digest of 8 bytes travels unless something differs.
    """
    agree(model.named_parameters(), world() if comm is None else comm, "they have to start and to be updated alike")
