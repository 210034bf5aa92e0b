"""Replica: one model on many ranks, each with its own rows of the batch. What DataParallel and Zero share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..comm import Communicator, Work, world
from ..nn import Module
from ..tensor import Tensor, after_backward
from ..tensor.arrays import is_array, module_of
from ..tensor.autograd import mode
from .buckets import Bucket, agree_on_use, broadcast

__all__ = ["Replica"]


class Replica(Module):
    """A module whose gradients are combined over ranks, bucket by bucket, while the backward pass goes on.

    Args:
        module: the same on every rank; the first rank's parameters and buffers are taken over by all.
        comm: the ranks that share the batch, ``mesh["dp"]`` on a mesh; all ranks when not given.
        reduction: how the loss treats its rows. With "mean", gradients are weighted by each rank's number of rows (the
            length of the first array that forward gets), so they are those of the whole batch however it is shared
            out. With "sum" they are added up.

    A forward pass that records gradients, and its backward pass, are for all ranks together; inside ``no_grad()``
    nothing is sent, and any rank may evaluate alone.
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
        self.reduction = reduction
        self._rows = 1
        self._all_rows: Work | None = None
        self._weight = 1.0
        self._buckets: list[Bucket] = []
        self._bucket_of: dict[int, Bucket] = {}
        self._launched = 0
        self._sending = True  # not within no_sync()
        self._eager = True  # gradients are sent as they come
        self._remove_hooks: list[Callable[[], None]] = []
        if self.comm.size > 1:
            broadcast([*module.parameters(), *module.buffers()], self.comm)

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
        if self.reduction == "sum":
            self._weight = float(self.comm.size)
        else:
            self._rows = next((len(a) for a in _leaves((args, kwargs)) if a.ndim), 1)
            self._all_rows = self.comm.all_reduce(np.array(self._rows, np.int64), async_op=True)
        if self._sending:
            broadcast(self.module.buffers(), self.comm)
        output = self.module(*args, **kwargs)
        for tensor in _leaves(output):
            if isinstance(tensor, Tensor) and not tensor.is_leaf:
                # So that a rank takes part in the pass even where no parameter gets a gradient.
                tensor.register_hook(lambda _: self._enter())
        return output

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
        for remove in self._remove_hooks:
            remove()
        self._buckets = list(buckets)
        self._bucket_of = {id(p): bucket for bucket in self._buckets for p in bucket.parameters}
        watched = [p for bucket in self._buckets for p in bucket.parameters]
        self._remove_hooks = [p.register_hook(self._weighted) for p in watched]
        self._remove_hooks += [p.register_post_accumulate_hook(self._arrived) for p in watched]

    def _weighted(self, gradient: Tensor) -> Tensor | None:
        """This rank's gradient times what makes the plain mean over ranks the whole batch's gradient."""
        if self._all_rows is not None:
            total = int(self._all_rows.wait())
            self._weight = self._rows * self.comm.size / total if total else 0.0
            self._all_rows = None
        if self._weight == 0.0:
            # Not a product: the mean loss over no rows is not a number, and so may be its gradient.
            return Tensor(module_of(gradient.data).zeros_like(gradient.data))
        return None if self._weight == 1.0 else Tensor(gradient.data * self._weight)

    def _enter(self) -> None:
        if after_backward(self._finish):
            self._begin()

    def _begin(self) -> None:
        self._launched = 0
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
            for earlier in self._buckets[: self._launched]:
                earlier.poll()

    def _complete(self, bucket: Bucket) -> None:
        """All gradients of a bucket have come."""

    def _finish(self) -> None:
        """The backward pass is over."""
        if self._sending:
            self._combine()

    def _combine(self) -> None:
        """Send what is not sent yet and take what the others sent."""
        for bucket in self._buckets[self._launched :]:
            bucket.launch()
        used = agree_on_use(self.comm, self._buckets)
        for bucket, anywhere in zip(self._buckets, used):
            bucket.finish(anywhere)


def _leaves(value: Any) -> Iterator[Any]:
    """The Tensors and arrays in nested tuples, lists and dicts."""
    if isinstance(value, Tensor) or is_array(value):
        yield value
    elif isinstance(value, (tuple, list)):
        for part in value:
            yield from _leaves(part)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
