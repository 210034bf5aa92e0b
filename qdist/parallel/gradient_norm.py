"""Gradient clipping by the norm of the whole model's gradient, wherever its parts are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Protocol

import numpy as np

from qdist.comm import Communicator
from qdist.optim.clip import check_here, check_max_norm, listed, scale_gradients, squares
from qdist.parallel.partition import Partition
from qdist.tensor import Tensor

__all__ = ["Graded", "clip_grad_norm_", "grad_norm"]


class Graded(Protocol):
    """A Parameter, the part of one that a rank updates, or any other Tensor with a gradient, which is whole."""

    @property
    def grad(self) -> Tensor | None: ...


def grad_norm(
    parameters: Iterable[Graded], *, over: Sequence[Communicator] = (), elsewhere: Iterable[Graded] = ()
) -> float:
    """The 2-norm of a model's gradient, every parameter counted once: the same number on all ranks.

    Args:
        parameters: this rank's. One that is divided (its `partition`) is added up over its group; one that is whole
            on several ranks counts once.
        over: groups whose ranks have different parameters: the stages of a pipeline, the shards of ZeRO.
        elsewhere: those of `parameters` that another rank of `over` counts: what stages share.

    Collective over the groups. The gradients must be complete: averaged where ranks have different rows.
    """
    skipped = {id(parameter) for parameter in elsewhere}
    total = 0.0
    divided: dict[Communicator, float] = {}
    for parameter in parameters:
        if id(parameter) in skipped:
            continue
        own = 0.0 if parameter.grad is None else squares(parameter.grad)
        partition: Partition | None = getattr(parameter, "partition", None)
        if partition is None:
            total += own
        else:
            # A group takes part even when it has no gradient here: the others may have one.
            comm = partition.comm
            divided[comm] = divided.get(comm, 0.0) + own
    total += sum(float(comm.all_reduce(np.array(part))) for comm, part in divided.items())
    for comm in over:
        total = float(comm.all_reduce(np.array(total)))
    return math.sqrt(total)


def clip_grad_norm_(
    parameters: Iterable[Graded],
    max_norm: float,
    *,
    over: Sequence[Communicator] = (),
    elsewhere: Iterable[Graded] = (),
) -> float:
    """Scale all gradients of a model so that their joint norm is at most max_norm; returns the norm before.

    Arguments as of `grad_norm`; collective over the same groups.

    Raises:
        ValueError: when max_norm is not positive, and for parameters that Zero has divided, before anything is sent.
        RuntimeError: when the norm is not finite, on all ranks; gradients are left as they are.
    """
    check_max_norm(max_norm)
    parameters = listed(parameters)
    check_here(parameters)
    norm = grad_norm(parameters, over=over, elsewhere=elsewhere)
    scale_gradients([p.grad for p in parameters if p.grad is not None], norm, max_norm)
    return norm
