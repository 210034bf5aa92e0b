"""Gradients laid end to end: one message for many of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any

import numpy as np

from ..comm import Communicator, Work
from ..tensor import Tensor, no_grad
from ..tensor.arrays import FLOAT32, Array, device_of, module_of

__all__ = ["BUCKET_BYTES", "Bucket", "MeanBucket", "agree_on_use", "arrange", "broadcast"]

BUCKET_BYTES = 25 << 20
"""Of a bucket, at most, unless one gradient alone is larger: enough to use the bandwidth, and many for a big model."""


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
        return FLOAT32 if self.dtype == np.float16 else self.dtype

    def begin(self) -> None:
        """A backward pass begins: no gradient is there yet."""
        self.missing = {id(p) for p in self.parameters}
        if self.work is not None:
            # Left behind by a pass that failed; its memory is needed again.
            self.work.wait()
            self.work = None

    def fill(self, flat: Array) -> None:
        """Copy the gradients into a 1-D array, zeros where there is none."""
        self.present = [p.grad is not None for p in self.parameters]
        for p, shape, (start, stop) in zip(self.parameters, self.shapes, self.spans):
            flat[start:stop].reshape(shape)[...] = 0 if p.grad is None else p.grad.data

    def launch(self) -> None:
        """Send what is there."""
        raise NotImplementedError

    def poll(self) -> None:
        """Let the transport go on: most move data only while they are called."""
        if self.work is not None:
            self.work.is_completed()

    def finish(self, used: Sequence[bool]) -> None:
        """Wait, and hand out the result. used: which parameters had a gradient on any rank."""
        raise NotImplementedError


class MeanBucket(Bucket):
    """Gradients that become their mean over the ranks, on every rank."""

    flat: Array | None = None

    def launch(self) -> None:
        if self.flat is None:
            xp = module_of(self.parameters[0].data)
            self.flat = xp.empty(self.spans[-1][1], self.wire_dtype)
        self.fill(self.flat)
        self.work = self.comm.all_reduce(self.flat, "avg", out=self.flat, async_op=True)

    def finish(self, used: Sequence[bool]) -> None:
        assert self.work is not None
        mean, self.work = self.work.wait(), None
        for p, shape, (start, stop), somewhere in zip(self.parameters, self.shapes, self.spans, used):
            if not somewhere:
                continue
            if p.grad is None:
                p.grad = Tensor(module_of(mean).empty(shape, self.dtype))
            p.grad[...] = mean[start:stop].reshape(shape)


def arrange(parameters: Iterable[Any], bucket_bytes: int = BUCKET_BYTES) -> list[list[Any]]:
    """Tensors in groups of one dtype and device and at most so many bytes, in the order given.

    Groups are in the order in which they are complete when their members' gradients come in the order given.
    """
    filling: dict[Any, list[Any]] = {}
    last: dict[int, tuple[int, list[Any]]] = {}
    for number, p in enumerate(parameters):
        kind = p.dtype, device_of(p.data)
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
