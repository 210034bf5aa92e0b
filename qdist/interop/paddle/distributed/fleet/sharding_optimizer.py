"""sharding_degree: the optimiser's state divided over ranks that have other rows of the batch (ZeRO stage 1)."""

from __future__ import annotations

from typing import Any

import numpy as np

from .....comm import Communicator
from .....optim import Optimizer
from .....parallel.replica.buckets import arrange
from .....tensor import Tensor, no_grad
from .....tensor.arrays import module_of

__all__ = ["ShardingOptimizer", "owners"]


def owners(sizes: list[int], ranks: int) -> list[int]:
    """Which rank keeps the state of each parameter: the one with the fewest numbers so far."""
    loads = np.zeros(ranks, np.int64)
    chosen = []
    for size in sizes:
        chosen.append(int(loads.argmin()))
        loads[chosen[-1]] += size
    return chosen


class ShardingOptimizer:
    """An optimiser that updates a part of the parameters on every rank of a group, and gives them to the others.

    Args:
        optimizer: of all parameters, before its first step; its grad_clip is done here, on all of them.
        comm: the group; gradients are complete on all of its ranks when step() is called.
    """

    def __init__(self, optimizer: Optimizer, comm: Communicator) -> None:
        if optimizer.started:
            raise ValueError("distributed_optimizer: the optimiser has made steps, whose state is not divided")
        self.optimizer, self.comm = optimizer, comm
        self.parameters: list[Tensor] = [p for group in optimizer.param_groups for p in group["params"]]
        self.owners = owners([p.size for p in self.parameters], comm.size)
        own = {id(p) for p, owner in zip(self.parameters, self.owners) if owner == comm.rank}
        optimizer.exchange_parameters(lambda p: [p] if id(p) in own else [])
        self.grad_clip = getattr(optimizer, "grad_clip", None)
        self._over: dict[str, Any] = {}
        if self.grad_clip is not None:
            optimizer.grad_clip = None  # type: ignore[attr-defined]

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """The options, and the parameters that this rank updates."""
        return self.optimizer.param_groups

    def counting(self, **over: Any) -> None:
        """Where the other parameters of the model are, for clipping; as of `GradClip`."""
        self._over = over

    def step(self) -> None:
        """Update every parameter that has a gradient; collective over the group."""
        if self.grad_clip is not None:
            self.grad_clip(self.parameters, **self._over)
        self.optimizer.step()
        for rank in range(self.comm.size):
            for tensors in arrange(p for p, owner in zip(self.parameters, self.owners) if owner == rank):
                flat = module_of(tensors[0].data).concatenate([t.data.reshape(-1) for t in tensors])
                flat, start = self.comm.broadcast(flat, rank), 0
                with no_grad():
                    for t in tensors if rank != self.comm.rank else ():
                        t.assign(flat[start : start + t.size].reshape(t.shape))
                        start += t.size

    def zero_grad(self) -> None:
        """Forget all gradients."""
        for parameter in self.parameters:
            parameter.grad = None

    clear_grad = clear_gradients = zero_grad

    def minimize(self, loss: Tensor) -> None:
        """backward() and step()."""
        loss.backward()
        self.step()

    def get_lr(self) -> float:
        """The learning rate."""
        return self.param_groups[0]["lr"]

    def state_dict(self) -> dict[str, Any]:
        """The state of the parameters that this rank updates, which load_state_dict takes on as many ranks."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a saved state."""
        self.optimizer.load_state_dict(state)
