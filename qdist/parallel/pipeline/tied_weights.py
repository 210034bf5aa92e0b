"""Tied weights: one parameter in layers on several ranks, such as a table that embeds tokens and scores them.

Every rank has a copy. The copies start equal and get the sum of all ranks' gradients, so they stay equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from qdist.comm import Communicator
from qdist.nn import Module, Parameter
from qdist.parallel.replica.buckets import broadcast
from qdist.tensor import Tensor
from qdist.tensor.arrays import to_device
from qdist.tensor.half import wide_array

__all__ = ["TiedWeights"]


class TiedWeights:
    """What this rank shares with others.

    Args:
        layers: all layers of the model, the same on every rank; a parameter is tied when it is the same object in
            layers of several ranks.
        ranks: the rank of each layer.
        comm: of these ranks. Collective: copies are made equal to that of the first rank that has one.
    """

    def __init__(self, layers: Sequence[Any], ranks: Sequence[int], comm: Communicator) -> None:
        holders: dict[int, tuple[Parameter, set[int]]] = {}
        for layer, rank in zip(layers, ranks, strict=True):
            for parameter in layer.parameters() if isinstance(layer, Module) else ():
                holders.setdefault(id(parameter), (parameter, set()))[1].add(rank)
        groups: dict[tuple[int, ...], Communicator | None] = {}
        self._shared: list[tuple[Parameter, Communicator]] = []
        for parameter, holding in holders.values():
            members = tuple(sorted(holding))
            if len(members) == 1:
                continue
            if members not in groups:
                groups[members] = comm.new_group(members, name=f"{comm.name}: weights tied between {members}")
            if (group := groups[members]) is not None:
                self._shared.append((parameter, group))
        for parameter, group in self._shared:
            broadcast([parameter], group)

    def __len__(self) -> int:
        return len(self._shared)

    def counted_elsewhere(self) -> list[Parameter]:
        """The parameters that an earlier rank has too: whoever adds over all ranks leaves them out."""
        return [parameter for parameter, group in self._shared if group.rank > 0]

    @contextmanager
    def summing(self) -> Iterator[None]:
        """The gradients that are made within it are added up over the ranks when it ends.

        A weight that no rank used has none, as in one process.
        """
        trained = [(parameter, group) for parameter, group in self._shared if parameter.requires_grad]
        # Those that were there before are sums already.
        before = [parameter.grad for parameter, _ in trained]
        for parameter, _ in trained:
            parameter.grad = None
        yield
        for (parameter, group), earlier in zip(trained, before):
            if not group.all_reduce(np.array(parameter.grad is not None, np.uint8), "max"):
                parameter.grad = earlier
                continue
            if parameter.grad is None:
                # Its shape and not its values, which ZeRO may have sharded, make the zeros.
                own = to_device(np.zeros(parameter.shape, parameter.dtype), parameter.device)
            else:
                own = parameter.grad.data
            total = group.all_reduce(wide_array(own))
            parameter.grad = Tensor(total if earlier is None else earlier.data + total)
