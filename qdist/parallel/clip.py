"""Gradient clipping by the norm of the whole model's gradient, wherever its parts are."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from ..comm import Communicator
from ..nn import Parameter
from ..tensor.arrays import Array

__all__ = ["clip_grad_norm_", "grad_norm"]


def grad_norm(parameters: Iterable[Parameter], *, over: Iterable[Communicator] = ()) -> float:
    """The 2-norm of a model's gradient, every parameter counted once: the same number on all ranks.

    Args:
        parameters: those that this rank counts. One that is divided (`partition`) is added up over its group; one
            that is whole on several ranks counts on each of them as a single one. What stages of a pipeline share,
            only one of them gives.
        over: groups whose ranks have different parameters: the stages of a pipeline, the shards of ZeRO.

    Collective over the groups.
    """
    whole = 0.0
    divided: dict[int, tuple[Communicator, float]] = {}
    for parameter in parameters:
        if parameter.grad is None:
            continue
        squares = _squares(parameter.grad.data)
        if parameter.partition is None:
            whole += squares
        else:
            comm = parameter.partition.comm
            divided[id(comm)] = (comm, squares + divided.get(id(comm), (comm, 0.0))[1])
    total = whole + sum(float(comm.all_reduce(np.array(part))) for comm, part in divided.values())
    for comm in over:
        total = float(comm.all_reduce(np.array(total)))
    return math.sqrt(total)


def clip_grad_norm_(
    parameters: Iterable[Parameter], max_norm: float, *, over: Iterable[Communicator] = (), counted: Iterable[Parameter] | None = None
) -> float:
    pass


def _squares(gradient: Array) -> float:
    flat = gradient.reshape(-1)
    return float(abs((flat.conj() @ flat).real))
