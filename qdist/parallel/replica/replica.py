"""Replica: one model on many ranks, each with its own rows of the batch. What DataParallel and Zero share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from itertools import zip_longest
from typing import Any

import numpy as np

from qdist.comm import Communicator, world
from qdist.nn import Module
from qdist.parallel.loss_terms import Loss, global_mean, loss_terms
from qdist.parallel.replica.buckets import Bucket, agree_on_use, broadcast
from qdist.parallel.replica.row_share import RowShare, Share
from qdist.parallel.replica.shared_circuits import amplitude_groups, check_circuits
from qdist.parallel.replica.sync_batch_norm import SyncBatchNorm
from qdist.tensor import Tensor, after_backward, random
from qdist.tensor.arrays import is_array, module_of
from qdist.tensor.autograd import accumulates, mode

__all__ = ["Replica", "check_same_model"]


class Replica(Module):
    """A module whose gradients are combined over ranks, bucket by bucket, while the backward pass goes on.

    Args:
        module: the same on every rank; the first rank's parameters and buffers are taken over by all, also by ranks
            that share the amplitudes of a circuit in it.
        comm: the ranks that share the batch, ``mesh["dp"]`` on a mesh; all ranks when not given.
        reduction: how the loss treats its rows. With "mean", gradients are weighted by how many values each rank's
            loss is a mean over, so they are those of the whole batch however it is shared out and masked: the number
            that `nn.CrossEntropyLoss(ignore_index=...)` and its like, or `values.mean()`, have divided by. A quotient
            of your own (`(values * mask).sum() / mask.sum()`) is taken for a mean over rows, the length of the first
            array that forward gets: use ``loss()`` for those. With "sum" gradients are added up.

    A forward pass that records gradients, and its backward pass, are for all ranks together; inside ``no_grad()``
    nothing is sent, and any rank may evaluate alone. Backward passes add up, as in one process: who makes a step of k
    of them divides each loss by k.

    Dropout has the masks that one process would draw for the whole batch, whose rows are the first axis: from the first
    rank's generator, each rank its rows. Seeds need not differ.
    """

    def __init__(self, module: Module, comm: Communicator | None, reduction: str) -> None:
        super().__init__()
        if not isinstance(module, Module):
            raise TypeError(f"{type(self).__name__} takes a Module, not {type(module).__name__}")
        if comm is not None and not isinstance(comm, Communicator):
            raise TypeError(f'comm is a Communicator, such as mesh["dp"], not {type(comm).__name__}')
        if reduction not in ("mean", "sum"):
            raise ValueError(f'reduction={reduction!r}: the loss is a "mean" or a "sum" over its rows')
        self.module = module
        self.comm = world() if comm is None else comm
        check_circuits([module], self.comm)
        self.reduction = reduction
        self._share: Share | None = None
        self._next: Share | None = None  # Of the next forward pass, where others know it already.
        self._buckets: list[Bucket] = []
        self._bucket_of: dict[int, Bucket] = {}
        self._launched = self._landed = 0
        self._sending = True  # not within no_sync()
        self._eager = True  # gradients are sent as they come
        self._most_sent: int | None = None  # buckets under way at a time
        self._remove_hooks: list[Callable[[], None]] = []
        self._take_over(module.parameters())
        # What is built without values gets them, and the first rank's, when it is divided.
        given = [*(p for p in module.parameters() if not p.deferred), *module.buffers()]
        for group in amplitude_groups(module):
            # Ranks that share a circuit are in different groups of those that share the batch.
            broadcast(given, group)
        if self.comm.size > 1:
            check_same_model(module, self.comm)
            broadcast(given, self.comm)

    # The wrapper is invisible: modules, parameters and states have the names that the plain model gives them.
    def _walk(self, prefix: str, seen: set[int]) -> Iterator[tuple[str, Module]]:
        if id(self) not in seen:
            seen.add(id(self))
            yield prefix, self
            yield from self.module._walk(prefix, seen)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes, for this rank's rows."""
        if not mode.grad or self.comm.size == 1:
            return self.module(*args, **kwargs)
        rows = next((len(a) for a in _leaves((args, kwargs)) if a.ndim), 1)
        self._share = share = self._next or RowShare(self.comm, rows, self.reduction)
        self._next = None
        if self._sending:
            broadcast(self.module.buffers(), self.comm)
        with random.placed(share):
            output = self.module(*args, **kwargs)
        for tensor in _leaves(output):
            if isinstance(tensor, Tensor) and not tensor.is_leaf:
                # So that a rank takes part in the pass even where no parameter gets a gradient.
                tensor.register_hook(lambda _: self._enter(share))
        return output

    def loss(self, loss: Loss, output: Any, targets: Any) -> Tensor:
        """The loss of the whole batch, on every rank, with the gradients of the whole batch.

        Args:
            loss: loss(output, targets): one of `nn`, or a function that gives one number, a mean over rows (or a sum,
                by `reduction`), or a pair (numerator, denominator) whose sums over all ranks make the mean.
            output: what this model's forward pass gave.
            targets: of this rank's rows.

        Collective. Inside no_grad() it is the same number, for evaluation.
        """
        rows = next((len(a) for a in _leaves(targets) if a.ndim), 1)
        terms = loss_terms(loss, output, targets, rows, self.reduction)
        return global_mean(terms, self.comm)

    def take_share(self, share: Share) -> None:
        """Of the next forward pass, where others know it already and fix what it counts."""
        self._next = share

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, backward passes add to this rank's own gradients and send none.

        The next pass outside sends the sums. For several micro-batches a step: all but the last go inside.
        """
        before, self._sending = self._sending, False
        try:
            yield
        finally:
            self._sending = before

    # During the backward pass

    def _follow(self, buckets: Sequence[Bucket]) -> None:
        """Watch the gradients of these buckets' parameters; launch the buckets in this order, on every rank."""
        self._unwatch()
        self._take_over(p for bucket in buckets for p in bucket.parameters)
        self._buckets = list(buckets)
        self._bucket_of = {id(p): bucket for bucket in self._buckets for p in bucket.parameters}
        watched = [p for bucket in self._buckets for p in bucket.parameters]
        self._remove_hooks = [p.register_hook(self._weighted) for p in watched]
        self._remove_hooks += [p.register_post_accumulate_hook(self._arrived) for p in watched]

    def _weighted(self, gradient: Tensor) -> Tensor | None:
        """This rank's gradient times what makes the plain mean over ranks the whole batch's gradient."""
        if self._share is None and self._sending and self.comm.size > 1 and accumulates():
            raise RuntimeError(
                "this gradient comes from a forward pass of the module itself, which ranks do not make together: "
                f"call the {type(self).__name__} that was made of it, model(x), in its place"
            )
        weight = 1.0 if self._share is None else self._share.weight
        if weight == 0.0:
            # Not a product: the mean loss over no rows is not a number, and so may be its gradient.
            return Tensor(module_of(gradient.data).zeros_like(gradient.data))
        return None if weight == 1.0 else Tensor(gradient.data * weight)

    def _take_over(self, parameters: Iterable[Tensor]) -> None:
        """Have an earlier wrapper of these parameters let go of them: they are averaged once."""
        for p in parameters:
            for hook in tuple(p._complete or ()):
                other = getattr(hook, "__self__", None)
                if isinstance(other, Replica) and other is not self:
                    other._let_go()

    def _let_go(self) -> None:
        """Another wrapper takes over."""
        self._unwatch()

    def _unwatch(self) -> None:
        for remove in self._remove_hooks:
            remove()
        self._remove_hooks = []

    def _enter(self, share: Share | None = None) -> None:
        """A backward pass has got here; share: of the forward pass whose output it came from."""
        self._share = share or self._share
        if after_backward(self._finish):
            self._begin()

    def _begin(self) -> None:
        self._launched = self._landed = 0
        for bucket in self._buckets:
            bucket.begin()

    def _arrived(self, parameter: Tensor) -> None:
        self._enter()
        bucket = self._bucket_of[id(parameter)]
        if id(parameter) not in bucket.missing and bucket.work is not None:
            raise RuntimeError(
                f"a parameter of shape {parameter.shape} got another gradient in the pass that has sent it already: "
                "run this backward pass inside no_sync() and call average_gradients() after it"
            )
        bucket.missing.discard(id(parameter))
        if not bucket.missing:
            self._complete(bucket)
        if self._sending and self._eager:
            # In a fixed order, since ranks may get their gradients in different ones.
            while self._launched < len(self._buckets) and not self._buckets[self._launched].missing:
                self._buckets[self._launched].launch()
                self._launched += 1
            while self._landed < self._launched and self._buckets[self._landed].poll():
                self._landed += 1
            while self._most_sent is not None and self._launched - self._landed > self._most_sent:
                self._buckets[self._landed].land()
                self._landed += 1

    def _complete(self, bucket: Bucket) -> None:
        """All gradients of a bucket have come."""

    def _finish(self) -> None:
        """The backward pass is over."""
        self._settle_share()
        if self._sending:
            self._combine()

    def _settle_share(self) -> None:
        if self._share is None:
            return
        if isinstance(self._share, RowShare) and self.reduction == "mean":
            self._check_statistics(self._share.weight)
        self._share.settle()

    def _check_statistics(self, weight: float) -> None:
        """Gradients through statistics that ranks share have been added up before anybody weighted them."""
        if np.isclose(weight, 1.0, rtol=1e-9) or not accumulates():
            return
        if any(isinstance(m, SyncBatchNorm) and m.training and m.comm is self.comm for m in self.module.modules()):
            raise ValueError(
                "the loss is a mean over different shares of the batch on different ranks, and SyncBatchNorm has added "
                "their gradients up as if the shares were equal: give model.loss(loss, output, targets), which is the "
                "whole batch's, or equally many rows to all ranks"
            )

    def _combine(self) -> None:
        """Send what is not sent yet and take what the others sent."""
        for bucket in self._buckets[self._launched :]:
            bucket.launch()
        used = agree_on_use(self.comm, self._buckets)
        for bucket, anywhere in zip(self._buckets, used):
            bucket.finish(anywhere)


def check_same_model(module: Module, comm: Communicator) -> None:
    """Raises ValueError, on every rank, unless all ranks have parameters and buffers of the same shapes."""
    mine = [f"{name} {t.dtype}{list(t.shape)}" for name, t in module.state_dict().items()]
    digest = int.from_bytes(sha256("\n".join(mine).encode()).digest()[:4], "little")
    highest, lowest = comm.all_reduce(np.array([digest, -digest], np.int64), "max")
    if highest == -lowest:
        return
    first, *others = comm.all_gather_object(mine)
    for rank, theirs in enumerate(others, 1):
        different = next((pair for pair in zip_longest(first, theirs) if pair[0] != pair[1]), None)
        if different is not None:
            has, lacks = (part or "nothing" for part in different)
            raise ValueError(f"rank {rank} has another model than rank 0: {lacks} in the place of {has}")


def _leaves(value: Any) -> Iterator[Any]:
    """The Tensors and arrays in nested tuples, lists and dicts."""
    if isinstance(value, Tensor) or is_array(value):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _leaves(part)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
