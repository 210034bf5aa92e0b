"""Buckets: gradients laid end to end in one array, so that one message carries many of them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from qdist.comm import Communicator, Work
from qdist.tensor import Tensor, no_grad
from qdist.tensor.arrays import FLOAT32, Array, is_half, module_of

__all__ = ["BUCKET_BYTES", "Bucket", "MeanBucket", "agree_on_use", "arrange", "broadcast"]

BUCKET_BYTES = 4 << 20
"""Of a bucket, at most, unless one gradient alone is larger: enough for MPI's bandwidth, and many in a big model."""


class Bucket:
    """Parameters of one dtype and device, and the gradients that a backward pass has not brought yet.

    Sub-classes say what is sent, in ``launch``, and what becomes of it, in ``finish``.
    """

    def __init__(self, parameters: Sequence[Any], comm: Communicator) -> None:
        self.parameters = list(parameters)
        self.comm = comm
        self.shapes = [p.shape for p in self.parameters]
        self.spans = list(pairwise(accumulate([p.size for p in self.parameters], initial=0)))
        """Where each parameter stands when all are laid end to end."""
        self.dtype: np.dtype = self.parameters[0].dtype
        self.missing: set[int] = set()
        self.present = [False] * len(self.parameters)
        """Which parameters had a gradient when it was sent."""
        self.work: Work | None = None

    @property
    def wire_dtype(self) -> np.dtype:
        """In which gradients are added up: MPI knows no half precision, and sums of it would be poor."""
        return FLOAT32 if is_half(self.dtype) else self.dtype

    def begin(self) -> None:
        """A backward pass begins: no gradient is there yet."""
        self.missing = {id(p) for p in self.parameters}
        if self.work is not None:
            # Left behind by a pass that failed; its memory is needed again.
            self.work.wait()
            self.work = None

    def fill(self, flat: Array) -> None:
        """Lay this rank's share of the mean, its gradients over the number of ranks, into a 1-D array.

        Zeros stand where there is none, and behind the last.
        """
        xp = module_of(flat)
        self.present = [p.grad is not None for p in self.parameters]
        for p, shape, (start, stop) in zip(self.parameters, self.shapes, self.spans):
            if p.grad is None:
                flat[start:stop] = 0
            else:
                target = flat[start:stop].reshape(shape)
                xp.multiply(p.grad.data, 1 / self.comm.size, out=target, dtype=flat.dtype)
        flat[self.spans[-1][1] :] = 0

    def launch(self) -> None:
        """Send what is there."""
        raise NotImplementedError

    def poll(self) -> bool:
        """Whether what was sent has arrived. Most transports move data only while they are asked."""
        return self.work is None or self.work.is_completed()

    def land(self) -> None:
        """Wait until what was sent has arrived."""
        if self.work is not None:
            self.work.wait()

    def finish(self, used: Sequence[bool]) -> None:
        """Wait, and hand out the result. used: which parameters had a gradient on any rank."""
        raise NotImplementedError


class MeanBucket(Bucket):
    """Gradients that become their mean over the ranks, on every rank: views of the array that was sent."""

    flat: Array | None = None

    def launch(self) -> None:
        # getrefcount counts this object's reference and its own argument. More are views that gradients still hold: the
        # array is left to them.
        if self.flat is None or sys.getrefcount(self.flat) > 2:
            self.flat = module_of(self.parameters[0].data).empty(self.spans[-1][1], self.wire_dtype)
        self.fill(self.flat)
        self.work = self.comm.all_reduce(self.flat, out=self.flat, async_op=True)

    def finish(self, used: Sequence[bool]) -> None:
        assert self.work is not None
        mean, self.work = self.work.wait(), None
        for p, shape, (start, stop), somewhere in zip(self.parameters, self.shapes, self.spans, used):
            if somewhere:
                p.grad = Tensor(mean[start:stop].reshape(shape).astype(self.dtype, copy=False))


def arrange(parameters: Iterable[Any], bucket_bytes: int = BUCKET_BYTES) -> list[list[Any]]:
    """Tensors in groups of one dtype and device and at most so many bytes, in the order given; those of parameters that
    keep their precision (angles of circuits) apart.

    Groups are in the order in which they are complete when their members' gradients come in the order given.
    """
    filling: dict[Any, list[Any]] = {}
    last: dict[int, tuple[int, list[Any]]] = {}
    for number, p in enumerate(parameters):
        kind = p.dtype, p.device, getattr(p, "keeps_precision", False)
        group = filling.get(kind)
        if group is None or sum(q.nbytes for q in group) + p.nbytes > bucket_bytes:
            group = filling[kind] = []
        group.append(p)
        last[id(group)] = number, group
    return [group for _, group in sorted(last.values(), key=lambda entry: entry[0])]


def agree_on_use(comm: Communicator, buckets: Sequence[Bucket]) -> list[list[bool]]:
    """For every parameter of every bucket, whether any rank had a gradient for it. One byte a parameter is sent."""
    mine = np.array([flag for bucket in buckets for flag in bucket.present], np.uint8)
    anywhere = iter(comm.all_reduce(mine, "max").astype(bool).tolist())
    return [[next(anywhere) for _ in bucket.present] for bucket in buckets]


def broadcast(tensors: Iterable[Tensor], comm: Communicator) -> None:
    """Give every rank the first rank's values of these tensors, in place."""
    for group in arrange(tensors):
        flat = comm.broadcast(module_of(group[0].data).concatenate([t.data.reshape(-1) for t in group]))
        start = 0
        with no_grad():
            for t in group:
                t.assign(flat[start : start + t.size].reshape(t.shape))
                start += t.size
